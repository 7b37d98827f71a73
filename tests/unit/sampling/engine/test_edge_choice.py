"""How edges of single nodes are chosen: by hand on tiny adjacencies, and against exact distributions."""

import itertools

import numpy as np
import pytest

from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.engine import edge_choice
from tfx_gnn.sampling.engine.adjacency import build_adjacency
from tfx_gnn.sampling.engine.edge_choice import (
    AllowedNodes,
    EdgeRequests,
    find_edges,
    merge_scored,
    visits_all_edges,
)
from tfx_gnn.sampling.plan.hop import Hop

STRATEGIES = (
    "uniform",
    "uniform_with_replacement",
    "weighted",
    "weighted_with_replacement",
    "top_k",
    "in_degree",
    "in_degree_with_replacement",
    "full",
)
# Node 0 has edges 0 to 4, which lead to 10, 11, 12, 12 and 14; node 1 has none; node 2 has edge 5, a self loop.
STARTS = np.array([0, 0, 0, 0, 0, 2])
ENDS = np.array([10, 11, 12, 12, 14, 2])
COLUMNS = {
    "times": np.array([1, 2, 3, 4, 5, 6]),
    "ranks": np.array([0, 0, 1, 3, 0, 0]),
    "weights": np.array([0.5, 4.0, 4.0, -1.0, 2.0, 0.0]),
}


def _hop(strategy, fan_out=2):
    weight = "w" if strategy in ("weighted", "weighted_with_replacement", "top_k") else ""
    return Hop(edge_set="e", fan_out=fan_out, strategy=strategy, weight_feature=weight, name="h")


def _requests(nodes, **fields):
    nodes = np.array(nodes)
    keys = random_choice.hash_integers(np.arange(len(nodes)))
    return EdgeRequests(hop="h", subgraphs=np.zeros(len(nodes), np.int64), nodes=nodes, keys=keys, **fields)


def _find(hop, requests, **options):
    return find_edges(hop, build_adjacency(STARTS, ENDS, 3, **COLUMNS), requests.nodes, requests, **options)


def _rows(found, request=0):
    return sorted(found.edge_rows[found.requests == request].tolist())


def test_full_takes_every_edge_and_a_node_without_edges_gets_none():
    found = _find(_hop("full", 0), _requests([0, 1, 2, -1]))

    assert [_rows(found, request) for request in range(4)] == [[0, 1, 2, 3, 4], [], [5], []]
    assert found.num_candidates.tolist() == found.num_eligible.tolist() == [5, 0, 1, 0]
    assert dict(zip(found.edge_rows.tolist(), found.neighbors.tolist(), strict=True))[5] == 2


def test_full_with_a_fan_out_takes_the_first_rows():
    found = _find(_hop("full", 3), _requests([0, 1, 2]))

    assert [_rows(found, request) for request in range(3)] == [[0, 1, 2], [], [5]]
    assert found.num_eligible.tolist() == [5, 0, 1]


def test_top_k_takes_the_largest_weights_and_of_equal_ones_the_first_rows():
    assert _rows(_find(_hop("top_k", 1), _requests([0]))) == [1]
    assert _rows(_find(_hop("top_k", 3), _requests([0]))) == [1, 2, 4]
    assert _rows(_find(_hop("top_k", 9), _requests([0]))) == [0, 1, 2, 3, 4]


def test_weighted_never_takes_what_weighs_nothing():
    found = _find(_hop("weighted", 9), _requests([0, 2]))

    assert (_rows(found), _rows(found, 1)) == ([0, 1, 2, 4], [])
    assert found.num_candidates.tolist() == [5, 1]
    assert found.num_eligible.tolist() == [4, 0]


@pytest.mark.parametrize("strategy", ["uniform", "weighted", "top_k", "in_degree", "full"])
def test_filters_hide_edges_from_every_strategy(strategy):
    hop = _hop(strategy, 0 if strategy == "full" else 5)
    nodes = [0, 0, 0]
    times = np.array([1, 3, 9])

    def found(**fields):
        answer = _find(
            hop,
            _requests(nodes, **{k: v for k, v in fields.items() if k != "inclusive"}),
            inclusive=fields.get("inclusive", False),
        )
        return [_rows(answer, request) for request in range(3)]

    def kept(*rows):
        return [row for row in rows if row != 3 or strategy in ("uniform", "top_k", "full")]

    assert found(time_limits=times) == [[], kept(0, 1), kept(0, 1, 2, 3, 4)]
    assert found(time_limits=times, inclusive=True) == [[0], kept(0, 1, 2), kept(0, 1, 2, 3, 4)]
    assert found(rank_limits=np.array([0, 2, 4], np.int8)) == [[0, 1, 4], [0, 1, 2, 4], kept(0, 1, 2, 3, 4)]
    excluded = {"excluded_splits": np.array([0, 1, 1, 3]), "excluded_neighbors": np.array([12, 10, 14])}
    assert found(**excluded) == [[0, 1, 4], kept(0, 1, 2, 3, 4), kept(1, 2, 3)]
    allowed = AllowedNodes(subgraphs=np.array([0, 0, 1]), nodes=np.array([14, 12, 10]))
    assert found(allowed=allowed) == [kept(2, 3, 4)] * 3


def test_counts_tell_what_filters_left():
    found = _find(_hop("uniform", 1), _requests([0, 2], time_limits=np.array([4, 6])))

    assert found.num_candidates.tolist() == [5, 1]
    assert found.num_eligible.tolist() == [3, 0]
    assert len(_rows(found)) == 1


def test_with_replacement_draws_the_fan_out_whatever_the_degree():
    found = _find(_hop("uniform_with_replacement", 4), _requests([2, 0, 1]))

    assert _rows(found) == [5, 5, 5, 5]
    assert len(_rows(found, 1)) == 4
    assert _rows(found, 2) == []
    assert found.draws[found.requests == 0].tolist() == [0, 1, 2, 3]


def test_filtered_draws_with_replacement_are_from_what_is_left():
    found = _find(_hop("uniform_with_replacement", 50), _requests([0, 0], time_limits=np.array([3, 1])))

    assert set(_rows(found)) == {0, 1}
    assert len(_rows(found)) == 50
    assert _rows(found, 1) == []


def test_unfiltered_uniform_choices_draw_positions_and_others_look_at_edges():
    plain, timed = _requests([0, 0]), _requests([0, 0], time_limits=np.array([1, 2]))
    partly = _requests([0, 0], excluded_splits=np.array([0, 0, 1]), excluded_neighbors=np.array([12]))

    assert visits_all_edges(_hop("uniform"), plain).tolist() == [False, False]
    assert visits_all_edges(_hop("uniform"), timed).tolist() == [True, True]
    assert visits_all_edges(_hop("uniform_with_replacement"), partly).tolist() == [False, True]
    assert visits_all_edges(_hop("top_k"), plain).tolist() == [True, True]
    with pytest.raises(ValueError, match="`keeps_scores` must be False for requests that draw positions"):
        _find(_hop("uniform"), plain, keeps_scores=True)


def _random_edges(num_edges, num_nodes=3, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "times": rng.integers(0, 50, num_edges),
        "ranks": rng.integers(0, 4, num_edges),
        "weights": rng.integers(-1, 5, num_edges).astype(np.float64),
    }
    return rng.integers(0, num_nodes, num_edges), rng.integers(0, 9, num_edges), columns


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_answers_from_parts_of_the_edges_merge_into_the_whole_answer(strategy):
    starts, ends, columns = _random_edges(400)
    hop = _hop(strategy, 0 if strategy == "full" else 5)
    requests = _requests(
        [0, 1, 2, 1],
        time_limits=np.array([20, 30, 40, 50]),
        excluded_splits=np.array([0, 1, 1, 2, 2]),
        excluded_neighbors=np.array([3, 4]),
    )
    whole = find_edges(hop, build_adjacency(starts, ends, 3, **columns), requests.nodes, requests)

    # Two buckets; the second one is asked in another order, and not for the last request.
    rows = np.arange(400)
    first = rows[random_choice.edge_hash(rows) < np.uint64(2**62)]
    second = np.setdiff1d(rows, first)
    parts, positions = [], []
    for bucket, asked in ((first, np.arange(4)), (second, np.array([3, 0, 2, 1]))):
        part = build_adjacency(
            starts[bucket], ends[bucket], 3, edge_rows=bucket, **{k: v[bucket] for k, v in columns.items()}
        )
        taken = requests.take(asked)
        parts.append(find_edges(hop, part, taken.nodes, taken, keeps_scores=True))
        positions.append(asked)
    merged = merge_scored(hop, parts, positions, 4)

    def content(found):
        columns = (found.requests, found.draws, found.edge_rows, found.neighbors)
        return sorted(zip(*(column.tolist() for column in columns), strict=True))

    assert content(merged) == content(whole)
    assert merged.num_candidates.tolist() == whole.num_candidates.tolist()
    assert merged.num_eligible.tolist() == whole.num_eligible.tolist()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hub_that_is_looked_at_piece_by_piece_gets_the_same_edges(strategy, monkeypatch):
    starts, ends, columns = _random_edges(1000)
    adjacency = build_adjacency(starts, ends, 3, **columns)
    requests = _requests([0, 1, -1, 2, 0], time_limits=np.array([20, 30, 5, 40, 50]))
    hop = _hop(strategy, 7)
    at_once = find_edges(hop, adjacency, requests.nodes, requests)

    monkeypatch.setattr(edge_choice, "_MAX_CANDIDATES", 50)
    in_pieces = find_edges(hop, adjacency, requests.nodes, requests)

    for request in range(5):
        assert _rows(in_pieces, request) == _rows(at_once, request)
    assert in_pieces.num_eligible.tolist() == at_once.num_eligible.tolist()


def _frequencies(hop, weights, num_requests, **fields):
    """How often each set (or, with replacement, sequence) of edges of one node was chosen."""
    count = len(weights)
    adjacency = build_adjacency(np.zeros(count, np.int64), np.arange(count), 1, weights=np.array(weights, np.float64))
    requests = _requests([0] * num_requests, **fields)
    found = find_edges(hop, adjacency, requests.nodes, requests)
    order = np.lexsort((found.edge_rows if not hop.draws_with_replacement else found.draws, found.requests))
    chosen = found.edge_rows[order].reshape(num_requests, -1)
    outcomes, counts = np.unique(chosen, axis=0, return_counts=True)
    return {tuple(outcome): number for outcome, number in zip(outcomes.tolist(), counts.tolist(), strict=True)}


def _chi_square(observed, probabilities, total):
    assert set(observed) <= set(probabilities)
    return sum((observed.get(key, 0) - total * p) ** 2 / (total * p) for key, p in probabilities.items())


def _sequential(weights, count):
    """Exact chances of each set when edges are drawn one after the other in proportion to weights."""
    chances = {}
    for order in itertools.permutations(range(len(weights)), count):
        left, chance = sum(weights), 1.0
        for item in order:
            chance *= weights[item] / left
            left -= weights[item]
        key = tuple(sorted(order))
        chances[key] = chances.get(key, 0.0) + chance
    return chances


@pytest.mark.parametrize("strategy", ["weighted", "in_degree"])
def test_weighted_choices_have_the_chances_of_drawing_one_after_the_other(strategy):
    weights = [1, 2, 3, 4]

    observed = _frequencies(_hop(strategy, 2), weights, 30_000)

    # Six sets; 20.5 is the 0.999 quantile of chi-square with 5 degrees.
    assert _chi_square(observed, _sequential(weights, 2), 30_000) < 20.5


def test_filtered_uniform_choices_have_equal_chances():
    observed = _frequencies(
        _hop("uniform", 2),
        [1] * 5,
        20_000,
        rank_limits=None,
        excluded_splits=np.arange(20_001),
        excluded_neighbors=np.full(20_000, 4),
    )

    # Six sets of two among the four edges that are left; 20.5 as above.
    assert _chi_square(observed, _sequential([1] * 4, 2), 20_000) < 20.5


@pytest.mark.parametrize("is_filtered", [False, True])
def test_draws_with_replacement_are_uniform_and_independent(is_filtered):
    filters = {"excluded_splits": np.arange(18_001), "excluded_neighbors": np.full(18_000, 3)} if is_filtered else {}

    observed = _frequencies(_hop("uniform_with_replacement", 2), [1] * (4 if is_filtered else 3), 18_000, **filters)

    # Nine pairs of edges, 2,000 times each; 26.1 is the 0.999 quantile of chi-square with 8 degrees.
    chances = dict.fromkeys(itertools.product(range(3), repeat=2), 1 / 9)
    assert _chi_square(observed, chances, 18_000) < 26.1


def test_requests_are_taken_with_their_filters():
    requests = _requests(
        [4, 5, 6],
        time_limits=np.array([1, 2, 3]),
        rank_limits=np.array([0, 2, 4], np.int8),
        excluded_splits=np.array([0, 2, 2, 3]),
        excluded_neighbors=np.array([7, 8, 9]),
    )

    taken = requests.take(np.array([2, 0]))

    assert taken.nodes.tolist() == [6, 4]
    assert taken.time_limits.tolist() == [3, 1]
    assert taken.rank_limits.tolist() == [4, 0]
    assert taken.excluded_splits.tolist() == [0, 1, 3]
    assert taken.excluded_neighbors.tolist() == [9, 7, 8]
    assert taken.keys.tolist() == requests.keys[[2, 0]].tolist()


def test_allowed_nodes_are_taken_with_their_subgraphs():
    allowed = AllowedNodes(subgraphs=np.array([0, 1, 1, 2]), nodes=np.array([-5, -5, 6, 7]))

    some = allowed.of_subgraphs(np.array([2, 1]))

    assert some.subgraphs.tolist() == [1, 1, 2]
    assert some.contains(np.array([0, 1, 1, 2, 2]), np.array([-5, -5, 7, 7, 99])).tolist() == [
        False,
        True,
        False,
        True,
        False,
    ]
    nothing = allowed.of_subgraphs(np.array([5]))
    assert nothing.contains(np.array([0]), np.array([-5])).tolist() == [False]


def test_edges_are_grouped_by_start_in_the_order_of_their_hashes():
    adjacency = build_adjacency(np.array([2, 0, 2, 2]), np.array([7, 8, 9, 6]), 4)

    # The hashes of rows 0, 2 and 3 begin with e2, 97 and 1d (hexadecimal).
    assert adjacency.offsets.tolist() == [0, 1, 1, 4, 4]
    assert adjacency.edge_rows.tolist() == [1, 3, 2, 0]
    assert adjacency.neighbors.tolist() == [8, 6, 9, 7]
    assert adjacency.degrees.tolist() == [1, 0, 3, 0]


def test_the_order_in_which_edges_are_read_does_not_matter():
    columns = {"times": np.array([5, 6, 7, 8]), "ranks": np.array([0, 1, 2, 3]), "weights": np.array([1.0, 2, 3, 4])}
    starts, ends, rows = np.array([1, 0, 1, 1]), np.array([5, 6, 7, 8]), np.array([10, 11, 13, 19])
    order = np.array([3, 1, 0, 2])

    one = build_adjacency(starts, ends, 2, edge_rows=rows, **columns)
    other = build_adjacency(
        starts[order],
        ends[order],
        2,
        edge_rows=rows[order],
        **{name: values[order] for name, values in columns.items()},
    )

    for name in ("offsets", "edge_rows", "neighbors", *columns):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert sorted(zip(one.edge_rows.tolist(), one.times.tolist(), one.weights.tolist(), strict=True)) == [
        (10, 5, 1.0),
        (11, 6, 2.0),
        (13, 7, 3.0),
        (19, 8, 4.0),
    ]


def test_a_graph_without_edges_has_nodes_without_edges():
    adjacency = build_adjacency(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)

    assert adjacency.offsets.tolist() == [0, 0, 0]
    assert adjacency.neighbors.tolist() == []
