"""Examples in memory, under PyG's names: attributes by key, collated into batches that can become graph tensors."""
