import numpy as np

from tfx_gnn.sampling.beam.messages import route_requests
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
