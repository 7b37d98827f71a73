"""A network that learns nothing is an error, if why can be seen."""

from __future__ import annotations

import dataclasses

import pytest

from tfx_gnn.components import GraphTransformOptions, transform_graphs


@pytest.fixture(scope="module")
def with_year(prepared, tmp_path_factory):
    """The same examples with a constant column that no step has standardized."""
    folder = tmp_path_factory.mktemp("with_year")
    made = dataclasses.replace(
        prepared,
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        size_constraints_dir=str(folder / "sizes"),
    )
    inputs = dataclasses.asdict(made)
    del inputs["size_constraints_dir"]
    options = GraphTransformOptions(preprocessing_fn="colored_items:preprocessing_with_year_fn")
    transform_graphs(**inputs, options=options)
    made.learn_sizes(made.size_constraints_dir)
    return made


ENOUGH = {"model_fn": "colored_items:two_layer_model_fn", "num_epochs": 25}


def test_a_constant_column_that_saturates_a_network_is_named(with_year, tmp_path):
    with pytest.raises(ValueError, match=r"better than a constant on 40 of its own training labels") as refused:
        with_year.train(tmp_path, **ENOUGH)

    message = str(refused.value)
    assert message.startswith(
        "`model_fn` must give a network that learns; got one of 'colored_items:two_layer_model_fn'"
    )
    assert (
        "Likely cause: inputs are too large for units that learn from numbers of about 1: nodes/item.year of about"
        in (message)
    )
    assert "its answers are the same for all examples" in message
    assert message.endswith("Set `must_beat_constant` to false to export it nevertheless.")

    # The finished steps are still there: the option alone may change, and nothing is trained again.
    summary = with_year.train(tmp_path, **ENOUGH, must_beat_constant=False)

    (warning,) = summary.warnings
    assert "Likely cause: inputs are too large" in warning


def test_a_network_that_learns_is_not_warned_of(trained):
    assert not trained.summary.warnings


def test_a_short_training_is_warned_of_whatever_the_cause(with_year, tmp_path):
    (warning,) = with_year.train(tmp_path, **{**ENOUGH, "num_epochs": 1}).warnings

    assert "the network is no better than a constant" in warning
