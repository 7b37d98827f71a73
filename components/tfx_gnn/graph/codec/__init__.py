"""Graph tensors from and to serialized tf.Examples, and from and to flat tensors."""
