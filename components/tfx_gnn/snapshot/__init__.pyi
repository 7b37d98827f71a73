from tfx_gnn.snapshot.open_source import open_source as open_source
from tfx_gnn.snapshot.snapshot_manifest import SnapshotManifest as SnapshotManifest
from tfx_gnn.snapshot.snapshot_manifest import TableEntry as TableEntry
from tfx_gnn.snapshot.take_snapshot import take_snapshot as take_snapshot
