"""Ready-made networks: each stacks one kind of convolution, with normalization and residuals, over encoded states."""
