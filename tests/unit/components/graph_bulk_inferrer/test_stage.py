from __future__ import annotations

import csv
import functools
import json
import math
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_bulk_inferrer import inference_pipeline, stage
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.records.blessing import BlessingSubject, write_blessing
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.versions import resolve_saved_model

NOT_AN_EXAMPLE = b"\x0a\xffgarbage"


@pytest.fixture
def examples_dir(tmp_path, toy_records):
    """All toy examples in two files, and an empty third."""
    folder = str(tmp_path / "examples")
    records = [record for of_split in toy_records.values() for record in of_split]
    for shard, part in enumerate((records[:5], records[5:], [])):
        write_split_shard(folder, "all", shard, 3, part)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _loads_once():
    """Loads each model once, however often it is asked."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inference_pipeline, "ServingModel", functools.cache(ServingModel))
        yield


def infer(examples_dir, toy_model_dir, folder, **options):
    return infer_in_bulk(
        examples_dir=examples_dir,
        model_dir=toy_model_dir,
        inference_dir=str(folder),
        options=GraphBulkInferrerOptions(**options),
    )


def rows_of(folder, split="all"):
    return [row for path in sorted((folder / f"Split-{split}").iterdir()) for row in pq.read_table(path).to_pylist()]


def test_every_example_has_the_row_that_a_server_answers(tmp_path, toy_records, toy_model_dir, examples_dir):
    found = infer(examples_dir, toy_model_dir, tmp_path / "inference", batch_size=2)

    records = [record for of_split in toy_records.values() for record in of_split]
    served = list(ServingModel(resolve_saved_model(toy_model_dir)).answers(records))
    rows = rows_of(tmp_path / "inference")
    assert [(row["id"], row["label"]) for row in rows] == [(answer["id"], answer["label"]) for answer in served]
    assert [row["score"] for row in rows] == pytest.approx([answer["score"] for answer in served], abs=1e-6)
    assert [row["record"] for row in rows] == [*range(5), *range(len(records) - 5)]
    assert found.num_examples == found.num_rows == {"all": len(records)}
    assert (found.num_refused, found.num_nonfinite) == ({"all": 0}, 0)
    assert found.columns == {"record": "int64", "id": "string", "label": "string", "score": "float"}
    assert found.model_fingerprint == fingerprint_folders([resolve_saved_model(toy_model_dir)])
    assert json.loads((tmp_path / "inference" / "inference.json").read_text())["num_rows"] == {"all": len(records)}
    # The empty file of examples has no table, and nothing hidden is left.
    assert sorted(os.listdir(tmp_path / "inference")) == ["Split-all", "inference.json"]
    assert sorted(os.listdir(tmp_path / "inference" / "Split-all")) == [
        "predictions-00000-of-00003.parquet",
        "predictions-00001-of-00003.parquet",
    ]


def test_rows_say_as_of_when_an_example_asks(tmp_path, toy_records, toy_model_dir):
    model_dir = shutil.copytree(resolve_saved_model(toy_model_dir), tmp_path / "model")
    table = SeedTable(filename="s.csv", features={"time": "int64", "shop": "string"}, input_features=("time", "shop"))
    (model_dir / "assets.extra").mkdir(exist_ok=True)
    plan = RecordedPlan(plan=SamplingPlan(seed_node_set="item", seed_table=table), sampling_seed=0)
    plan.write(str(model_dir / "assets.extra" / "sampling_plan.json"))
    example = tf.train.Example.FromString(next(iter(toy_records.values()))[0])
    records = []
    for time, shop in ((-5, b"a"), (7, b"")):
        example.features.feature["context/time"].int64_list.value[:] = [time]
        example.features.feature["context/shop"].bytes_list.value[:] = [shop]
        records.append(example.SerializeToString())
    write_split_shard(str(tmp_path / "examples"), "all", 0, 1, records)

    found = infer(str(tmp_path / "examples"), str(model_dir), tmp_path / "inference")

    rows = rows_of(tmp_path / "inference")
    assert [(row["context_time"], row["context_shop"]) for row in rows] == [(-5, "a"), (7, "")]
    assert list(found.columns) == ["record", "id", "context_shop", "context_time", "label", "score"]


def test_csv_holds_lists_as_json(tmp_path, toy_model_dir, examples_dir):
    outputs = ("predictions", "scores")
    infer(examples_dir, toy_model_dir, tmp_path / "inference", file_format="csv", outputs=outputs)

    with open(tmp_path / "inference" / "Split-all" / "predictions-00000-of-00003.csv", newline="") as file:
        row = next(csv.DictReader(file))
    assert list(row) == ["record", "id", "label", "score", "probabilities", "logits"]
    assert max(json.loads(row["probabilities"])) == pytest.approx(float(row["score"]))


def test_tfrecords_hold_the_columns_as_features(tmp_path, toy_model_dir, examples_dir):
    infer(examples_dir, toy_model_dir, tmp_path / "inference", file_format="tfrecord")

    path = tmp_path / "inference" / "Split-all" / "predictions-00000-of-00003.gz"
    records = list(tf.data.TFRecordDataset(str(path), compression_type="GZIP").as_numpy_iterator())
    features = tf.train.Example.FromString(records[1]).features.feature
    assert len(records) == 5
    assert features["record"].int64_list.value == [1]
    assert features["label"].bytes_list.value[0] in (b"blue", b"red")
    assert 0.5 <= features["score"].float_list.value[0] <= 1.0


def test_refused_examples_are_counted_and_written_with_their_reason(tmp_path, toy_records, toy_model_dir):
    folder = str(tmp_path / "examples")
    good = toy_records["test"]
    write_split_shard(folder, "all", 0, 1, [good[0], NOT_AN_EXAMPLE, *good[1:]])

    found = infer(folder, toy_model_dir, tmp_path / "inference", max_refused_share=0.5)

    assert found.num_examples == {"all": len(good) + 1}
    assert (found.num_refused, found.num_rows) == ({"all": 1}, {"all": len(good)})
    assert [row["record"] for row in rows_of(tmp_path / "inference")] == [0, *range(2, len(good) + 1)]
    (letter,) = (tmp_path / "inference" / "dead_letters" / "all-00000.jsonl").read_text().splitlines()
    assert json.loads(letter)["record"] == 1
    assert "It is record 1 of graphs-00000-of-00001.gz" in json.loads(letter)["message"]


def test_more_refused_examples_than_allowed_are_an_error(tmp_path, toy_records, toy_model_dir, monkeypatch):
    folder = str(tmp_path / "examples")
    write_split_shard(folder, "all", 0, 1, [NOT_AN_EXAMPLE, *toy_records["test"]])

    with pytest.raises(
        ValueError, match=r"`max_refused_share` must cover .*; got 0.0 for 1 of .*The first: .*record 0"
    ):
        infer(folder, toy_model_dir, tmp_path / "inference")

    assert not (tmp_path / "inference").exists()
    # A run that allows more goes on with what is finished, which is all.
    monkeypatch.setattr(inference_pipeline, "ServingModel", None)
    assert infer(folder, toy_model_dir, tmp_path / "inference", max_refused_share=0.9).num_refused == {"all": 1}


def test_run_that_is_killed_at_any_rename_ends_like_one_that_is_not(tmp_path, toy_model_dir, examples_dir, monkeypatch):
    run, killed = tmp_path / "run", []
    run.mkdir()

    def snapshots_before(rename):
        def renamed(*args, **options):
            # As a kill leaves the disk, but for the locks of a living process.
            killed.append(tmp_path / f"killed-{len(killed)}")
            shutil.copytree(run, killed[-1])
            return rename(*args, **options)

        return renamed

    with monkeypatch.context() as patched:
        for module in (os, tf.io.gfile):
            patched.setattr(module, "rename", snapshots_before(module.rename))
        infer(examples_dir, toy_model_dir, run / "inference")

    # Two tables, three notes, and the folder.
    assert len(killed) == 6
    for folder in killed:
        assert not (folder / "inference").exists()
        infer(examples_dir, toy_model_dir, folder / "inference")
        assert contents(folder) == contents(run)


def contents(folder):
    """Contents of all files, hidden ones too, but for locks, which name their process."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_other_options_start_anew_and_remove_what_is_unfinished(tmp_path, toy_model_dir, examples_dir, monkeypatch):
    def interrupted(_found, folder):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stage, "write_bulk_inference", interrupted)
        with pytest.raises(KeyboardInterrupt):
            infer(examples_dir, toy_model_dir, tmp_path / "inference")
    assert [name for name in os.listdir(tmp_path) if name.startswith(".unfinished") and not name.endswith(".lock")]

    infer(examples_dir, toy_model_dir, tmp_path / "inference", outputs=("predictions", "scores"))

    assert {"probabilities", "logits"} < set(rows_of(tmp_path / "inference")[0])
    assert sorted(set(os.listdir(tmp_path)) - {"examples"}) == ["inference"]
    with pytest.raises(FileExistsError, match="`inference_dir` must be absent or an empty folder"):
        infer(examples_dir, toy_model_dir, tmp_path / "inference")


def test_folder_without_examples_has_no_rows(tmp_path, toy_model_dir):
    write_split_shard(str(tmp_path / "examples"), "all", 0, 1, [])

    found = infer(str(tmp_path / "examples"), toy_model_dir, tmp_path / "inference")

    assert (found.num_examples, found.num_rows, found.columns) == ({"all": 0}, {"all": 0}, {})
    assert os.listdir(tmp_path / "inference" / "Split-all") == []


class _Pairs(tf.Module):
    """Scores as many pairs as a record says, in descending order."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        counts = tf.strings.to_number(examples, tf.int64)
        targets = tf.ragged.range(counts)
        return {
            "scores": (-tf.cast(targets, tf.float32)).to_tensor(float("-inf")),
            "num_candidates": counts,
            "source_id": tf.broadcast_to(examples[:, tf.newaxis], tf.shape(targets.to_tensor())),
            "target_id": tf.strings.as_string(targets).to_tensor(""),
        }


def test_examples_of_links_without_pairs_have_no_row_and_are_counted(tmp_path):
    module = _Pairs()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"serving_default": module.predict})
    # The first batch, and all of the second file, have no pair.
    for shard, records in enumerate(([b"0", b"0", b"2", b"0", b"1"], [b"0"])):
        write_split_shard(str(tmp_path / "examples"), "all", shard, 2, records)

    found = infer(str(tmp_path / "examples"), str(tmp_path / "model"), tmp_path / "inference", batch_size=2)

    assert (found.num_examples, found.num_rows, found.num_without_pairs) == ({"all": 6}, {"all": 3}, {"all": 4})
    assert rows_of(tmp_path / "inference") == [
        {"record": 2, "source_id": "2", "target_id": "0", "score": 0.0, "rank": 1},
        {"record": 2, "source_id": "2", "target_id": "1", "score": -1.0, "rank": 2},
        {"record": 4, "source_id": "1", "target_id": "0", "score": 0.0, "rank": 1},
    ]


def test_embeddings_of_a_model_without_them_are_refused_before_work_starts(tmp_path, toy_model_dir, examples_dir):
    with pytest.raises(ValueError, match=r"`outputs` must leave out 'embeddings' .* are \['serving_default'\]"):
        infer(examples_dir, toy_model_dir, tmp_path / "inference", outputs=("embeddings",))


def test_interrupted_run_goes_on_with_the_files_that_are_missing(
    tmp_path, toy_records, toy_model_dir, examples_dir, monkeypatch
):
    asked = []
    whole_table = inference_pipeline.whole_table

    def interrupted(path, file_format):
        asked.append(Path(path).name)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return whole_table(path, file_format)

    monkeypatch.setattr(inference_pipeline, "whole_table", interrupted)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - Beam may wrap it
        infer(examples_dir, toy_model_dir, tmp_path / "inference")
    assert not (tmp_path / "inference").exists()

    found = infer(examples_dir, toy_model_dir, tmp_path / "inference")

    assert len(asked) == 3
    assert len(set(asked)) == 2
    total = sum(map(len, toy_records.values()))
    assert len(rows_of(tmp_path / "inference")) == found.num_rows["all"] == total


@pytest.mark.parametrize("withheld", ["blessing_dir", "infra_blessing_dir"])
def test_model_without_a_blessing_is_not_asked(tmp_path, toy_model_dir, examples_dir, withheld):
    subject = BlessingSubject(kind="model", fingerprint=fingerprint_folders([resolve_saved_model(toy_model_dir)]))
    folders = {"blessing_dir": "", "infra_blessing_dir": "INFRA_"}
    for name, prefix in folders.items():
        (tmp_path / name).mkdir()
        is_blessed = name != withheld
        write_blessing(str(tmp_path / name), blessed=is_blessed, reasons=["too bad"], subject=subject, prefix=prefix)

    found = infer_in_bulk(
        examples_dir=examples_dir,
        model_dir=toy_model_dir,
        inference_dir=str(tmp_path / "inference"),
        **{name: str(tmp_path / name) for name in folders},
    )

    assert (found.blessed, found.reasons, found.num_rows) == (False, ("too bad",), {})
    assert os.listdir(tmp_path / "inference") == ["inference.json"]


def test_blessing_of_another_model_is_refused(tmp_path, toy_model_dir, examples_dir):
    blessing = tmp_path / "blessing"
    blessing.mkdir()
    write_blessing(
        str(blessing), blessed=True, reasons=[], subject=BlessingSubject(kind="model", fingerprint="another")
    )

    with pytest.raises(ValueError, match="`blessing_dir` must be about the model at hand; got a verdict about another"):
        infer_in_bulk(
            examples_dir=examples_dir,
            model_dir=toy_model_dir,
            inference_dir=str(tmp_path / "inference"),
            blessing_dir=str(blessing),
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ()}, "`outputs` must name what to write; got nothing"),
        ({"outputs": ("labels",)}, r"each once; got \['labels'\]"),
        ({"batch_size": 0}, "`batch_size` must be at least 1; got 0"),
        ({"max_refused_share": math.nan}, r"`max_refused_share` must be a fraction in \[0, 1\); got nan"),
        ({"file_format": "orc"}, "`file_format` must be one of"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GraphBulkInferrerOptions(**options)
