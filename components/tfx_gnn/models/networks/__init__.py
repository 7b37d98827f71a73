"""Ready networks: stacks of one convolution with encoders, normalization and residuals."""
