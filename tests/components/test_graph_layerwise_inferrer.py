"""GraphLayerwiseInferrer as a component of TFX: what it declares reaches the stage."""

from __future__ import annotations

import json
import os

from tfx.types import channel_utils, standard_artifacts

from tfx_gnn.components.artifacts import GraphIndexArtifact, InferenceTableArtifact
from tfx_gnn.components.graph_layerwise_inferrer import GraphLayerwiseInferrer, GraphLayerwiseInferrerOptions, stage
from tfx_gnn.components.graph_layerwise_inferrer.executor import Executor
from tfx_gnn.records.blessing import write_blessing


def artifact_at(kind, folder):
    found = kind()
    found.uri = str(folder)
    return found


def inputs_and_component(tmp_path, options):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "blessing").mkdir()
    inputs = {
        "graph_index": artifact_at(GraphIndexArtifact, tmp_path / "index"),
        "model": artifact_at(standard_artifacts.Model, tmp_path / "model"),
        "blessing": artifact_at(standard_artifacts.ModelBlessing, tmp_path / "blessing"),
    }
    channels = {name: channel_utils.as_channel([one]) for name, one in inputs.items()}
    component = GraphLayerwiseInferrer(**channels, options=options)
    return {name: [one] for name, one in inputs.items()}, component


def test_a_model_that_is_not_blessed_is_not_asked(tmp_path):
    inputs, component = inputs_and_component(tmp_path, GraphLayerwiseInferrerOptions())
    write_blessing(str(tmp_path / "blessing"), blessed=False, reasons=["accuracy is 0.2"])
    inference = artifact_at(InferenceTableArtifact, tmp_path / "inference")

    Executor().Do(inputs, {"inference": [inference]}, component.exec_properties)

    assert os.listdir(inference.uri) == ["inference.json"]
    found = json.loads((tmp_path / "inference" / "inference.json").read_text())
    assert (found["blessed"], found["reasons"], found["num_rows"]) == (False, ["accuracy is 0.2"], {})
    assert inference.get_int_custom_property("blessed") == 0
    assert inference.get_int_custom_property("num_rows") == 0


def test_options_and_folders_reach_the_stage(tmp_path, monkeypatch):
    options = GraphLayerwiseInferrerOptions(outputs=("scores",), neighborhoods="full", batch_edges=7, num_verified=3)
    inputs, component = inputs_and_component(tmp_path, options)
    inference = artifact_at(InferenceTableArtifact, tmp_path / "inference")
    asked = {}

    def infer_layerwise(**given):
        asked.update(given)
        return stage.LayerwiseInference(model_fingerprint="f", num_rows={"all": 5})

    monkeypatch.setattr(stage, "infer_layerwise", infer_layerwise)

    Executor().Do(inputs, {"inference": [inference]}, component.exec_properties)

    assert asked == {
        "graph_index_dir": str(tmp_path / "index"),
        "model_dir": str(tmp_path / "model"),
        "inference_dir": str(tmp_path / "inference"),
        "blessing_dir": str(tmp_path / "blessing"),
        "infra_blessing_dir": "",
        "options": options,
    }
    assert inference.get_int_custom_property("blessed") == 1
    assert inference.get_int_custom_property("num_rows") == 5
