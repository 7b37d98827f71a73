from __future__ import annotations

import pytest

from tfx_gnn.stages.training.trainer_outputs import output_folders


@pytest.mark.parametrize(("model", "run"), [("out", "out/"), ("out", "out/run"), ("out/../run/model", "run")])
def test_outputs_that_would_lie_in_each_other_are_refused_before_anything_is_made(tmp_path, model, run):
    folders = (f"{tmp_path}/{model}", f"{tmp_path}/{run}")

    with (
        pytest.raises(ValueError, match="`model_dir` and `model_run_dir` must be two folders, none in the other"),
        output_folders(*folders, is_chief=True),
    ):
        pass

    assert not list(tmp_path.iterdir())


def test_folders_of_alike_names_are_two(tmp_path):
    with output_folders(f"{tmp_path}/model", f"{tmp_path}/model_run", is_chief=True):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model_run"]
