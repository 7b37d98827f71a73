"""Graph neural networks in production on TensorFlow."""

__version__ = "0.1.0"
