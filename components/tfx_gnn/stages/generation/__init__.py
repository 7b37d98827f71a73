"""Examples made from tables, in one process or by Beam."""
