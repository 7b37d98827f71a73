import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.sampling import random_choice
from tfx_gnn.sampling.engine.negatives import (
    PairLookup,
    accept_candidates,
    choose_negatives,
    draw_numbers,
    order_drawable_nodes,
    whole_weights,
)
from tfx_gnn.sampling.plan.negatives import Negatives


def codes_of(num_nodes):
    return random_choice.mix(np.arange(num_nodes, dtype=np.uint64))


def choose(pairs, negatives, *, edges=(), num_nodes, **options):
    """Negatives of (key, source, target) from `num_nodes` nodes that are in the order of their codes."""
    keys, sources, targets = pairs
    edge_sources, edge_targets = np.array(edges, np.int64).reshape(-1, 2).T
    codes = np.sort(codes_of(num_nodes))
    groups = options.get("groups")
    return choose_negatives(
        np.asarray(keys, np.uint64),
        np.asarray(sources, np.int64),
        np.asarray(targets, np.int64),
        negatives=negatives,
        sampling_seed=options.get("sampling_seed", 0),
        drawable=order_drawable_nodes(codes, weights=options.get("weights"), groups=groups),
        groups=None if groups is None else np.atleast_2d(groups),
        edges=PairLookup(edge_sources, edge_targets, num_targets=num_nodes),
        has_one_node_set=options.get("has_one_node_set", False),
    )


def test_nodes_are_laid_out_by_group_and_code():
    codes = np.array([50, 40, 30, 20, 10], np.uint64)

    drawable = order_drawable_nodes(codes, weights=np.array([3, 0, 2, 1, 4]), groups=np.array([0, 0, 1, 1, 1]))

    assert drawable.nodes.tolist() == [1, 0, 4, 3, 2]
    assert drawable.totals(np.array([0, 1])).tolist() == [3, 7]
    in_first = drawable.nodes_at(np.zeros(3, np.int64), np.arange(3, dtype=np.uint64))
    in_second = drawable.nodes_at(np.ones(7, np.int64), np.arange(7, dtype=np.uint64))
    assert in_first.tolist() == [0, 0, 0]
    assert in_second.tolist() == [4, 4, 4, 4, 3, 2, 2]


def test_without_weights_every_node_counts_once():
    drawable = order_drawable_nodes(np.array([9, 7, 8], np.uint64))

    assert drawable.totals(np.array([0])).tolist() == [3]
    assert drawable.nodes_at(np.zeros(3, np.int64), np.arange(3, dtype=np.uint64)).tolist() == [1, 2, 0]


def test_the_first_good_candidate_is_accepted():
    candidates = np.array([[[5, 1, 2], [2, 2, 3]], [[4, 4, 4], [9, 0, 0]], [[7, 7, 7], [7, 7, 7]]])
    neighbors = {(0, 1), (1, 9)}

    accepted = accept_candidates(
        candidates,
        can_draw=np.array([[True, True], [True, True], [False, True]]),
        replaced=np.array([5, 4, 7]),
        kept=np.array([8, 6, 0]),
        is_refused=lambda rows, number, draw: np.array(
            [(row, candidates[row, number, draw]) in neighbors for row in rows.tolist()], np.bool_
        ),
    )

    # Pair 0: 5 is the positive, 1 a neighbor, 2 good; then 2 is taken twice over, 3 good.
    # Pair 1: only the positive; then 9 is a neighbor, 0 good. Pair 2 has nothing to draw from, then only the positive.
    assert accepted.tolist() == [[2, 2], [-1, 1], [-1, -1]]


def test_a_source_is_no_negative_of_itself():
    candidates = np.array([[[3, 4]]])
    fields = {"can_draw": np.array([[True]]), "replaced": np.array([5]), "is_refused": None}

    assert accept_candidates(candidates, **fields, kept=np.array([3])).tolist() == [[1]]
    assert accept_candidates(candidates, **fields, kept=None).tolist() == [[0]]


def test_draws_depend_on_seed_and_pair_alone():
    negatives = Negatives(num_per_positive=3, num_draws=4)
    keys = codes_of(10)

    numbers = draw_numbers(keys, sampling_seed=7, negatives=negatives)

    assert numbers.shape == (10, 3, 4)
    assert len(np.unique(numbers)) == 120
    assert np.array_equal(draw_numbers(keys[[4, 2]], sampling_seed=7, negatives=negatives), numbers[[4, 2]])
    assert not np.isin(draw_numbers(keys, sampling_seed=8, negatives=negatives), numbers).any()


def _brute_force(key, source, target, negatives, *, edges, num_nodes, weights, groups, one_set, sampling_seed):
    mask = 2**64 - 1

    def mix(value):
        value = (value + 0x9E3779B97F4A7C15) & mask
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
        return value ^ (value >> 31)

    start = mix(key ^ mix(mix(sampling_seed) ^ int.from_bytes(b"negative", "big")))
    found = []
    for number in range(negatives.num_per_positive):
        feature = negatives.parts[negatives.part_of_negative[number]][0]
        group = groups[feature]
        line = [node for node in range(num_nodes) if group[node] == group[target] for _ in range(weights[node])]
        for draw in range(negatives.num_draws):
            if not line:
                break
            value = mix((start + number * negatives.num_draws + draw) & mask)
            node = line[value % len(line)]
            refused = {target, *(found if negatives.unique else ())} | ({source} if one_set else set())
            if node not in refused and not (negatives.excludes_neighbors and (source, node) in edges):
                found.append(node)
                break
    return found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_negatives_are_those_of_the_definition(data):
    num_nodes = data.draw(st.integers(1, 8))
    nodes = st.integers(0, num_nodes - 1)
    edges = data.draw(st.lists(st.tuples(nodes, nodes), max_size=20))
    pairs = data.draw(st.lists(st.tuples(nodes, nodes), max_size=6))
    negatives = Negatives(
        num_per_positive=data.draw(st.integers(2, 4)),
        num_draws=data.draw(st.integers(1, 4)),
        excludes_neighbors=data.draw(st.booleans()),
        conditions=data.draw(st.sampled_from([{}, {"x": 1.0}, {"x": 0.5}, {"x": 0.5, "y": 0.5}])),
        unique=data.draw(st.booleans()),
    )
    weights = data.draw(st.lists(st.integers(0, 3), min_size=num_nodes, max_size=num_nodes))
    values = st.lists(st.integers(0, 2), min_size=num_nodes, max_size=num_nodes)
    groups = {"": [0] * num_nodes, "x": data.draw(values), "y": data.draw(values)}
    one_set = data.draw(st.booleans())
    seed = data.draw(st.integers(0, 2**63 - 1))
    keys = codes_of(len(pairs))

    chosen, is_there = choose(
        (keys, [source for source, _ in pairs], [target for _, target in pairs]),
        negatives,
        edges=edges,
        num_nodes=num_nodes,
        weights=np.array(weights, np.int64),
        groups=np.array([np.add(groups[name], 3 * part) for part, (name, _) in enumerate(negatives.parts)]),
        has_one_node_set=one_set,
        sampling_seed=seed,
    )

    for position, (source, target) in enumerate(pairs):
        mine = chosen[position][is_there[position]].tolist()
        assert mine == _brute_force(
            int(keys[position]),
            source,
            target,
            negatives,
            edges=set(edges),
            num_nodes=num_nodes,
            weights=weights,
            groups=groups,
            one_set=one_set,
            sampling_seed=seed,
        )
        if negatives.excludes_neighbors:
            assert not {(source, node) for node in mine} & set(edges)
        assert target not in mine
        assert len(set(mine)) == len(mine) or not negatives.unique


def _chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def test_uniform_negatives_are_uniform_over_what_is_no_neighbor():
    num_pairs, num_nodes = 30_000, 12
    edges = [(0, 1), (0, 4), (0, 5)]

    chosen, is_there = choose(
        (codes_of(num_pairs), np.zeros(num_pairs, np.int64), np.ones(num_pairs, np.int64)),
        Negatives(num_per_positive=2, num_draws=32),
        edges=edges,
        num_nodes=num_nodes,
    )

    assert is_there.all()
    allowed = [node for node in range(num_nodes) if node not in (1, 4, 5)]
    pairs = dict.fromkeys(itertools.permutations(allowed, 2), 0)
    for pair in map(tuple, chosen.tolist()):
        pairs[pair] += 1
    # 72 ordered pairs, all equally likely; 112 is the 0.999 quantile of chi-square with 71 degrees.
    assert len(pairs) == 72
    assert _chi_square(np.array(list(pairs.values())), num_pairs / 72) < 112


def test_in_degree_negatives_follow_the_weights_without_replacement():
    num_pairs, num_nodes = 30_000, 6
    weights = np.array([5, 1, 2, 0, 4, 3])

    chosen, is_there = choose(
        (codes_of(num_pairs), np.zeros(num_pairs, np.int64), np.full(num_pairs, 4, np.int64)),
        Negatives(num_per_positive=2, distribution="in_degree", num_draws=64),
        edges=[(0, 4), (0, 5)],
        num_nodes=num_nodes,
        weights=weights,
    )

    assert is_there.all()
    allowed = {node: int(weights[node]) for node in (0, 1, 2)}
    expected, counts = [], []
    for first, second in itertools.permutations(allowed, 2):
        rest = sum(allowed.values()) - allowed[first]
        expected.append(num_pairs * allowed[first] / sum(allowed.values()) * allowed[second] / rest)
        counts.append(int(((chosen[:, 0] == first) & (chosen[:, 1] == second)).sum()))
    assert sum(counts) == num_pairs
    # The 0.999 quantile of chi-square with five degrees of freedom.
    assert _chi_square(np.array(counts), np.array(expected)) < 20.5


def test_weights_become_whole_numbers_that_keep_their_ratios():
    weights = whole_weights(pa.array([0.0, 0.25, 3.0, 2.0**20, 2.0**-20]), "weight", str)

    assert weights.tolist() == [0, 2**18, 3 * 2**20, 2**40, 1]
    assert whole_weights(pa.array([1, 2]), "weight", str).tolist() == [2**20, 2**21]


@pytest.mark.parametrize("wrong", [-0.5, float("nan"), float("inf"), 2.0**20 + 1])
def test_weights_out_of_range_are_refused(wrong):
    with pytest.raises(
        ValueError, match=r"`weight_feature` must hold weights in \[0, 1048576\]; got .* in 'w' of node 1\."
    ):
        whole_weights(pa.array([1.0, wrong]), "w", "node {}".format)


def test_negatives_of_one_value_are_uniform_within_it():
    num_pairs, num_nodes = 20_000, 9
    groups = np.arange(num_nodes) % 3
    targets = np.arange(num_pairs) % num_nodes

    chosen, is_there = choose(
        (codes_of(num_pairs), np.zeros(num_pairs, np.int64), targets),
        Negatives(num_per_positive=1, num_draws=32),
        num_nodes=num_nodes,
        groups=groups,
    )

    assert is_there.all()
    assert (groups[chosen[:, 0]] == groups[targets]).all()
    counts = np.zeros((num_nodes, num_nodes))
    np.add.at(counts, (targets, chosen[:, 0]), 1)
    # For each of nine targets two others of its group: 9 degrees of freedom, 0.999 quantile.
    assert _chi_square(counts[counts > 0], num_pairs / 18) < 27.9
    assert (counts > 0).sum() == 18


def test_negatives_that_may_repeat_are_independent_draws():
    num_pairs = 20_000

    chosen, is_there = choose(
        (codes_of(num_pairs), np.zeros(num_pairs, np.int64), np.zeros(num_pairs, np.int64)),
        Negatives(num_per_positive=2, num_draws=32, unique=False),
        num_nodes=4,
    )

    assert is_there.all()
    counts = np.zeros((4, 4))
    np.add.at(counts, (chosen[:, 0], chosen[:, 1]), 1)
    assert not counts[0].any()
    assert not counts[:, 0].any()
    # Nine equally likely pairs; 26.1 is the 0.999 quantile of chi-square with 8 degrees.
    assert _chi_square(counts[1:, 1:].ravel(), num_pairs / 9) < 26.1


def test_shares_of_the_negatives_are_uniform_within_their_groups():
    num_pairs = 20_000
    color, size = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 1])

    chosen, is_there = choose(
        (codes_of(num_pairs), np.zeros(num_pairs, np.int64), np.zeros(num_pairs, np.int64)),
        Negatives(num_per_positive=4, num_draws=64, conditions={"size": 0.25, "color": 0.5}, unique=False),
        num_nodes=6,
        groups=np.stack([color, size + 2, np.full(6, 4)]),
    )

    # Two of node 0's color, then one of its size, then any but node 0 itself.
    assert is_there.all()
    for place, allowed in enumerate([(1, 2), (1, 2), (2, 4), (1, 2, 3, 4, 5)]):
        counts = np.bincount(chosen[:, place], minlength=6)
        assert counts[list(allowed)].sum() == num_pairs
        # The 0.999 quantile of chi-square with one degree, or four.
        assert _chi_square(counts[list(allowed)], num_pairs / len(allowed)) < (10.9 if len(allowed) == 2 else 18.5)


def test_a_missing_negative_is_told_and_never_a_neighbor():
    everything = [(0, node) for node in range(5)]

    _, is_there = choose(([3], [0], [2]), Negatives(num_per_positive=2, num_draws=50), edges=everything, num_nodes=5)

    assert is_there.tolist() == [[False, False]]


def test_chunks_do_not_change_the_outcome(monkeypatch):
    pairs = codes_of(50), np.arange(50) % 7, np.arange(50) % 5
    negatives = Negatives(num_per_positive=2)
    whole = choose(pairs, negatives, edges=[(1, 2), (3, 4)], num_nodes=9)

    monkeypatch.setattr("tfx_gnn.sampling.engine.negatives._PAIRS_AT_ONCE", 7)

    chunked = choose(pairs, negatives, edges=[(1, 2), (3, 4)], num_nodes=9)
    assert all(np.array_equal(one, other) for one, other in zip(whole, chunked, strict=True))


@pytest.mark.parametrize("edges", [[], [(0, 0)], [(0, 2), (0, 2), (4, 1), (2, 0)]])
def test_pairs_are_looked_up(edges):
    sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
    lookup = PairLookup(sources, targets, num_targets=3)
    pairs = [(source, target) for source in range(6) for target in range(3)]

    found = lookup.contains(*np.array(pairs).T)

    assert found.tolist() == [pair in edges for pair in pairs]
