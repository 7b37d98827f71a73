"""SubgraphExampleGen as a component of TFX: the span that it reads."""

from __future__ import annotations

import pytest
from tfx.types import channel_utils
from tfx.types.standard_artifacts import Examples

from tfx_gnn.components.subgraph_example_gen import SubgraphExampleGen, SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.executor import Executor
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA = """
node_sets { key: "user" value { metadata { filename: "users.csv" } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
"""
OPTIONS = SubgraphExampleGenOptions(
    plan=SamplingPlan(
        seed_node_set="user", hops=(Hop(edge_set="knows", fan_out=2),), splits=SplitPlan(weights={"train": 1})
    )
)


@pytest.fixture
def write_span(tmp_path):
    """Writes the tables of a span with some users."""

    def write(name, *users):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        (folder / "graph_schema.pbtxt").write_text(SCHEMA)
        (folder / "users.csv").write_text("\n".join(["id", *users]) + "\n")
        (folder / "knows.csv").write_text("source,target\nann,bob\n")

    return write


@pytest.fixture
def make_examples(tmp_path):
    """Runs the component of a compiled pipeline, which hashes no tables."""

    def make(name, *, span="", same_span_as=None):
        component = SubgraphExampleGen(
            tables_dir=f"{tmp_path}/data/{{SPAN}}",
            span=span,
            same_span_as=channel_utils.as_channel([same_span_as]) if same_span_as else None,
            options=OPTIONS,
            tables_fingerprint="any",
        )
        examples = Examples()
        examples.uri = str(tmp_path / name)
        inputs = {"same_span_as": [same_span_as]} if same_span_as else {}
        Executor().Do(inputs, {"examples": [examples]}, dict(component.exec_properties))
        return examples

    return make


def test_a_span_that_arrives_during_a_run_is_not_read_in_it(write_span, make_examples):
    write_span("7", "ann", "bob")
    trained = make_examples("trained")
    write_span("8", "ann", "bob", "eve")

    asked, next_run = make_examples("asked", same_span_as=trained), make_examples("next_run")

    assert (trained.span, asked.span, next_run.span) == (7, 7, 8)


def test_another_span_than_that_of_the_run_is_refused(write_span, make_examples, tmp_path):
    write_span("7", "ann", "bob")
    write_span("8", "ann", "bob")
    trained = make_examples("trained", span="7")

    with pytest.raises(ValueError, match=r"`span` must be that of the examples .*trained', 7; got '8'"):
        make_examples("asked", span="8", same_span_as=trained)

    assert not (tmp_path / "asked").exists()
