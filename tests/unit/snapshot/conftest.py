from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tfx_gnn.snapshot.open_source import open_source
from tfx_gnn.snapshot.take_snapshot import take_snapshot


@pytest.fixture
def taken(tmp_path):
    """Takes a snapshot and reads it back: the manifest, and the tables by name."""

    def take(address, **chosen):
        folder = tmp_path / "snapshot"
        folder.mkdir(exist_ok=True)
        with open_source(str(address)) as source:
            manifest = take_snapshot(source, str(folder), **chosen)
        return manifest, {name: pq.read_table(folder / entry.file) for name, entry in manifest.tables.items()}

    return take
