"""Graph schemas: their files, the specs that they declare, and what makes them valid."""
