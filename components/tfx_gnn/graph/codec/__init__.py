"""Converts graph tensors to and from serialized tf.Examples and flat tensors; packs both into batches."""
