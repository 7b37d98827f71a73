"""Ready-made networks: stacks of one convolution with normalization and residuals, over states encoded before."""
