from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.components.graph_skew_validator import stage
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.report import read_skew_report
from tfx_gnn.components.graph_skew_validator.stage import validate_skew
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records import examples_folder
from tfx_gnn.records.blessing import INFRA_PREFIX, is_blessed, read_reasons
from tfx_gnn.records.examples_folder import read_records, record_files
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

TASK = NodeClassification(label_feature="topic", class_vocabulary="topic")
STRING_KEYS = {"nodes/paper.#id"}
RAGGED_KEYS = {"nodes/paper.words", "nodes/paper.scores"}


@dataclasses.dataclass(frozen=True)
class Folders:
    """What the stages up to the trainer wrote."""

    examples_dir: str
    transformed_examples_dir: str
    model_dir: str
    model_run_dir: str

    def validate(self, folder, **options):
        """Runs the stage into `folder`."""
        return validate_skew(
            **dataclasses.asdict(self),
            skew_dir=str(folder / "skew"),
            infra_blessing_dir=str(folder / "blessing"),
            options=GraphSkewValidatorOptions(**options),
        )

    def edited(self, folder, edit, split="val"):
        """The same with other transformed examples in one split: `edit` maps lists of lists of tf.train.Examples."""
        shutil.copytree(self.transformed_examples_dir, folder / "edited")
        files = record_files(str(folder / "edited"), (split,))
        shards = [[tf.train.Example.FromString(record) for record in read_records(file)] for file in files]
        edit(shards)
        for shard, examples in enumerate(shards):
            records = [example.SerializeToString() for example in examples]
            examples_folder.write_split_shard(str(folder / "edited"), split, shard, len(shards), records)
        return dataclasses.replace(self, transformed_examples_dir=str(folder / "edited"))


@pytest.fixture(scope="module")
def folders(write_examples, tmp_path_factory):
    """Runs the stages before the gate on papers with features of many kinds."""
    from tfx_gnn.components.graph_trainer.stage import train_graph_model
    from tfx_gnn.components.graph_transform.options import GraphTransformOptions
    from tfx_gnn.components.graph_transform.stage import transform_graphs
    from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
    from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
    from tfx_gnn.training.options import GraphTrainerOptions

    module_spec = importlib.util.spec_from_file_location("many_features", Path(__file__).with_name("many_features.py"))
    many_features = importlib.util.module_from_spec(module_spec)
    sys.modules["many_features"] = many_features
    module_spec.loader.exec_module(many_features)
    base = tmp_path_factory.mktemp("many_features")
    examples_dir = write_examples(str(base / "examples"), many_features.splits(), many_features.SCHEMA)
    transformed = {
        "transform_graph_dir": str(base / "transform_graph"),
        "transformed_examples_dir": str(base / "transformed"),
        "transformed_graph_schema_dir": str(base / "schema"),
    }
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        **transformed,
        options=GraphTransformOptions(preprocessing_fn="many_features:preprocessing_fn"),
    )
    learn_size_constraints(
        examples_dir=str(base / "transformed"),
        graph_schema_dir=str(base / "schema"),
        size_constraints_dir=str(base / "sizes"),
        options=SizeConstraintLearnerOptions(batch_size=8),
        only_tight=True,
    )
    train_graph_model(
        **transformed,
        graph_schema_dir=examples_dir,
        size_constraints_dir=str(base / "sizes"),
        model_dir=str(base / "model"),
        model_run_dir=str(base / "run"),
        options=GraphTrainerOptions.from_flat(
            {"model_fn": "many_features:model_fn", "task": TASK, "num_epochs": 1, "batching": "tight"}
        ),
    )
    return Folders(examples_dir, str(base / "transformed"), str(base / "model"), str(base / "run"))


@pytest.fixture(scope="module", autouse=True)
def _loads_once():
    """Loads each model once, however often it is asked."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("load_training_answers", "load_served_answers"):
            patched.setattr(stage, name, functools.cache(getattr(stage, name)))
        yield


@pytest.fixture(scope="module")
def passed(folders, tmp_path_factory):
    """The gate's report on what nobody tampered with, and where it is."""
    folder = tmp_path_factory.mktemp("passed")
    return folder, folders.validate(folder)


def test_features_of_every_kind_are_equal_to_the_bit(passed):
    _, report = passed
    features = {feature.key: feature for feature in report.features}

    assert report.blessed, report.reasons
    assert report.largest_difference == 0.0
    assert [feature.key for feature in report.features if feature.num_differing] == []
    assert report.num_examples == {"test": 10, "train": 40, "val": 12}
    assert (report.num_compared, report.batch_size, report.ids_compared) == (62, 8, True)
    assert {key for key, feature in features.items() if feature.kind == "string"} == STRING_KEYS
    assert set(features) > RAGGED_KEYS
    assert features["nodes/paper.point"].num_values == 3 * features["nodes/paper.x"].num_values
    assert {"context/age", "nodes/paper.cited_x", "nodes/paper.author_age", "nodes/author.of.#id"} < set(features)
    # Labels of this task and of another.
    assert not features.keys() & {"nodes/_readout.topic", "nodes/_readout.rank"}


def test_logits_differ_by_no_more_than_rounding(passed):
    _, report = passed

    assert report.rounding.num_values > 1000
    assert report.rounding.largest_difference < 1e-5
    outputs = {output.key: output for output in report.outputs}
    assert {name: output.num_values for name, output in outputs.items()} == {
        "label": 62 - report.num_other_labels,
        "logits": 2 * 62,
        "probabilities": 2 * 62,
        "score": 62,
    }
    assert max(output.largest_difference for output in outputs.values()) < 1e-5
    assert max(output.largest_difference for output in report.one_by_one) < 1e-5
    assert (report.num_other_labels, report.num_other_labels_one_by_one) == (0, 0)


def test_verdict_and_report_are_files(passed):
    folder, report = passed
    blessing = str(folder / "blessing")

    assert sorted(os.listdir(blessing)) == ["INFRA_BLESSED", "reasons.json"]
    assert is_blessed(blessing, prefix=INFRA_PREFIX)
    assert read_reasons(blessing) == list(report.reasons)
    assert "of 62 examples: largest difference 0, in other batches " in report.reasons[0]
    assert dataclasses.replace(read_skew_report(str(folder / "skew")), options={}) == dataclasses.replace(
        report, options={}
    )
    assert json.loads((folder / "skew" / "skew.json").read_text())["options"]["max_examples"] == 512


def test_report_tells_what_values_of_no_table_are_answered(passed):
    _, report = passed
    answers = {(answer.feature, answer.value): answer.answer for answer in report.out_of_domain}

    assert len(answers) == 39
    assert {answers["context/year", value] for value in ("-1", "0", "1099511627776")} == {"finite"}
    assert answers["nodes/paper.x", "-1.0"] == "finite"
    assert {answers["nodes/paper.x", value] for value in ("nan", "inf", "-inf")} == {"refused"}
    assert not any(feature.startswith("nodes/_readout") for feature, _ in answers)


def test_only_some_examples_of_some_splits_are_read(folders, tmp_path):
    report = folders.validate(tmp_path, splits=("val", "train"), max_examples=5, batch_size=3)

    assert (report.num_examples, report.batch_size, report.blessed) == ({"train": 5, "val": 5}, 3, True)


def _set(example, key, index, value):
    feature = example.features.feature[key]
    getattr(feature, feature.WhichOneof("kind")).value[index] = value


def _add(example, key, index, value):
    feature = example.features.feature[key]
    getattr(feature, feature.WhichOneof("kind")).value[index] += value


def _swap_records(shards):
    shards[0][1], shards[0][2] = shards[0][2], shards[0][1]


def _with_edge(examples, edge_set="cites"):
    """First example that has an edge of the set."""
    sizes = (example.features.feature[f"edges/{edge_set}.#size"].int64_list.value[0] for example in examples)
    return examples[next(position for position, size in enumerate(sizes) if size)]


def _swap_ends(shards):
    features = _with_edge(shards[0]).features.feature
    source, target = (features[f"edges/cites.{end}"].int64_list.value for end in ("#source", "#target"))
    source[0], target[0] = target[0], source[0]


def _move_word(shards):
    """From one row to another of the same example: the words are the same."""
    for example in shards[0]:
        lengths = example.features.feature["nodes/paper.words.d1"].int64_list.value
        if len(lengths) > 1 and lengths[0] > 0:
            lengths[0] -= 1
            lengths[1] += 1
            return
    raise AssertionError("no example has two papers with words")


def _drop_edge(shards):
    features = _with_edge(shards[1], "writes").features.feature
    features["edges/writes.#size"].int64_list.value[0] -= 1
    for end in ("#source", "#target"):
        del features[f"edges/writes.{end}"].int64_list.value[-1]


PLANTED_VALUES = {
    "float": (
        lambda shards: _add(shards[0][2], "nodes/paper.x", 0, 1e-5),
        (
            r"nodes/paper\.x: 1 of \d+ values differ, by up to (9\.\d+e-06|1\.0\d+e-05|1e-05); \S+ in training, \S+ "
            r"when served: item 0 of record 2 of graphs-00000-of-00002\.gz \(split 'val', seed 'val0\.2-0'\)"
        ),
    ),
    "integer": (
        lambda shards: _add(shards[1][0], "nodes/paper.pages_bucket", 0, 1),
        r"nodes/paper\.pages_bucket: 1 of \d+ values differ, by up to 1; .* record 0 of graphs-00001-of-00002.*",
    ),
    "large integer": (
        lambda shards: _add(shards[0][0], "nodes/author.of.#id", 0, 1),
        r"nodes/author\.of\.#id: 1 of \d+ values differ, by up to 1; .*",
    ),
    "string": (
        lambda shards: _set(shards[1][4], "nodes/paper.#id", -1, b"val1.4-other"),
        r"nodes/paper\.#id: 1 of \d+ values differ; 'val1\.4-other' in training, 'val1\.4-\d' when served: .*",
    ),
    "context": (
        lambda shards: _add(shards[0][0], "context/year", 0, 1),
        r"context/year: 1 of 12 values differ, by up to 1; .*",
    ),
    "nan": (
        lambda shards: _set(_with_edge(shards[0]), "edges/cites.weight", 0, float("nan")),
        r"edges/cites\.weight: 1 of \d+ values differ, by up to inf; nan in training, .*",
    ),
    "edge end": (
        _swap_ends,
        r"edges/cites\.#source: 1 of \d+ values differ; \d+ in training, \d+ when served: item 0 of record .*",
    ),
    "ragged row": (
        _move_word,
        r"nodes/paper\.words: 2 rows have another number of values; \d+ values have no counterpart; .*",
    ),
}
PLANTED_RECORDS = {
    "lost edge": (
        _drop_edge,
        r"1 of 12 pairs of examples have another number of nodes or edges, first record \d of graphs-00001.*",
    ),
    "swapped records": (
        _swap_records,
        (
            r"2 of 12 pairs of examples are not about the same seed, first record 1 of graphs-00000-of-00002\.gz "
            r"\(split 'val', seed 'val0\.1-0'\): b'val0\.2-0' in training"
        ),
    ),
    "missing feature": (
        lambda shards: shards[0][5].features.feature.pop("nodes/paper.x"),
        r"1 of 12 examples are refused, first record 5 of graphs-00000-of-00002\.gz \(split 'val'\): .*paper\.x.*",
    ),
}


PLANTED = {"values": PLANTED_VALUES, "records": PLANTED_RECORDS}


@pytest.fixture(scope="module")
def planted(folders, tmp_path_factory):
    """Plants all skews of a kind in different places of one split; gives where, and what the gate says about it."""

    @functools.cache
    def validate(kind):
        folder = tmp_path_factory.mktemp("planted")

        def edit(shards):
            for plant, _ in PLANTED[kind].values():
                plant(shards)

        return folder, folders.edited(folder, edit).validate(folder, splits=("val",))

    return validate


@pytest.mark.parametrize("kind", list(PLANTED))
def test_each_planted_skew_is_caught_and_named(planted, kind):
    skews = PLANTED[kind]

    folder, report = planted(kind)

    assert not report.blessed
    assert sorted(os.listdir(folder / "blessing")) == ["INFRA_NOT_BLESSED", "reasons.json"]
    for name, (_, words) in skews.items():
        assert [reason for reason in report.reasons if re.fullmatch(words, reason, re.DOTALL)], name
    about_graphs = [reason for reason in report.reasons if "logits" not in reason]
    # Of a swapped edge, both ends differ; of an edge that is lost, the size of its set.
    assert len(about_graphs) == len(skews) + 1, about_graphs


def test_every_other_example_is_still_compared(planted):
    _, report = planted("records")

    assert (report.num_unanswered, report.num_of_another_seed, report.num_of_another_size) == (1, 2, 1)
    assert report.num_compared == 12 - 4
    assert [feature.key for feature in report.features if feature.num_differing] == ["edges/writes.#size"]
    assert report.largest_difference == 1.0


@pytest.mark.parametrize(("limit", "exit_code", "verdict"), [("1e-4", 0, "blessed"), ("1e-6", 1, "NOT blessed")])
def test_verb_shows_what_differs_and_tells_by_its_exit_code(folders, tmp_path, limit, exit_code, verdict):
    edited = folders.edited(tmp_path, lambda shards: _add(shards[0][2], "nodes/paper.x", 0, 1e-5))
    arguments = [("skew_dir", tmp_path / "skew"), ("infra_blessing_dir", tmp_path / "blessing"), ("split", "val")]
    arguments += [*dataclasses.asdict(edited).items(), ("max_float_difference", limit), ("max_output_difference", 1)]
    options = [text for name, value in arguments for text in (f"--{name.replace('_', '-')}", str(value))]

    shown = CliRunner().invoke(app, ["skew", *options])

    assert shown.exit_code == exit_code, shown.output
    assert re.search(r"nodes/paper\.x +│ float +│ \d+ +│ 1 +│ [\d.]+e-0[56]", shown.stdout)
    assert "examples: 12 of 'val'" in shown.stdout
    assert shown.stdout.splitlines()[-1].startswith(verdict)
    assert ("values differ" in shown.stdout.splitlines()[-1]) == (exit_code == 1)


def test_server_that_cannot_be_asked_by_id_withholds_the_blessing(folders, tmp_path):
    for name in ("tables", "index"):
        (tmp_path / name).mkdir()
    (tmp_path / "tables" / "graph_schema.pbtxt").write_text(
        'node_sets { key: "paper" value { metadata { filename: "papers.csv" } } }'
    )
    (tmp_path / "tables" / "papers.csv").write_text("id\np1\n")
    schema = read_tables_schema(str(tmp_path / "tables"))
    write_graph_index(str(tmp_path / "index"), schema, layouts_of(schema, str(tmp_path / "tables")))
    arguments = [("skew_dir", tmp_path / "skew"), ("infra_blessing_dir", tmp_path / "blessing"), ("split", "val")]
    arguments += [*dataclasses.asdict(folders).items(), ("graph_index_dir", tmp_path / "index"), ("max_examples", 2)]
    options = [text for name, value in arguments for text in (f"--{name.replace('_', '-')}", str(value))]

    shown = CliRunner().invoke(app, ["skew", *options])

    assert shown.exit_code == 1, shown.output
    assert "by id through a server: no example" in shown.stdout
    report = read_skew_report(str(tmp_path / "skew"))
    assert report.options["asks_server"]
    (reason,) = report.reasons
    assert reason == (
        "no example can be compared with what a server samples by id: The model was exported without "
        "assets.extra/sampling_plan.json: its examples were not sampled by a plan, or by an earlier version of the "
        "library."
    )


@pytest.mark.parametrize(
    ("graph_index_dir", "asks_server", "message"),
    [
        ("no-such-index", False, "`index_dir` must be a graph index; got 'no-such-index'"),
        ("", True, "`graph_index_dir` must be given with `asks_server`; got none"),
    ],
)
def test_missing_index_is_an_error_before_anything_is_read(tmp_path, graph_index_dir, asks_server, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        validate_skew(
            examples_dir="no-examples",
            transformed_examples_dir="no-transformed-examples",
            model_dir="no-model",
            model_run_dir="no-model-run",
            skew_dir=str(tmp_path / "skew"),
            infra_blessing_dir=str(tmp_path / "blessing"),
            graph_index_dir=graph_index_dir,
            options=GraphSkewValidatorOptions(asks_server=asks_server),
        )
    assert not os.listdir(tmp_path)


def test_lost_example_is_an_error(folders, tmp_path):
    lost = folders.edited(tmp_path, lambda shards: shards[0].pop())

    with pytest.raises(ValueError, match=r"got more than 6 in `examples_dir` alone, graphs-00000-of-00002.gz"):
        lost.validate(tmp_path, splits=("val",))

    assert sorted(os.listdir(tmp_path)) == ["edited"]


def _with_other_statistics(shards):
    """What the same function makes of statistics of other examples: other means, ranges, buckets and vocabularies."""
    for example in itertools.chain.from_iterable(shards):
        for key in ("nodes/paper.x", "nodes/paper.point", "nodes/author.of.age", "edges/cites.weight"):
            values = example.features.feature[key].float_list.value
            values[:] = [1.25 * value + 0.125 for value in values]
        for key, count in (("nodes/paper.venue", 6), ("nodes/paper.pages_bucket", 5), ("context/year", 4)):
            values = example.features.feature[key].int64_list.value
            values[:] = [(value + 1) % count for value in values]


def test_examples_of_another_preprocessing_are_caught(folders, tmp_path):
    other = folders.edited(tmp_path, _with_other_statistics)

    report = other.validate(tmp_path, splits=("val",))
    differing = {feature.key for feature in report.features if feature.num_differing}

    assert not report.blessed
    assert {"nodes/paper.x", "nodes/paper.point", "nodes/paper.venue", "context/year"} <= differing
    assert not {key for key in differing if "#" in key or key in ("nodes/paper.pages", "nodes/paper.venue_hash")}
    assert any(reason.startswith("nodes/paper.x: ") for reason in report.reasons)


def _with_model(folders, tmp_path):
    shutil.copytree(folders.model_dir, tmp_path / "model")
    return dataclasses.replace(folders, model_dir=str(tmp_path / "model"))


def test_edited_vocabulary_file_of_the_export_is_caught(folders, tmp_path):
    edited = _with_model(folders, tmp_path)
    (vocabulary,) = (tmp_path / "model").rglob("assets/venue")
    words = vocabulary.read_bytes().split(b"\n")
    vocabulary.write_bytes(b"\n".join([words[1], words[0], *words[2:]]))

    report = edited.validate(tmp_path, splits=("val",))

    assert not report.blessed
    assert {feature.key for feature in report.features if feature.num_differing} == {"nodes/paper.venue"}
    assert any(output.num_differing for output in report.outputs if output.key == "logits")


def test_edited_weights_of_the_export_are_caught_by_the_logits(folders, edit_weights, tmp_path):
    edited = _with_model(folders, tmp_path)
    edit_weights(tmp_path / "model" / "Format-Serving", [2], lambda bias: bias - [0.01, 0.0])

    report = edited.validate(tmp_path, splits=("val",))

    assert not report.blessed
    assert report.largest_difference == 0.0
    (reason,) = report.reasons
    assert reason.startswith("training and serving give other logits, probabilities, score: logits: ")


def test_model_of_an_earlier_version_is_refused(folders, tmp_path):
    with pytest.raises(FileNotFoundError, match="`model_run_dir` must hold a SavedModel of GraphTrainer"):
        dataclasses.replace(folders, model_run_dir=str(tmp_path)).validate(tmp_path)


def test_other_splits_are_refused(folders, tmp_path):
    with pytest.raises(ValueError, match=r"`split` must be one of \['test', 'train', 'val'\]; got 'dev'"):
        folders.validate(tmp_path, splits=("dev",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_examples": 0}, "`max_examples` must be at least 1; got 0"),
        ({"max_served_by_id": 0}, "`max_served_by_id` must be at least 1; got 0"),
        ({"batch_size": 0}, "`batch_size` must be at least 1; got 0"),
        ({"max_float_difference": -1.0}, "`max_float_difference` must be at least 0.0; got -1.0"),
        ({"max_rounding_difference": -1e-9}, "`max_rounding_difference` must be at least 0.0; got -1e-09"),
        ({"max_output_difference": float("nan")}, "`max_output_difference` must be at least 0.0; got nan"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GraphSkewValidatorOptions(**options)
