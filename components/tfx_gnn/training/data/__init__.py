"""From transformed examples to padded, labelled batches of every replica."""
