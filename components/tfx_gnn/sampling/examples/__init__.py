"""Sampled subgraphs as serialized tf.Examples."""
