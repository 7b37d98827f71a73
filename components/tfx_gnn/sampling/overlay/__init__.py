"""Nodes and edges on top of a graph index: added, kept in a log, seen at once, and part of the next index."""
