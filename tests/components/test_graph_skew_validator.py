"""GraphSkewValidator as a component of TFX: what it declares reaches the stage."""

from __future__ import annotations

import types

import pytest
from tfx.types import channel_utils, standard_artifacts

from tfx_gnn.components.artifacts import GraphIndexArtifact, SkewReportArtifact
from tfx_gnn.components.graph_skew_validator import GraphSkewValidator, GraphSkewValidatorOptions, stage
from tfx_gnn.components.graph_skew_validator.executor import Executor

KINDS = {
    "examples": standard_artifacts.Examples,
    "transformed_examples": standard_artifacts.Examples,
    "model": standard_artifacts.Model,
    "model_run": standard_artifacts.ModelRun,
    "graph_index": GraphIndexArtifact,
    "skew": SkewReportArtifact,
    "infra_blessing": standard_artifacts.InfraBlessing,
}
INPUTS = tuple(KINDS)[:5]


@pytest.fixture
def artifacts(tmp_path):
    found = {name: kind() for name, kind in KINDS.items()}
    for name, artifact in found.items():
        artifact.uri = str(tmp_path / name)
    return found


@pytest.mark.parametrize("asks_server", [False, True])
def test_options_and_folders_reach_the_stage(artifacts, monkeypatch, asks_server):
    options = GraphSkewValidatorOptions(asks_server=asks_server, max_served_by_id=3)
    inputs = {name: [artifacts[name]] for name in INPUTS if asks_server or name != "graph_index"}
    component = GraphSkewValidator(
        **{name: channel_utils.as_channel(given) for name, given in inputs.items()}, options=options
    )
    asked = {}

    def validate_skew(**given):
        asked.update(given)
        return types.SimpleNamespace(largest_difference=0.5, blessed=True)

    monkeypatch.setattr(stage, "validate_skew", validate_skew)

    outputs = {name: [artifacts[name]] for name in ("skew", "infra_blessing")}
    Executor().Do(inputs, outputs, component.exec_properties)

    folders = {f"{name}_dir": artifact.uri for name, artifact in artifacts.items()}
    assert asked == {
        **folders,
        "graph_index_dir": folders["graph_index_dir"] if asks_server else "",
        "options": options,
    }
    assert artifacts["skew"].get_float_custom_property("largest_difference") == 0.5


@pytest.mark.parametrize("asks_server", [False, True])
def test_index_and_the_option_that_asks_go_together(artifacts, asks_server):
    channels = {
        name: channel_utils.as_channel([artifacts[name]]) for name in INPUTS if not asks_server or name != "graph_index"
    }

    with pytest.raises(
        ValueError, match=f"`graph_index` must be given with `asks_server`.*got asks_server={asks_server}"
    ):
        GraphSkewValidator(**channels, options=GraphSkewValidatorOptions(asks_server=asks_server))
