"""The parts of GraphTransform: statistics of unique items, and the saved transform applied."""
