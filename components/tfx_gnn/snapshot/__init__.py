"""Takes snapshots of databases and folders of data: each table becomes a Parquet file that keeps its types and keys.

Needs drivers of the databases (the extra `snapshot`); see docs/how_to/databases.md.
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
