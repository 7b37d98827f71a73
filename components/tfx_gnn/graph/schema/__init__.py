"""Graph schemas: reading and writing, validation, and conversion to and from type specs."""
