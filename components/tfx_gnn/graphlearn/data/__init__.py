"""GraphLearn's data objects: subgraphs in numpy, and dense or merged batches that TensorFlow takes as values."""
