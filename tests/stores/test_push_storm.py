"""Pushes at the same time to Cloud Storage, some of them killed, while requests fail."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

STORM = Path(__file__).with_name("push_storm.py")
NUM_MODELS = 8
NUM_KILLS = 3


@pytest.fixture(scope="module")
def model_files():
    spec = importlib.util.spec_from_file_location("push_storm", STORM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.model_files


def test_killed_pushes_to_a_failing_store_give_each_model_one_whole_version(gcs, tmp_path, type_command, model_files):
    with gcs.failing(rate=0.05, seed=2) as counts:
        storm = [str(STORM), "gs://bucket/storm", str(tmp_path / "models"), str(NUM_MODELS), str(NUM_KILLS)]
        done = type_command(storm, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        counts.update(json.loads(done.stdout.splitlines()[-1]))

    # Each push was killed, and the store failed, so that the rest says something.
    assert counts["kills"] == NUM_MODELS * NUM_KILLS
    assert counts["refused"] > 10
    assert counts["lost"] > 10
    objects = gcs.objects("storm/")
    recorded = {number: int(gcs.read(f"storm_records/{number}/version")) for number in range(NUM_MODELS)}
    assert len(set(recorded.values())) == NUM_MODELS
    for number, version in recorded.items():
        place = f"storm/{version}/"
        found = {name.removeprefix(place): gcs.read(name) for name in objects if name.startswith(place)}
        marker = json.loads(found.pop("tfx_gnn_version.json"))
        assert (marker["model"], marker["record"]) == (str(number), f"gs://bucket/storm_records/{number}")
        assert found == model_files(number)
    # Only a push that was killed before its record leaves another version, if a newer one was whole before it started
    # again: then it makes one that is newer still.
    models = {int(name.split("/")[1]): name for name in objects if name.endswith("/saved_model.pb")}
    for version in models.keys() - recorded.values():
        number = int(gcs.read(models[version]).split()[1])
        assert gcs.read(models[version]) == model_files(number)["saved_model.pb"]
        assert version < recorded[number]
    # No push is left open.
    assert [name for name in objects if "/.push-" in name] == []
