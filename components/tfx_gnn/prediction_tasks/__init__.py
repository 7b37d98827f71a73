"""Prediction tasks over the tables of a database: in words, in SQL, or as rows that are given.

Needs DuckDB (the extra `sql`).
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
