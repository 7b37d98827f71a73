"""A kill during the change to the next index loses no row, and leaves none twice."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay, read_graph_overlay
from tfx_gnn.sampling.overlay.next_index import write_next_index

PROGRAM = Path(__file__).parent / "killed_moves.py"


def test_a_move_that_is_killed_before_any_change_of_the_disk_can_go_on(index, tmp_path):
    (tmp_path / "1").symlink_to(index.index_dir)
    path, hub = tmp_path / "overlay.log", index.node_tables["a"].ids[0].as_py()
    with open_graph_overlay(index, str(path)) as overlay:
        for node in (100, 200, 300):
            if node == 200:
                snapshot, position = read_graph_overlay(index, str(path))
                write_next_index(snapshot, str(tmp_path / "2"), overlay=position)
            overlay.add(nodes={"b.c/d": {"#id": [node]}}, edges={"ba": {"#source": [node], "#target": [hub]}})

    subprocess.run([sys.executable, str(PROGRAM), str(tmp_path)], check=True, capture_output=True, timeout=300)

    following, states = open_graph_index(str(tmp_path / "2")), {}
    for killed in sorted(tmp_path.glob("move_*")):
        for _ in range(2):  # The second time it has moved for sure.
            with open_graph_overlay(following, str(killed / "overlay.log")) as overlay:
                graph = overlay.snapshot()
        ids = pa.array([100, 200, 300])
        assert (graph.find_nodes("b.c/d", ids) >= 0).all()
        has_more = int(graph.find_nodes("b.c/d", pa.array([900]))[0] >= 0)
        assert graph.node_tables["b.c/d"].num_nodes == index.node_tables["b.c/d"].num_nodes + 3 + has_more
        assert graph.edge_tables["ba"].num_edges == index.edge_tables["ba"].num_edges + 3
        names = {file.name for file in killed.iterdir()} - {".overlay.log.lock"}
        assert names == {"overlay.log", f"overlay.log.{index.fingerprint[:12]}"}
        states[killed.name] = has_more
    for kind in ("move_while_open", "move_at_opening"):
        of_kind = [states[f"{kind}-{number}"] for number in range(len(list(tmp_path.glob(f"{kind}-*"))))]
        # The last process was not killed; one that was killed later has written no less.
        assert (len(of_kind) >= 8, of_kind[0], of_kind[-1]) == (True, 0, 1)
        assert of_kind == sorted(of_kind)
