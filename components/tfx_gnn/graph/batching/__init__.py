"""Many graphs as one: packing, padding, and the size constraints of batches."""
