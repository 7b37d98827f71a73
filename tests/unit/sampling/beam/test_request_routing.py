import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.sampling.beam.messages import group_by_partition, route_requests
from tfx_gnn.sampling.engine.edge_choice import EdgeRequests


def _requests(hop, nodes):
    nodes = np.array(nodes, np.uint64)
    count = len(nodes)
    return EdgeRequests(
        hop=hop,
        subgraphs=np.arange(count),
        nodes=nodes.view(np.int64),
        keys=np.arange(count, dtype=np.uint64) + 100,
        excluded_splits=np.arange(count + 1),
        excluded_neighbors=np.arange(count) * 10,
    )


@given(st.lists(st.integers(0, 5)), st.sampled_from([0, 2**20]))
def test_positions_are_grouped_and_keep_their_order(partitions, shift):
    groups = group_by_partition(np.array(partitions, np.int64) + shift)

    found = {p - shift: list(range(len(partitions))) if at is None else at.tolist() for p, at in groups}

    assert found == {p: [i for i, q in enumerate(partitions) if q == p] for p in sorted(set(partitions))}


def test_requests_go_to_the_partition_of_the_first_bits_of_their_node():
    first = _requests("a", [2**63, 5, 2**63 + 7])
    second = _requests("b", [2**62])

    routed = route_requests([first, second], 4)

    assert {p: [(part.hop, part.positions.tolist()) for part in parts] for p, parts in routed.items()} == {
        0: [(0, [1])],
        1: [(1, [0])],
        2: [(0, [0, 2])],
    }
    assert routed[2][0].requests.keys.tolist() == [100, 102]
    assert routed[2][0].requests.excluded_neighbors.tolist() == [0, 20]


def test_one_partition_is_sent_everything_as_it_is():
    requests = _requests("a", [2**63, 5])

    routed = route_requests([requests, _requests("b", [])], 1)

    assert list(routed) == [0]
    assert len(routed[0]) == 1
    assert routed[0][0].requests is requests
