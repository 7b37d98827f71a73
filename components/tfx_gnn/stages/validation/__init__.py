"""The checks of GraphExampleValidator."""
