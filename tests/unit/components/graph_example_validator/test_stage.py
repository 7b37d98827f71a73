"""Each check has a planted case that it catches; the graphs below, as they are, pass all of them.

Papers cite papers and `shared` ones that are never seeds. Seeds of `train` are of the years 1 to 24, those of `val`
of 31 to 34, those of `test` of 41 to 44; every label stands with every kind.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from tfx_gnn.components.graph_example_validator.checks import Anomaly
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples
from tfx_gnn.records.blessing import is_blessed, read_reasons

SCHEMA = """
node_sets { key: "paper" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "kind" value { dtype: DT_STRING } }
    features { key: "code" value { dtype: DT_INT64 } }
    features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
node_sets { key: "_readout" value {
    features { key: "topic" value { dtype: DT_STRING } }
    features { key: "year" value { dtype: DT_INT64 } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper"
    features { key: "year" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "paper" target: "_readout" } }
"""
FIRST_YEARS = {"train": range(1, 25), "val": range(31, 35), "test": range(41, 45)}
PROMISES: dict[str, Any] = {
    "label_features": ("topic",),
    "seed_time_feature": "year",
    "edge_time_features": {"cites": "year"},
    "inductive": True,
    "max_jensen_shannon_skew": 1.0,
    "max_l_infinity_skew": 1.0,
}


def topic_of(year: int) -> str:
    return "databases" if year % 2 else "networks"


def example(year: int) -> dict[str, list[Any]]:
    """Paper `year` of that year cites the paper of the year before, if that is of its split, and a shared one."""
    papers = [f"p{year}", "shared", *([f"p{year - 1}"] if year % 10 != 1 else [])]
    cited = list(range(1, len(papers)))
    return {
        "nodes/paper.#size": [len(papers)],
        "nodes/paper.#id": papers,
        "nodes/paper.kind": [f"kind{year % 3}"] * len(papers),
        "nodes/paper.code": [year // 2 % 2] * len(papers),
        "nodes/paper.pair": [0.5, float(year // 3 % 2)] * len(papers),
        "nodes/paper.words": ["a", "b"],
        "nodes/paper.words.d1": [2] + [0] * (len(papers) - 1),
        "nodes/_readout.#size": [1],
        "nodes/_readout.topic": [topic_of(year)],
        "nodes/_readout.year": [year],
        "edges/cites.#size": [len(cited)],
        "edges/cites.#source": [0] * len(cited),
        "edges/cites.#target": cited,
        "edges/cites.year": [year] * len(cited),
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


def splits() -> dict[str, list[list[dict[str, list[Any]]]]]:
    """All splits; `train` in two files of twelve."""
    found = {split: [[example(year) for year in years]] for split, years in FIRST_YEARS.items()}
    (train,) = found["train"]
    return {**found, "train": [train[:12], train[12:]]}


Plant = Callable[[dict[str, list[list[dict[str, list[Any]]]]]], Any]


@pytest.fixture
def validate(tmp_path: Path, write_examples: Callable[..., str]) -> Callable[..., list[Anomaly]]:
    def run(
        plant: Plant | None = None,
        baseline: str = "",
        blessed: str = "",
        tables: dict[str, Any] | None = None,
        schema: str = SCHEMA,
        *,
        earlier: list[dict[str, list[Any]]] | None = None,
        **options: Any,
    ) -> list[Anomaly]:
        data = splits()
        if plant is not None:
            plant(data)
        examples_dir = write_examples(str(tmp_path / "examples"), data, schema)
        if earlier is not None:
            of_span = write_examples(str(tmp_path / "earlier"), {"train": [earlier]}, schema)
            (file,) = Path(of_span, "Split-train").iterdir()
            file.rename(Path(examples_dir, "Split-train", "span-1-00000-of-00001.gz"))
        if tables is not None:
            (tmp_path / "examples" / "statistics.json").write_text(json.dumps(tables))
        validation = validate_graph_examples(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            statistics_dir=str(tmp_path / "statistics"),
            anomalies_dir=str(tmp_path / "anomalies"),
            blessing_dir=str(tmp_path / "blessing"),
            baseline_statistics_dir=baseline,
            blessed_model_dir=blessed,
            options=GraphExampleValidatorOptions(**{**PROMISES, **options}),
        )
        assert is_blessed(str(tmp_path / "blessing")) is validation.blessed
        return list(validation.anomalies)

    return run


def short(anomalies: list[Anomaly]) -> list[tuple[Any, ...]]:
    return [(item.check, item.split, item.about, item.num_examples, list(item.places)) for item in anomalies]


def test_whole_examples_of_splits_that_are_apart_are_blessed(validate, tmp_path):
    assert validate() == []

    (reason,) = read_reasons(str(tmp_path / "blessing"))
    assert reason == (
        "0 errors and 0 warnings in 24 of split 'train', 4 of split 'val', 4 of split 'test' examples: "
        f"{tmp_path}/anomalies/anomalies.json"
    )
    assert (
        sorted(path.name for path in (tmp_path / "statistics").rglob("*") if path.is_file()) == ["FeatureStats.pb"] * 3
    )
    assert json.loads((tmp_path / "anomalies" / "anomalies.json").read_text())["anomalies"] == []


TRAIN_0 = "graphs-00000-of-00002.gz"
VAL = "graphs-00000-of-00001.gz"


def repeat_seed(data):
    data["val"][0].append({**data["train"][1][2], "nodes/paper.kind": ["kind7"] * 3})


def show_unseen(data):
    data["train"][0][5]["nodes/paper.#id"][1] = "p42"


def copy_label(how: Callable[[int], Mapping[str, Any]]) -> Plant:
    def plant(data):
        for files in data.values():
            for content in (content for file in files for content in file):
                year = content["nodes/_readout.year"][0]
                size = content["nodes/paper.#size"][0]
                for key, value in how(year).items():
                    content[f"nodes/paper.{key}"] = (value if isinstance(value, list) else [value]) * size

    return plant


def test_the_same_seed_in_two_splits_is_found(validate):
    anomalies = validate(repeat_seed, seed_time_feature="", edge_time_features={}, inductive=False)

    place = f"record 2 of graphs-00001-of-00002.gz: contains the seed of record 4 of {VAL} (split 'val')"
    assert short(anomalies) == [("seed_in_two_splits", "train", "seeds of split 'val'", 1, [place])]


def test_the_same_node_at_another_time_is_another_seed(validate):
    def plant(data):
        data["val"][0][0]["nodes/paper.#id"][0] = "p7"

    assert validate(plant, inductive=False) == []


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        pytest.param(
            show_unseen,
            (
                "unseen_node_shown",
                "train",
                "nodes/paper of split 'test'",
                1,
                [f"record 5 of {TRAIN_0}: contains the seed of record 1 of {VAL} (split 'test')"],
            ),
            id="unseen-node-in-train",
        ),
        pytest.param(
            lambda data: data["train"][0][3].update({"nodes/_readout.year": [32]}),
            (
                "seed_newer_than_later_split",
                "train",
                "nodes/_readout.year",
                1,
                [f"record 3 of {TRAIN_0}: time 32, but a later split begins at 31"],
            ),
            id="newer-training-seed",
        ),
        pytest.param(
            lambda data: data["val"][0][1].update({"edges/cites.year": [32, 99]}),
            (
                "edge_newer_than_seed",
                "val",
                "edges/cites.year",
                1,
                [f"record 1 of {VAL}: time 99, but the seed is of 32"],
            ),
            id="newer-edge",
        ),
        pytest.param(
            copy_label(lambda year: {"kind": topic_of(year)}),
            ("label_copied_into_feature", "train", "nodes/paper.kind", 32, []),
            id="feature-equals-label",
        ),
        pytest.param(
            copy_label(lambda year: {"code": 7 if year % 2 else 3}),
            ("label_copied_into_feature", "train", "nodes/paper.code", 32, []),
            id="feature-renames-label",
        ),
        pytest.param(
            copy_label(lambda year: {"pair": [float(year % 2), float(year // 3 % 2)]}),
            ("label_copied_into_feature", "train", "nodes/paper.pair[0]", 32, []),
            id="part-of-a-feature-renames-label",
        ),
        pytest.param(
            copy_label(lambda year: {"kind": f"{topic_of(year)}-{year % 3}"}),
            ("label_determined_by_feature", "train", "nodes/paper.kind", 32, []),
            id="feature-determines-label",
        ),
        pytest.param(
            lambda data: data["test"][0][2].update(
                {"edges/_readout/seed.#size": [0], "edges/_readout/seed.#source": [], "edges/_readout/seed.#target": []}
            ),
            ("missing_root", "test", "edges/_readout/seed", 1, [f"record 2 of {VAL}"]),
            id="readout-without-seed",
        ),
        pytest.param(
            lambda data: data["val"][0][0].update({"edges/cites.#target": [7]}),
            (
                "dangling_edge",
                "val",
                "edges/cites.#target",
                1,
                [f"record 0 of {VAL}: index 7 with 2 nodes in node set 'paper'"],
            ),
            id="dangling-edge",
        ),
        pytest.param(
            lambda data: data["train"][0][0].update({"nodes/paper.pair": [float("nan")] * 4}),
            ("not_finite", "train", "nodes/paper.pair", 1, [f"record 0 of {TRAIN_0}: value nan of item 'p1'"]),
            id="not-finite",
        ),
    ],
)
def test_what_was_planted_is_found_and_nothing_else(validate, plant, expected):
    anomalies = validate(plant)

    assert expected in short(anomalies)
    assert {item.check for item in anomalies} == {expected[0]}
    assert all(item.is_error for item in anomalies)


def test_features_known_before_the_label_may_tell_it(validate):
    plant = copy_label(lambda year: {"kind": f"{topic_of(year)}-{year % 3}", "code": 7 if year % 2 else 3})

    anomalies = validate(plant, accepted_features=("nodes/paper.kind",))

    assert short(anomalies) == [("label_copied_into_feature", "train", "nodes/paper.code", 32, [])]


def test_an_error_withholds_the_blessing_and_says_where_to_look(validate, tmp_path):
    validate(show_unseen)

    verdict, error = read_reasons(str(tmp_path / "blessing"))
    assert verdict.startswith("1 errors and 0 warnings in 24 of split 'train'")
    assert verdict.endswith(f"{tmp_path}/anomalies/anomalies.json")
    assert error.startswith(
        "split 'train', nodes/paper of split 'test': Nodes that must be unseen occur in an earlier split: "
        f"1 nodes; record 5 of {TRAIN_0}: contains the seed of record 1 of {VAL} (split 'test')."
    )
    (written,) = json.loads((tmp_path / "anomalies" / "anomalies.json").read_text())["anomalies"]
    assert (written["check"], written["severity"], written["num_examples"]) == ("unseen_node_shown", "error", 1)


@pytest.mark.parametrize(("severity", "found"), [("warning", ["warning"]), ("off", [])])
def test_severities_are_chosen_by_check(validate, severity, found):
    anomalies = validate(show_unseen, severities={"unseen_node_shown": severity})

    assert [item.severity for item in anomalies] == found


def test_the_time_of_a_seed_is_no_label_although_plans_name_it_among_them(validate, tmp_path):
    plant = copy_label(lambda year: {"code": year})

    assert validate(plant, label_features=("year", "topic")) == []
    assert read_custom_stats(tmp_path, "val", "edges/cites.#size")["label_homophily"] == 0.0


def test_what_is_not_promised_is_not_asked(validate):
    def plant(data):
        show_unseen(data)
        data["train"][0][3]["nodes/_readout.year"] = [32]
        copy_label(lambda year: {"kind": topic_of(year)})(data)

    assert validate(plant, inductive=False, seed_time_feature="", edge_time_features={}, label_features=()) == []


def test_files_and_records_that_cannot_be_read_are_counted_and_the_others_used(validate, tmp_path):
    def plant(data):
        folder = tmp_path / "examples" / "Split-val"
        folder.mkdir(parents=True)
        (folder / "more-00000-of-00002.gz").write_bytes(b"no gzip")
        (folder / "more-00001-of-00002.gz").write_bytes(gzip.compress(b"a record")[:12])
        data["test"] = [[]]

    anomalies = validate(plant)

    damaged, empty = anomalies
    assert (damaged.check, damaged.split, damaged.num_examples) == ("damaged_file", "val", 2)
    assert damaged.places[0].startswith("more-00000-of-00002.gz: `examples_dir` must hold gzipped TFRecord files")
    assert damaged.places[1].startswith("more-00001-of-00002.gz: `examples_dir` must hold gzipped TFRecord files")
    assert (empty.check, empty.split) == ("no_examples", "test")


def test_a_set_that_no_example_has_is_worth_a_warning(validate):
    schema = SCHEMA + 'edge_sets { key: "reviews" value { source: "paper" target: "paper" } }'

    anomalies = validate(schema=schema)

    assert [(item.check, item.severity, item.split, item.about) for item in anomalies] == [
        ("empty_set", "warning", split, "edges/reviews") for split in ("train", "val", "test")
    ]


def read_custom_stats(tmp_path: Path, split: str, key: str) -> dict[str, float]:
    content = (tmp_path / "statistics" / f"Split-{split}" / "FeatureStats.pb").read_bytes()
    (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
    (feature,) = [feature for feature in dataset.features if feature.path.step == [key]]
    return {item.name: item.num for item in feature.custom_stats if item.WhichOneof("val") == "num"}


def test_statistics_tell_of_degrees_isolated_nodes_and_equal_labels(validate, tmp_path):
    def plant(data):
        content = data["val"][0][3]
        content["nodes/paper.#size"] = [4]
        content["nodes/paper.#id"].append("alone")
        for key in ("kind", "code"):
            content[f"nodes/paper.{key}"] *= 2
        content["nodes/paper.kind"] = content["nodes/paper.kind"][:4]
        content["nodes/paper.code"] = content["nodes/paper.code"][:4]
        content["nodes/paper.pair"] = [0.5, 1.0] * 4
        content["nodes/paper.words.d1"] = [2, 0, 0, 0]
        data["val"].append(
            [{**example(33), "edges/cites.#target": [1, 9], "nodes/paper.#id": ["p35", "shared", "p32"]}]
        )

    validate(plant)

    # Val: papers 31 to 34 cite 1, 2, 2 and 2 of 2, 3, 3 and 4; the fifth example dangles and is left out.
    assert read_custom_stats(tmp_path, "val", "nodes/paper.#size") == {
        "isolated_nodes": 1.0,
        "isolated_share": pytest.approx(1 / 12),
    }
    assert read_custom_stats(tmp_path, "val", "edges/cites.#source") == {
        "out_degree_mean": pytest.approx(7 / 12),
        "out_degree_max": 2.0,
        "out_degree_zero_share": pytest.approx(8 / 12),
        "dangling_edges": 0.0,
    }
    assert read_custom_stats(tmp_path, "val", "edges/cites.#target") == {
        "in_degree_mean": pytest.approx(7 / 12),
        "in_degree_max": 1.0,
        "in_degree_zero_share": pytest.approx(5 / 12),
        "dangling_edges": 1.0,
    }
    # A paper and that of the year before never share a topic; no label is known of the shared one.
    assert read_custom_stats(tmp_path, "val", "edges/cites.#size") == {
        "self_loops": 0.0,
        "edges_with_known_labels": 3.0,
        "label_homophily": 0.0,
    }
    assert read_custom_stats(tmp_path, "train", "edges/cites.#size")["edges_with_known_labels"] == 21.0


@pytest.mark.parametrize("edge_times", [{"cites": "year"}, {}])
def test_later_seeds_may_see_more_edges(validate, edge_times):
    anomalies = validate(edge_time_features=edge_times, inductive=False, max_jensen_shannon_skew=0.0)

    sizes = [item.about for item in anomalies if item.check == "skew" and item.about.endswith("#size")]
    assert bool(sizes) == (not edge_times)


def test_drift_from_span_to_span_and_skew_from_split_to_split_are_measured(validate, tmp_path):
    validate()
    baseline = str(tmp_path / "earlier")
    for name in ("statistics", "anomalies", "blessing", "examples"):
        (tmp_path / name).rename(tmp_path / {"statistics": "earlier"}.get(name, f"earlier_{name}"))

    def plant(data):
        for content in data["val"][0]:
            content["nodes/paper.kind"] = ["new"] * len(content["nodes/paper.kind"])
            content["nodes/paper.code"] = [99] * len(content["nodes/paper.code"])

    anomalies = validate(
        plant, baseline=baseline, max_l_infinity_skew=0.9, max_jensen_shannon_skew=0.9, max_l_infinity_drift=0.9
    )

    assert [(item.check, item.severity, item.split, item.about) for item in anomalies] == [
        ("drift", "warning", "val", "nodes/paper.code"),
        ("drift", "warning", "val", "nodes/paper.kind"),
        ("skew", "warning", "val", "nodes/paper.code"),
        ("skew", "warning", "val", "nodes/paper.kind"),
    ]
    assert "Jensen-Shannon divergence 1.0000, allowed 0.3" in anomalies[0].description
    assert "L-infinity distance 1.0000, allowed 0.9" in anomalies[1].description
    content = (tmp_path / "anomalies" / "Split-val" / "SchemaDiff.pb").read_bytes()
    message = anomalies_pb2.Anomalies.FromString(content)
    assert [
        (reason.type, info.severity)
        for info in (message.anomaly_info["'nodes/paper.code'"], message.anomaly_info["'nodes/paper.kind'"])
        for reason in info.reason[:1]
    ] == [
        (anomalies_pb2.AnomalyInfo.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH, anomalies_pb2.AnomalyInfo.WARNING),
        (anomalies_pb2.AnomalyInfo.COMPARATOR_L_INFTY_HIGH, anomalies_pb2.AnomalyInfo.WARNING),
    ]
    drift = {info.path.step[0]: info.drift_measurements[0].value for info in message.drift_skew_info}
    assert drift["nodes/_readout.topic"] == 0.0
    assert drift["nodes/paper.kind"] == 1.0
    assert drift["edges/cites.#source"] == drift["edges/cites.#target"] == 0.0


def test_of_a_window_statistics_are_of_the_newest_span_and_leaks_are_found_in_all(validate, tmp_path):
    def unique(year):
        return example(year) | {"nodes/paper.code": [year, *example(year)["nodes/paper.code"][1:]]}

    def plant(data):
        # Were each seed counted twice, with the same label, its code would seem to determine the label.
        data["train"] = [[unique(year) for year in FIRST_YEARS["train"]]]

    earlier = [unique(year) for year in (*FIRST_YEARS["train"], FIRST_YEARS["test"][0])]
    found = validate(plant, earlier=earlier)

    checks = {anomaly.check for anomaly in found}
    assert "seed_in_two_splits" in checks
    assert "label_determined" not in checks
    (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(
        (tmp_path / "statistics" / "Split-train" / "FeatureStats.pb").read_bytes()
    ).datasets
    assert dataset.num_examples == len(FIRST_YEARS["train"])


def tables_of(span: str, papers: int, cites: int) -> dict[str, Any]:
    """What SubgraphExampleGen writes about the tables."""
    rows = {"nodes/paper": papers, "edges/cites": cites}
    tables_span = {"folder": f"tables/{span}", "span": int(span), "version": None, "name": span}
    return {"tables": {label: {"rows_used": count} for label, count in rows.items()}, "tables_span": tables_span}


def test_planted_drift_from_the_data_of_the_latest_blessed_model_withholds_the_blessing(validate, tmp_path):
    blessed = tmp_path / "blessed"
    pushed = blessed / "Format-Serving" / "assets.extra"
    pushed.mkdir(parents=True)
    (blessed / "latest_blessed_model.json").write_text('{"found": false}')
    assert validate(blessed=str(blessed), tables=tables_of("7", papers=100, cites=400)) == []
    (blessed / "latest_blessed_model.json").write_text('{"found": true}')
    (tmp_path / "statistics").rename(pushed / "training_statistics")
    for name in ("anomalies", "blessing", "examples"):
        (tmp_path / name).rename(tmp_path / f"earlier_{name}")

    def plant(data):
        for content in data["train"][0] + data["train"][1]:
            content["nodes/paper.code"] = [99] * len(content["nodes/paper.code"])

    anomalies = validate(
        plant,
        blessed=str(blessed),
        tables=tables_of("8", papers=100, cites=80),
        severities={"drift": "error", "structure_drift": "error", "skew": "off"},
    )

    assert [(item.check, item.split, item.about) for item in anomalies] == [
        ("drift", "train", "nodes/paper.code"),
        ("structure_drift", "train", "edges/cites"),
        ("structure_drift", "train", "edges/cites"),
        ("structure_drift", "train", "edges/cites"),
    ]
    reasons = read_reasons(str(tmp_path / "blessing"))
    assert "split 'train', nodes/paper.code: The distribution differs" in reasons[1]
    assert "Jensen-Shannon divergence 1.0000, allowed 0.3, span 8 compared with span 7." in reasons[1]
    assert "mean degree of its source nodes 'paper' 0.8 after 4: change 0.8000, allowed 0.5, span 8" in reasons[2]
    assert "rows 80 after 400: change 0.8000, allowed 0.5, span 8 compared with span 7." in reasons[4]


def test_model_that_was_pushed_without_statistics_is_no_baseline(validate, tmp_path):
    (tmp_path / "latest_blessed_model.json").write_text('{"found": true}')

    anomalies = validate(blessed=str(tmp_path))

    assert [(item.check, item.split) for item in anomalies] == [
        ("no_baseline", split) for split in ("train", "val", "test")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "a", "blessed": "b"}, "`blessed_model_dir` must be left out with `baseline_statistics_dir`"),
        ({"max_structure_drift": -1.0}, r"`max_structure_drift` must lie in \[0, 1\]; got -1.0"),
        ({"split_order": ()}, "`split_order` must name splits, each once"),
        ({"max_l_infinity_skew": 2.0}, r"`max_l_infinity_skew` must lie in \[0, 1\]; got 2.0"),
        ({"seed_time_feature": ""}, "`seed_time_feature` must be given with `edge_time_features`"),
        ({"severities": {"typo": "off"}}, r"`severities` must be of known checks; got \['typo'\]"),
        ({"severities": {"drift": "loud"}}, r"`severities` must be one of .* got \{'drift': 'loud'\}"),
        ({"split_order": ("train", "test")}, r"`split_order` must name every split that is read; .*\['val'\]"),
        ({"label_features": ("color",)}, "`label_features` must name features .* got 'nodes/_readout.color'"),
        ({"seed_time_feature": "month"}, "`seed_time_feature` must be a feature of .* got 'month'"),
        ({"seed_time_feature": "topic"}, "`seed_time_feature` must be one integer per item; .* of dtype string"),
        (
            {"edge_time_features": {"likes": "year"}},
            r"`edge_time_features` must name edge sets .* \['_readout/seed', 'ci",
        ),
        ({"pair_label_feature": "topic"}, "`pair_label_feature` must be one integer per item"),
        (
            {"seed_edge_set": "cites"},
            "`seed_edge_set` and `reverse_edge_sets` must be empty unless each example is about a pair",
        ),
        ({"unstable_features": ("paper",)}, "`unstable_features` must be tf.Example keys"),
        ({"splits": ("train", "dev")}, "`split` must be one of"),
    ],
)
def test_promises_about_what_is_not_there_are_refused(validate, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        validate(**options)

    assert not (tmp_path / "blessing").exists()


def test_unseen_nodes_are_promised_only_where_nodes_have_ids(validate):
    schema = SCHEMA.replace('features { key: "#id" value { dtype: DT_STRING } }', "")

    with pytest.raises(ValueError, match="`inductive` must be False unless each example has a seed node with '#id'"):
        validate(schema=schema)


def test_a_baseline_without_the_splits_is_refused(validate, tmp_path):
    with pytest.raises(ValueError, match="`baseline_statistics_dir` must hold statistics of one of the splits"):
        validate(baseline=str(tmp_path))
