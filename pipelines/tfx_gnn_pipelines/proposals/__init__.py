"""Proposes projects for tables: their graph schema, a plan, features, a split and a label."""
