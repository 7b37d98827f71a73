import pytest

from tfx_gnn.stages.size_constraint_learner import (
    SizeConstraintLearnerOptions,
    learn_size_constraints,
)
from tfx_gnn.stages.size_constraints_file import (
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
        ValueError, match=r"one `#size` a set; got others in graphs-00001-of-00002.gz \(split 'train'\)"
    ):
        learn({"train": [[sizes(4, 3)], [{"nodes/a.#size": [4, 5]}]]})
    assert [path.name for path in tmp_path.iterdir()] == ["examples"]


def test_data_without_examples_are_refused(learn):
    with pytest.raises(ValueError, match="must hold at least one example"):
        learn({"train": [[]]})


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(ValueError, match="`batch_size` must be at least 1; got 0"):
        SizeConstraintLearnerOptions(batch_size=0)
