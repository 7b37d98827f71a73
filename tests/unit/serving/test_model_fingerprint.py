"""A model is known by one text, before and after its push."""

import shutil

from tfx_gnn.serving.model_fingerprint import fingerprint_model


def test_what_a_push_adds_does_not_change_the_fingerprint_but_other_files_do(tmp_path):
    trained, pushed = tmp_path / "trained", tmp_path / "pushed"
    (trained / "assets.extra").mkdir(parents=True)
    (trained / "saved_model.pb").write_text("graph")
    (trained / "assets.extra" / "served_task.json").write_text("{}")
    shutil.copytree(trained, pushed)
    (pushed / "assets.extra" / "training_statistics" / "Split-train").mkdir(parents=True)
    (pushed / "assets.extra" / "training_statistics" / "Split-train" / "FeatureStats.pb").write_text("numbers")
    (pushed / "assets.extra" / "analyzer_cache" / "span-1").mkdir(parents=True)
    (pushed / "assets.extra" / "analyzer_cache" / "span-1" / "entry").write_text("counts")
    (pushed / "tfx_gnn_version.json").write_text("{}")

    assert fingerprint_model(str(pushed)) == fingerprint_model(str(trained))

    (pushed / "assets.extra" / "served_task.json").write_text("{ }")
    assert fingerprint_model(str(pushed)) != fingerprint_model(str(trained))
