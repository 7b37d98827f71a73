"""What graph tf.Examples hold: their layout, and one pass over them."""
