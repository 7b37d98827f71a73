"""Graph tensors: node sets, edge sets, context, and their type specs."""
