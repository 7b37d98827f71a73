"""A tiny shop as tables: small enough to list every subgraph by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

SHOP_SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } }
  features { key: "color" value { dtype: DT_STRING } }
  metadata { filename: "users.csv" } } }
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "price" value { dtype: DT_FLOAT } }
  metadata { filename: "items.csv" extra { key: "id_column" value: "number" } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  metadata { filename: "knows.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "count" value { dtype: DT_INT32 } }
  metadata { filename: "buys.csv"
    extra { key: "source_column" value: "user" } extra { key: "target_column" value: "item" } } } }
"""

# `knows` has a self loop (ann), parallel edges (ann, bob) and a node without any edge (dan). The
# files are not in the order of ids: rows of the node tables are ann 0, bob 1, cid 2, dan 3 and 7 -> 0, 12 -> 1.
SHOP_FILES = {
    "graph_schema.pbtxt": SHOP_SCHEMA,
    "users.csv": "id,age,color,part\nbob,30,red,train\nann,20,blue,train\ndan,50,red,test\ncid,40,blue,val\n",
    "items.csv": "number,price\n12,1.5\n7,0.25\n",
    "knows.csv": "source,target\nann,bob\nann,ann\nbob,cid\nann,bob\n",
    "buys.csv": "user,item,count\nann,7,1\nbob,7,2\ncid,12,3\nbob,12,4\n",
}


def write_files(folder: Path, files: dict[str, str]) -> str:
    """Writes text files and returns the folder's path."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def shop_dir(tmp_path: Path) -> str:
    """Tables folder of the shop."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return write_files(folder, SHOP_FILES)
