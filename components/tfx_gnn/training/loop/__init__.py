"""One training: the model, its steps under every strategy, and what guards them."""
