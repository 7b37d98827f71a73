"""GraphExampleValidator: checks examples for corruption, leaks between splits, drift and skew."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.components.graph_example_validator.checks import (
    NO_BASELINE,
    READABLE_FILE,
    STRUCTURE_DRIFT,
    Anomaly,
    make_anomaly,
    write_anomalies,
)
from tfx_gnn.components.graph_example_validator.distribution_shifts import (
    DRIFT,
    Datasets,
    Shift,
    list_comparable_keys,
    list_degree_keys,
    measure_degree_drift,
    measure_drift,
    measure_skew,
)
from tfx_gnn.components.graph_example_validator.label_copies import find_label_copies
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.components.graph_example_validator.structure_drift import (
    compared_spans,
    measure_structure_drift,
    read_sizes,
    read_sizes_of_examples,
)
from tfx_gnn.components.graph_example_validator.validation_pass import PassReport, ValidationPlan, run_validation_pass
from tfx_gnn.components.graph_example_validator.validation_plan import make_validation_plan
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.io.json_shapes import read_shaped_json
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.blessing import LATEST_BLESSED_MODEL_FILE, BlessingSubject, write_blessing
from tfx_gnn.records.examples_folder import (
    fingerprint_examples_folder,
    graph_schema_path,
    reading_progress,
    record_files,
)
from tfx_gnn.records.findings import Finding
from tfx_gnn.records.split_statistics import read_statistics, write_statistics
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER, TRAINING_STATISTICS_FOLDER


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphValidation:
    """What a validation found.

    Attributes:
        blessed: whether no check found an error.
        anomalies: what checks found, errors first.
        num_examples: number of examples in each split that conform to the schema, of a window those of the newest span.
    """

    blessed: bool
    anomalies: tuple[Anomaly, ...]
    num_examples: Mapping[str, int]

    @property
    def blessed_splits(self) -> dict[str, bool]:
        """Whether no check found an error, by split."""
        wrong = {anomaly.split for anomaly in self.anomalies if anomaly.is_error}
        return {split: split not in wrong for split in self.num_examples}


def validate_graph_examples(
    *,
    examples_dir: str,
    graph_schema_dir: str,
    statistics_dir: str,
    anomalies_dir: str,
    blessing_dir: str,
    baseline_statistics_dir: str = "",
    blessed_model_dir: str = "",
    options: GraphExampleValidatorOptions,
    beam_args: Sequence[str] = (),
) -> GraphValidation:
    """Checks graph tf.Examples and decides whether they may be used for training.

    Apache Beam reads all examples once. Examples that violate the schema are counted, but excluded from
    statistics and from the comparison of splits. Statistics and anomalies have the format of TensorFlow Data
    Validation, so its tools can read and show them. If the examples are of a rolling window of spans, statistics are of
    the newest span, so that drift shows undiluted; damage and leaks are looked for in all.

    Args:
        examples_dir: raw graph tf.Examples.
        graph_schema_dir: folder with the `graph_schema.pbtxt` of the examples.
        statistics_dir: absent or empty folder for `Split-<name>/FeatureStats.pb`, and `tables.json`.
        anomalies_dir: absent or empty folder for `Split-<name>/SchemaDiff.pb` and `anomalies.json`.
        blessing_dir: absent or empty folder for `BLESSED` or `NOT_BLESSED`, and `reasons.json`.
        baseline_statistics_dir: statistics of earlier data, such as those of the previous span; empty if there
            are none.
        blessed_model_dir: output of LatestBlessedModelResolver instead; the statistics of the data that the model was
            trained on are the baseline, if they were pushed with it.
        options: the guarantees to check.
        beam_args: command-line arguments of Apache Beam.

    Returns:
        What was found, as in the files.

    Raises:
        ValueError: if two baselines are given, a split is missing or is not in the split order, or a guarantee names
            something that the schema does not have.
    """
    files = record_files(examples_dir, options.splits, takes_cut_off=True)
    schema = graph_schema_io.read_schema(graph_schema_path(graph_schema_dir))
    plan = make_validation_plan(schema, sorted({file.split for file in files}), options)
    splits = plan.rules.splits
    _check_keys(plan, options)
    if blessed_model_dir:
        if baseline_statistics_dir:
            raise ValueError(
                f"`blessed_model_dir` must be left out with `baseline_statistics_dir`; got {blessed_model_dir!r} and "
                f"{baseline_statistics_dir!r}. Give one of them."
            )
        baseline_statistics_dir = _statistics_of_blessed(blessed_model_dir)
    baseline = _read_baseline(baseline_statistics_dir, splits, may_be_empty=bool(blessed_model_dir))
    sizes, earlier_sizes = read_sizes_of_examples(examples_dir), read_sizes(baseline_statistics_dir)
    compared = compared_spans(sizes, earlier_sizes)
    with atomic_folders(
        {"statistics_dir": statistics_dir, "anomalies_dir": anomalies_dir, "blessing_dir": blessing_dir}
    ) as (statistics_partial, anomalies_partial, blessing_partial):
        with reading_progress("validation", files):
            report = run_validation_pass(files, plan, scratch_dir=statistics_partial, beam_args=beam_args)
        datasets = {split: report.dataset(split) for split in splits}
        shifts = _shifts(datasets, baseline, plan, options)
        degree_keys = list_degree_keys(plan.layout, options.unstable_features)
        shifts += measure_degree_drift(datasets, baseline, degree_keys, options.max_jensen_shannon_drift)
        anomalies = _anomalies(report, plan, shifts, options, compared)
        if sizes is not None and earlier_sizes is not None:
            for shift in measure_structure_drift(sizes, earlier_sizes, schema, options.max_structure_drift):
                finding = Finding(check=STRUCTURE_DRIFT, split=splits[0], about=shift.about)
                anomalies += _in_words([finding], options, f"{shift.words}{compared}")
        if baseline_statistics_dir:
            missing = [Finding(check=NO_BASELINE, split=split, about="") for split in splits if split not in baseline]
            anomalies += _in_words(missing, options)
        anomalies.sort(key=lambda item: (not item.is_error, splits.index(item.split)))
        validation = GraphValidation(
            blessed=not any(anomaly.is_error for anomaly in anomalies),
            anomalies=tuple(anomalies),
            num_examples={split: dataset.num_examples for split, dataset in datasets.items()},
        )
        for split, dataset in datasets.items():
            write_statistics(statistics_partial, dataset, split)
        if sizes is not None:
            sizes.write(statistics_partial)
        write_anomalies(anomalies_partial, anomalies, shifts, splits, make_tfmd_schema(plan.layout))
        reasons = _reasons(validation, os.path.join(anomalies_dir, READABLE_FILE))
        write_blessing(
            blessing_partial,
            blessed=validation.blessed,
            reasons=reasons,
            subject=BlessingSubject(kind="examples", fingerprint=fingerprint_examples_folder(examples_dir)),
        )
    return validation


def _statistics_of_blessed(blessed_model_dir: str) -> str:
    """Returns the folder of statistics that was pushed with a model; empty if no model has been blessed yet."""
    record = read_shaped_json(os.path.join(blessed_model_dir, LATEST_BLESSED_MODEL_FILE), {"found": bool})
    if not record["found"]:
        return ""
    return os.path.join(blessed_model_dir, MODEL_ARTIFACT_FOLDER, TRAINING_STATISTICS_FOLDER)


def _read_baseline(folder: str, splits: Sequence[str], *, may_be_empty: bool) -> Datasets:
    if not folder:
        return {}
    found: dict[str, statistics_pb2.DatasetFeatureStatistics] = {}
    for split in splits:
        dataset = read_statistics(folder, split)
        if dataset is not None:
            found[split] = dataset
    if not found and not may_be_empty:
        raise ValueError(
            f"`baseline_statistics_dir` must hold statistics of one of the splits {list(splits)}; got none in "
            f"{folder!r}. Point at statistics that GraphExampleValidator or StatisticsGen made."
        )
    return found


def _shifts(
    datasets: Datasets, baseline: Datasets, plan: ValidationPlan, options: GraphExampleValidatorOptions
) -> list[Shift]:
    keys, first_split = list_comparable_keys(plan.layout, _unstable(plan, options)), plan.rules.splits[0]
    # Later seeds see more edges.
    growing = {one_set.size_key for one_set in plan.layout.sets} if options.edge_time_features else set()
    of_splits = [key for key in keys if key not in growing]
    return [
        *measure_drift(datasets, baseline, keys, (options.max_l_infinity_drift, options.max_jensen_shannon_drift)),
        *measure_skew(datasets, first_split, of_splits, (options.max_l_infinity_skew, options.max_jensen_shannon_skew)),
    ]


def _check_keys(plan: ValidationPlan, options: GraphExampleValidatorOptions) -> None:
    layout = plan.layout
    for field in ("unstable_features", "accepted_features"):
        unknown = sorted(set(getattr(options, field)) - set(layout.set_of_key))
        if not unknown:
            continue
        raise ValueError(
            f"`{field}` must be tf.Example keys of the graph schema; got {unknown}. It has "
            f"{sorted(layout.set_of_key)}. {did_you_mean(unknown[0], layout.set_of_key)}"
        )


def _unstable(plan: ValidationPlan, options: GraphExampleValidatorOptions) -> set[str]:
    layout = plan.layout
    times = {layout.set_by_prefix[f"edges/{name}"].key_of(item) for name, item in options.edge_time_features.items()}
    return {*options.unstable_features, *times, plan.time_key}


def _anomalies(
    report: PassReport,
    plan: ValidationPlan,
    shifts: Sequence[Shift],
    options: GraphExampleValidatorOptions,
    compared: str,
) -> list[Anomaly]:
    anomalies = _in_words(report.findings.found, options)
    for copy in find_label_copies(plan.columns, report.label_counts):
        if copy.key in options.accepted_features:
            continue
        finding = Finding(check=copy.check, split=plan.rules.splits[0], about=copy.about, num_examples=copy.num_seeds)
        anomalies += _in_words([finding], options, copy.detail)
    for shift in shifts:
        if shift.is_high:
            finding = Finding(check=shift.check, split=shift.split, about=shift.key)
            anomalies += _in_words([finding], options, f"{shift.words}{compared if shift.check == DRIFT else ''}")
    return anomalies


def _in_words(findings: Sequence[Finding], options: GraphExampleValidatorOptions, details: str = "") -> list[Anomaly]:
    found = [make_anomaly(finding, options.severities, details) for finding in findings]
    return [anomaly for anomaly in found if anomaly is not None]


def _reasons(validation: GraphValidation, anomalies_file: str) -> list[str]:
    errors = [
        f"split {item.split!r}{f', {item.about}' if item.about else ''}: {item.description}"
        for item in validation.anomalies
        if item.is_error
    ]
    num_warnings = len(validation.anomalies) - len(errors)
    counts = ", ".join(f"{number} of split {split!r}" for split, number in validation.num_examples.items())
    verdict = f"{len(errors)} errors and {num_warnings} warnings in {counts} examples: {anomalies_file}"
    return [verdict, *errors]
