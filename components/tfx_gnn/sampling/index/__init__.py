"""The graph index: a whole graph as files that are mapped into memory, and how they are made."""
