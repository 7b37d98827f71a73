"""Processes that are killed leave a whole index or none, and lose no row of an overlay that was acknowledged."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.components.graph_indexer.stage import build_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay

PROGRAM = Path(__file__).parent / "killed_processes.py"
BUILDS = {
    "tables_are_read": False,
    "edges_are_sorted": False,
    "manifest_is_not_there": False,
    "manifest_is_there": False,
    "folder_has_no_name": False,
    "folder_has_its_name": True,
}
ADDS = {"half_written": True, "before_the_flush": False, "after_the_flush": False}


def _build(tables_dir, index_dir):
    build_graph_index(tables_dir=tables_dir, graph_index_dir=index_dir, options=GraphIndexerOptions())


def test_kills_leave_a_whole_index_or_none_and_all_rows_that_were_acknowledged(shop_dir, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    _build(shop_dir, str(tmp_path / "whole"))

    subprocess.run(
        [sys.executable, str(PROGRAM), shop_dir, str(tmp_path / "whole"), str(folder)],
        check=True,
        capture_output=True,
        timeout=300,
    )

    for name, is_whole in BUILDS.items():
        index_dir = str(folder / name / "index")
        assert os.path.exists(index_dir) == is_whole
        if is_whole:
            with pytest.raises(FileExistsError, match="must be absent or an empty folder"):
                _build(shop_dir, index_dir)
        else:
            _build(shop_dir, index_dir)
        assert open_graph_index(index_dir, verify=True).edge_tables["buys"].num_edges == 4
        assert os.listdir(folder / name) == ["index"]
    index = open_graph_index(str(tmp_path / "whole"))
    for name, is_cut in ADDS.items():
        path = str(folder / f"{name}.log")
        acknowledged = [int(line) for line in (folder / f"{name}.acknowledged").read_text().splitlines()]
        assert acknowledged == [100, 101, 102, 103, 104]
        with open_graph_overlay(index, path) as overlay:
            assert (overlay.num_cut > 0) == is_cut
            assert (overlay.snapshot().find_nodes("item", pa.array(acknowledged)) >= 0).all()
            overlay.add(nodes={"item": {"#id": [999], "price": [1.0]}})
        with open_graph_overlay(index, path) as overlay:
            assert overlay.num_cut == 0
            assert overlay.snapshot().find_nodes("item", pa.array([104, 999])).tolist()[0] >= 0
