"""Graph tensors: node sets, edge sets and context, and their type specs."""
