"""The training loop under every strategy."""
