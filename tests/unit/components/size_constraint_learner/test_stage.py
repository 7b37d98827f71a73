import pytest

from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.records.size_constraints_file import (
    fingerprint_examples,
    fingerprint_graph_schema,
    read_size_constraints,
)

SCHEMA = """
node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "b" value { } }
node_sets { key: "_readout" value { } }
edge_sets { key: "e" value { source: "a" target: "a" } }
edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } }
"""


def sizes(a, e, readout=1):
    return {
        "nodes/a.#size": [a],
        "nodes/_readout.#size": [readout],
        "edges/e.#size": [e],
        "edges/_readout/seed.#size": [1],
    }


@pytest.fixture
def learn(tmp_path, write_examples):
    def run(contents, **options):
        examples_dir = write_examples(str(tmp_path / "examples"), contents, SCHEMA)
        return learn_size_constraints(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            size_constraints_dir=str(tmp_path / "constraints"),
            options=SizeConstraintLearnerOptions(**options),
        )

    return run


def test_a_budget_is_so_many_times_the_largest_sizes_and_room_for_padding(learn, tmp_path):
    content = learn({"train": [[sizes(4, 3), sizes(5, 6)], [sizes(6, 2)]], "val": [[sizes(2, 9)]]}, batch_size=3)

    budget = content.find("tight").constraints
    assert budget.total_num_components == 4
    # Nodes of "a" and "_readout" have room for one more; "b" is at the end of no edge.
    assert budget.total_num_nodes == {"a": 19, "b": 0, "_readout": 4}
    assert budget.total_num_edges == {"e": 27, "_readout/seed": 4}
    assert budget.min_nodes_per_component == {"_readout": 1}
    assert read_size_constraints(str(tmp_path / "constraints")) == content


def test_sizes_are_summed_up_for_the_report(learn):
    content = learn({"train": [[sizes(4, 3), sizes(5, 6)], [{}]]})

    train = content.splits["train"]
    assert train.num_graphs == 3
    assert (train.node_sets["a"].total, train.node_sets["a"].mean, train.node_sets["a"].maximum) == (9, 3.0, 5)
    assert (train.edge_sets["e"].total, train.edge_sets["e"].minimum, train.edge_sets["e"].maximum) == (9, 0, 6)
    assert content.find("tight").batch_size == 32


def test_graphs_without_readout_node_ask_for_none_in_padding(learn):
    content = learn({"train": [[sizes(4, 3), sizes(4, 3, readout=0)]]}, batch_size=1)

    assert content.find("tight").min_nodes_per_component == {}


def test_only_chosen_splits_count(learn):
    content = learn({"train": [[sizes(4, 3)]], "val": [[sizes(50, 9)]]}, batch_size=1, splits=("train",))

    assert content.find("tight").total_num_nodes["a"] == 5
    assert content.options["splits"] == ["train"]


def test_budgets_know_the_data_they_were_learned_from(learn, tmp_path):
    content = learn({"train": [[sizes(4, 3)]], "val": [[sizes(5, 3)]]}, splits=("train",))
    folder = str(tmp_path / "examples")

    content.check_matches(
        data_fingerprint=fingerprint_examples(folder, ("train",)),
        graph_schema_fingerprint=fingerprint_graph_schema(folder),
    )
    with pytest.raises(ValueError, match="budgets learned from the same examples; got data_fingerprint"):
        content.check_matches(
            data_fingerprint=fingerprint_examples(folder), graph_schema_fingerprint=fingerprint_graph_schema(folder)
        )


def test_several_components_in_an_example_are_refused(learn, tmp_path):
    with pytest.raises(
        ValueError, match=r"one `#size` per set; got others in graphs-00001-of-00002.gz \(split 'train'\)"
    ):
        learn({"train": [[sizes(4, 3)], [{"nodes/a.#size": [4, 5]}]]})
    assert [path.name for path in tmp_path.iterdir()] == ["examples"]


def test_a_batch_of_more_graphs_than_there_are_is_refused(learn):
    message = r"`batch_size` must be at most the number of graphs of split 'train', 2; got 100000\."
    with pytest.raises(ValueError, match=message):
        learn({"train": [[sizes(4, 3), sizes(5, 6)]]}, batch_size=3, extra_batch_sizes=(100_000,))


def test_data_without_examples_are_refused(learn):
    with pytest.raises(ValueError, match="must hold at least one example"):
        learn({"train": [[]]})


def test_a_schema_of_other_examples_is_refused(learn):
    with pytest.raises(ValueError, match=r"`graph_schema_dir` must .* sets \['nodes/a', .*'edges/e'\] are empty"):
        learn({"train": [[{"nodes/other.#size": [4], "nodes/_readout.#size": [1]}]]})


LABELLED = """
node_sets { key: "a" value { } }
node_sets { key: "b" value { } }
node_sets { key: "_readout" value {
    features { key: "class" value { dtype: DT_INT64 } }
    features { key: "name" value { dtype: DT_STRING } } } }
edge_sets { key: "e" value { source: "a" target: "a" } }
edge_sets { key: "f" value { source: "b" target: "a" } }
edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } }
"""


def labelled(label, e, f):
    """A graph of two nodes "a", of which the second is the seed; `e` and `f` are the targets of its edges."""
    return {
        "nodes/a.#size": [2],
        "nodes/b.#size": [1],
        "nodes/_readout.#size": [1],
        "nodes/_readout.class": label,
        "edges/e.#size": [len(e)],
        "edges/e.#source": [0] * len(e),
        "edges/e.#target": e,
        "edges/f.#size": [len(f)],
        "edges/f.#source": [0] * len(f),
        "edges/f.#target": f,
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [1],
        "edges/_readout/seed.#target": [0],
    }


@pytest.fixture(scope="module")
def labelled_examples(tmp_path_factory, write_examples):
    # Edges at the seed: none, one, and five. The last graphs are by far the largest.
    contents = [labelled([0], [0], []), labelled([7], [0, 1], [0]), labelled([], [1, 1, 0], [1, 1, 1])]
    folder = str(tmp_path_factory.mktemp("labelled") / "examples")
    return write_examples(folder, {"train": [contents * 20], "val": [contents[:1]]}, LABELLED)


def learn_labelled(examples_dir, folder, **options):
    return learn_size_constraints(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        size_constraints_dir=str(folder / "constraints"),
        options=SizeConstraintLearnerOptions(**{"batch_size": 2, "success_ratios": (0.8,), **options}),
    )


def test_losses_are_told_by_class_and_by_degree_of_the_seed(labelled_examples, tmp_path):
    content = learn_labelled(labelled_examples, tmp_path, label_feature="class")

    losses = {(loss.slicing, loss.value): loss for loss in content.find("fit_or_skip").losses}
    assert [(key, loss.num_graphs) for key, loss in losses.items()] == [
        (("label", "none"), 20),
        (("label", "0"), 20),
        (("label", "7"), 20),
        (("degree", "0"), 20),
        (("degree", "1"), 20),
        (("degree", "4-7"), 20),
    ]
    assert losses["degree", "4-7"].lost_share == losses["label", "none"].lost_share > losses["label", "0"].lost_share
    assert any("graphs with label 'none'" in warning for warning in content.warnings)
    assert content.find("packing").losses == ()


def test_a_slice_that_loses_too_much_is_refused(labelled_examples, tmp_path):
    with pytest.raises(
        ValueError, match=r"`max_slice_loss` must not be exceeded .* with label 'none'.* 'fit_or_skip_2"
    ):
        learn_labelled(labelled_examples, tmp_path, label_feature="class", max_slice_loss=0.1)
    assert list(tmp_path.iterdir()) == []


def test_budgets_of_all_kinds_and_sizes_are_learned_and_reported(labelled_examples, tmp_path):
    content = learn_labelled(labelled_examples, tmp_path, extra_batch_sizes=(4,), success_ratios=(0.8, 0.5), window=8)

    assert list(content.budgets) == [
        "tight_2",
        "fit_or_skip_2_0.8",
        "fit_or_skip_2_0.5",
        "packing_2",
        "tight_4",
        "fit_or_skip_4_0.8",
        "fit_or_skip_4_0.5",
        "packing_4",
    ]
    assert content.find("packing", 4).window == 8
    assert content.find("tight").losses == content.find("fit_or_skip").losses == ()
    assert read_size_constraints(str(tmp_path / "constraints")) == content
    assert sorted(path.name for path in (tmp_path / "constraints").iterdir()) == [
        "report.html",
        "size_constraints.json",
    ]


def test_the_same_data_give_the_same_budgets_in_whatever_files_they_are(write_examples, tmp_path):
    contents = [sizes(number % 7 + 1, number % 5) for number in range(60)]
    learned = []
    for name, shards in {"one": [contents], "many": [contents[40:], contents[:10], contents[10:40]]}.items():
        folder = write_examples(str(tmp_path / name), {"train": shards}, SCHEMA)
        (tmp_path / f"{name}_out").mkdir()
        content = learn_labelled(folder, tmp_path / f"{name}_out")
        learned.append((content.splits, content.budgets))

    assert learned[0] == learned[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"train_split": "test"},
            r"`train_split` must be a split with examples; got 'test', but only \['train', 'val'\]",
        ),
        ({"splits": ("val", "test"), "train_split": "val"}, "test"),
        ({"label_feature": "name"}, "must name a feature of `_readout` with one integer, the class; got 'name'"),
        ({"label_feature": "colour"}, r"got 'colour', where `_readout` has {'class': 'int64', 'name': 'string'}"),
        (
            {"label_feature": "class", "class_vocabulary": "class"},
            "`transform_graph_dir` must be given with `class_vocabulary`; got 'class' alone",
        ),
    ],
)
def test_what_is_not_there_is_refused(labelled_examples, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        learn_labelled(labelled_examples, tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be at least 1; got 0"),
        ({"window": 0}, "`window` must be at least 1; got 0"),
        ({"extra_batch_sizes": (32,)}, r"`extra_batch_sizes` must be different .*; got \(32,\) beside 32"),
        ({"extra_batch_sizes": (0,)}, "`extra_batch_sizes` must be different"),
        ({"success_ratios": (1.0,)}, "`success_ratios` must be different fractions above 0 and below 1"),
        ({"success_ratios": (0.9, 0.9)}, "`success_ratios` must be different"),
        ({"splits": ("val",)}, r"`train_split` must be one of `splits`; got 'train', not among \['val'\]"),
        ({"warn_slice_loss": 1.1}, r"`warn_slice_loss` must lie in \[0, 1\]; got 1.1"),
        ({"max_slice_loss": -0.1}, "`max_slice_loss` must lie"),
        ({"class_vocabulary": "y"}, "`class_vocabulary` must come with `label_feature`; got 'y' alone"),
        ({"seed": -1}, "`seed` must lie in"),
    ],
)
def test_options_check_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        SizeConstraintLearnerOptions(**options)
