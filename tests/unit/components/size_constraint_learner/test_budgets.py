import itertools

import numpy as np
import pytest

from tfx_gnn.components.size_constraint_learner.budgets import (
    BudgetRoom,
    SizesOfSplits,
    describe_split,
    learn_tight_budget,
)
from tfx_gnn.components.size_constraint_learner.fit_or_skip_budget import (
    BatchDraws,
    check_losses,
    estimate_slice_losses,
    find_fitting_batches,
    learn_fit_or_skip_budgets,
)
from tfx_gnn.components.size_constraint_learner.packing_budget import (
    PackingSimulator,
    learn_packing_budget,
    shape_packing_budget,
)
from tfx_gnn.components.size_constraint_learner.size_summary import NO_LABEL, SampledGraphs, SizeColumns, SplitSummary
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.records.size_constraints_file import Budget, SliceLoss

SCHEMA = """
node_sets { key: "a" value {
    features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 4 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "name" value { dtype: DT_STRING } } } }
node_sets { key: "_readout" value { } }
edge_sets { key: "e" value { source: "a" target: "a" features { key: "w" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } }
"""
SPEC = create_graph_spec_from_schema_pb(parse_schema(SCHEMA))
COLUMNS = SizeColumns.of(SPEC)


def rows_of(a, e, *, readouts=1, readout_edges=None):
    """Rows of graphs with `a` nodes and `e` edges, in the order of the columns."""
    a = np.asarray(a)
    by_set = {
        "nodes/a": a,
        "nodes/_readout": readouts,
        "edges/e": e,
        "edges/_readout/seed": readouts if readout_edges is None else readout_edges,
    }
    columns = [np.broadcast_to(by_set[prefix], a.shape) for prefix in COLUMNS.prefixes]
    return np.stack([*columns, np.zeros_like(a), np.zeros_like(a)], axis=1).astype(np.int32)


def sizes_of(rows, seed=0):
    hashes = np.random.default_rng(seed).integers(0, 2**62, len(rows)).astype(np.uint64)
    summary = SplitSummary.of_graphs(rows, hashes, dict(COLUMNS.readout_of))
    return SizesOfSplits(spec=SPEC, columns=COLUMNS, summaries={"train": summary}, train_split="train", seed=seed)


@pytest.fixture(scope="module")
def heavy_tailed():
    random = np.random.default_rng(0)
    a = np.minimum(random.lognormal(2.5, 0.8, 6000), 150).astype(int) + 1
    return sizes_of(rows_of(a, random.poisson(2 * a)))


@pytest.fixture(scope="module")
def packed(heavy_tailed):
    return learn_packing_budget(heavy_tailed, 16, window=64)


def test_every_batch_fits_the_tight_budget(heavy_tailed):
    budget = learn_tight_budget(heavy_tailed, 3)
    rule = heavy_tailed.room.rule(3 * heavy_tailed.maxima, 3, 4)
    sums = BatchDraws(heavy_tailed.train.sample_rows[:, :-2], 3, 2000, seed=0).sums()

    assert find_fitting_batches(rule, 3, sums).all()
    assert find_fitting_batches(rule, 3, 3 * heavy_tailed.maxima[np.newaxis]).all()
    assert budget.total_num_nodes["a"] == 3 * int(heavy_tailed.maxima[COLUMNS.prefixes.index("nodes/a")]) + 1


def test_padding_has_readouts_as_each_graph_has_and_an_edge_to_each():
    budget = learn_tight_budget(sizes_of(rows_of([4, 5], [3, 6], readouts=2)), 3)

    # Three graphs and one of padding, two readouts each.
    assert budget.min_nodes_per_component == {"_readout": 2}
    assert budget.total_num_nodes == {"a": 16, "_readout": 8}
    assert budget.total_num_edges == {"e": 18, "_readout/seed": 8}


@pytest.mark.parametrize(
    ("readouts", "readout_edges", "demand", "num_readouts", "num_edges"),
    [([1, 3], [1, 3], 1, 7, 7), ([0, 3], [0, 3], 0, 7, 6), ([1, 1], [0, 1], 1, 3, 2)],
    ids=["different numbers", "sometimes none", "some without edge"],
)
def test_readouts_that_differ_between_graphs(readouts, readout_edges, demand, num_readouts, num_edges):
    rows = rows_of([4, 5], [3, 6], readouts=np.array(readouts), readout_edges=np.array(readout_edges))

    budget = learn_tight_budget(sizes_of(rows), 2)

    assert budget.min_nodes_per_component.get("_readout", 0) == demand
    assert budget.total_num_nodes["_readout"] == num_readouts
    assert budget.total_num_edges["_readout/seed"] == num_edges


def test_bytes_of_a_batch_are_those_of_dense_features_ends_and_sizes():
    budget = learn_tight_budget(sizes_of(rows_of([4, 5], [3, 6])), 1)

    # 6 nodes of 4 floats, a pointer and a row split; 6 edges of an int64 and two int32 ends; 2 readouts, and as
    # many edges to them; 2 components with int32 sizes in the context and four sets.
    assert budget.bytes_per_batch == 6 * (16 + 8 + 8) + 6 * (8 + 8) + 2 * 8 + 2 * 4 * 5


def test_what_is_skipped_is_as_rare_as_asked_for_and_costs_less_than_tight(heavy_tailed):
    budgets, warnings = learn_fit_or_skip_budgets(heavy_tailed, 16, (0.99, 0.9), with_losses=False)

    tight = sum(learn_tight_budget(heavy_tailed, 16).total_num_edges.values())
    edges = [sum(budget.total_num_edges.values()) for budget in budgets]
    assert edges[1] < edges[0] < tight
    for budget, ratio in zip(budgets, (0.99, 0.9), strict=True):
        assert budget.name == f"fit_or_skip_16_{ratio}"
        assert budget.achieved_success_ratio == pytest.approx(ratio, abs=0.01)
        assert budget.total_num_components == 17
        assert budget.losses == ()
    assert all("batches of the other half" in warning for warning in warnings)


def test_batches_that_fit_more_often_than_asked_for_are_no_warning():
    (budget,), warnings = learn_fit_or_skip_budgets(sizes_of(rows_of([1] * 40, [0] * 40)), 8, (0.9,), with_losses=False)

    assert budget.achieved_success_ratio == 1.0
    assert warnings == []


def test_packed_batches_are_nearly_full_and_as_large_as_asked_for(packed, heavy_tailed):
    budget, warnings = packed

    assert budget.fill > 0.93
    assert budget.graphs_per_batch == pytest.approx(16, rel=0.1)
    assert budget.total_num_nodes["_readout"] == budget.total_num_components
    assert budget.total_num_edges["_readout/seed"] == budget.total_num_components
    assert budget.window == 64
    assert warnings == []


def test_packed_batches_have_room_for_as_many_readouts_as_graphs_have_on_average():
    a = np.random.default_rng(1).integers(10, 15, 2_000)
    readouts = np.random.default_rng(2).integers(15, 22, 2_000)

    budget, _ = learn_packing_budget(sizes_of(rows_of(a, 2 * a, readouts=readouts)), 16, window=64)

    assert 14 < budget.graphs_per_batch < 18
    assert budget.fill > 0.8


def test_each_graph_of_every_split_fits_a_packing_budget_alone():
    random = np.random.default_rng(1)
    train = sizes_of(rows_of(random.integers(1, 9, 200), 3))
    large = sizes_of(rows_of([70], [90]))
    sizes = SizesOfSplits(
        spec=SPEC,
        columns=COLUMNS,
        summaries={"train": train.train, "val": large.train},
        train_split="train",
        seed=0,
    )

    budget, warnings = learn_packing_budget(sizes, 2, window=16)

    assert budget.total_num_nodes["a"] >= 71
    assert budget.total_num_edges["e"] >= 90
    assert "must fit" in warnings[0]


def test_shape_is_close_to_the_best_of_all_shapes():
    # Graphs of two kinds: 3 nodes and 1 edge, or 1 node and 4 edges. Eight of each make the fullest batch.
    schema = """node_sets { key: "a" value { } } edge_sets { key: "e" value { source: "a" target: "a" } }"""
    columns = SizeColumns.of(create_graph_spec_from_schema_pb(parse_schema(schema)))
    sizes = np.random.default_rng(0).permutation(np.array([[3, 1], [1, 4]] * 512, np.int32))
    summary = SplitSummary.of_graphs(np.pad(sizes, ((0, 0), (0, 2))), np.arange(1024, dtype=np.uint64), {})
    room = BudgetRoom.of(columns, [summary])
    simulator = PackingSimulator(columns, 16)
    tried = [
        simulator.pack(room.rule(np.array(caps), 16, num_components), sizes)
        for *caps, num_components in itertools.product(range(28, 38, 2), range(36, 46, 2), (17, 18))
    ]

    shape = shape_packing_budget(sizes, sizes, summary.maxima, room, batch_size=16, simulator=simulator, seed=0)

    # Larger batches always waste less; those of one size can be compared.
    size = shape.packed.graphs_per_batch
    assert size == pytest.approx(16, rel=0.1)
    assert shape.packed.cost <= 1.05 * min(packed.cost for packed in tried if packed.graphs_per_batch <= 1.02 * size)


def test_few_graphs_are_packed_to_the_last_one():
    # Two graphs of 3 nodes and an edge fill 7 nodes, one of which is kept for padding.
    rule = BudgetRoom.of(COLUMNS, [sizes_of(rows_of([3], [1])).train]).rule(rows_of([6], [2], readouts=2)[0, :-2], 2, 3)

    packed = PackingSimulator(COLUMNS, 4).pack(rule, rows_of([3] * 7, [1] * 7)[:, :-2])

    assert (packed.num_batches, packed.num_graphs) == (4, 7)
    assert packed.sizes[COLUMNS.prefixes.index("nodes/a")] == 21
    assert packed.graphs_per_batch == 1.75


def test_of_many_graphs_the_first_third_and_what_is_left_over_do_not_count():
    rule = BudgetRoom.of(COLUMNS, [sizes_of(rows_of([3], [1])).train]).rule(rows_of([6], [2], readouts=2)[0, :-2], 2, 3)

    packed = PackingSimulator(COLUMNS, 4).pack(rule, rows_of([3] * 3001, [1] * 3001)[:, :-2])

    # After 1024 graphs at least, two a batch; some wait in the window at the end.
    assert 960 <= packed.num_batches <= 989
    assert packed.graphs_per_batch == 2
    assert packed.cost == (7 + 3 + 2 + 3 + 3) / (6 + 2 + 2 + 2)


def test_losses_by_slice_are_exact():
    # Batches of two: those with two large graphs do not fit. All large graphs are of class 1 and degree 4 to 7.
    sizes = np.array([[1], [1], [1], [5]] * 500, np.int32)
    graphs = SampledGraphs(
        sizes=sizes, labels=np.array([0, 0, NO_LABEL, 1] * 500), degrees=np.array([0, 1, 1, 3] * 500), weight=2.0
    )
    draws = BatchDraws(sizes, 2, 40_000, seed=0)
    fits = draws.sums()[:, 0] < 10

    losses = {(loss.slicing, loss.value): loss for loss in estimate_slice_losses(graphs, draws, fits, ["small"])}

    assert list(losses) == [
        ("label", "none"),
        ("label", "small"),
        ("label", "1"),
        ("degree", "0"),
        ("degree", "1"),
        ("degree", "4-7"),
    ]
    assert losses["label", "small"] == SliceLoss(slicing="label", value="small", num_graphs=2000, lost_share=0.0)
    # The other graph of its batch is large, too, in a quarter of the cases.
    assert losses["label", "1"].lost_share == pytest.approx(0.25, abs=0.01)
    assert losses["degree", "4-7"].lost_share == losses["label", "1"].lost_share


def _budget_that_loses(*shares):
    losses = tuple(
        SliceLoss(slicing="label", value=str(number), num_graphs=10, lost_share=share)
        for number, share in enumerate(shares)
    )
    return Budget(
        kind="fit_or_skip",
        batch_size=2,
        total_num_components=3,
        total_num_nodes={},
        total_num_edges={},
        graphs_per_batch=2.0,
        fill=0.5,
        fill_by_set={},
        bytes_per_batch=1,
        losses=losses,
    )


def test_slices_that_lose_much_are_warned_of_worst_first():
    (warning,) = check_losses({"b": _budget_that_loses(0.01, 0.07, 0.2)}, warn_slice_loss=0.05, max_slice_loss=0.2)

    assert "'b' is expected to lose more than 5.0% of 2 slices: 20.0% of the 10 graphs with label '2', 7.0%" in warning


def test_slices_that_lose_too_much_are_refused():
    with pytest.raises(
        ValueError, match=r"got 20.0% of the 10 graphs with label '1', expected of budget 'b'.* Train on"
    ):
        check_losses({"b": _budget_that_loses(0.01, 0.2)}, warn_slice_loss=0.05, max_slice_loss=0.1)


def test_sizes_of_a_split_are_described():
    described = describe_split(sizes_of(rows_of([1, 2, 3, 8], [0, 0, 0, 0])).train, COLUMNS)

    sizes = described.node_sets["a"]
    assert described.num_graphs == 4
    assert (sizes.total, sizes.mean, sizes.minimum, sizes.maximum) == (14, 3.5, 1, 8)
    assert sizes.quantiles == {"p50": 2.0, "p90": 8.0, "p99": 8.0, "p999": 8.0}
    assert sizes.histogram_bounds == (0, 1, 2, 4, 8, 16)
    assert sizes.histogram_counts == (0, 1, 2, 0, 1)
    assert described.edge_sets["e"].histogram_bounds == (0, 1)
