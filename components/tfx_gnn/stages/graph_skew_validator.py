"""GraphSkewValidator: does the exported model get from raw examples what training got from transformed ones?"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.serving import signature
from tfx_gnn.stages import blessing
from tfx_gnn.stages.atomic_folder import atomic_folder
from tfx_gnn.stages.record_files import RecordFile, place_of, read_records, record_files
from tfx_gnn.stages.skew_comparison import FLOAT, FeatureComparison, FeatureSkew, GraphComparison, RecordPlace
from tfx_gnn.stages.skew_paths import ServedAnswers, TrainingAnswers, load_served_path, load_training_path
from tfx_gnn.stages.skew_report import SkewReport, write_skew_report

_MAX_REASONS = 20
_OUTPUTS = {signature.LOGITS_OUTPUT, signature.ID_OUTPUT}
"""What the training path answers beside the graph."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphSkewValidatorOptions:
    """What to compare, and what difference is allowed.

    Attributes:
        splits: splits to take examples from; empty for all.
        max_examples: examples that are taken of each split at most, the same number from the beginning of each of
            its files; at least 1.
        batch_size: examples of a batch, at least 1; at most as many as in a batch of evaluation are taken.
        max_float_difference: largest absolute difference that is allowed between floating point features, at
            least 0. Integers, strings, sizes and the ends of edges must be equal.
        max_output_difference: largest difference that is allowed between logits, over the largest logit of
            the example where that is above 1; at least 0. Padding changes the order in which sums are taken.
    """

    splits: tuple[str, ...] = ()
    max_examples: int = 512
    batch_size: int = 32
    max_float_difference: float = 1e-6
    max_output_difference: float = 1e-4

    def __post_init__(self) -> None:
        least_values: dict[str, float] = {"max_examples": 1, "batch_size": 1}
        least_values |= {"max_float_difference": 0.0, "max_output_difference": 0.0}
        for name, least in least_values.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")


def validate_skew(
    *,
    examples_dir: str,
    transformed_examples_dir: str,
    model_dir: str,
    model_run_dir: str,
    skew_dir: str,
    infra_blessing_dir: str,
    options: GraphSkewValidatorOptions,
) -> SkewReport:
    """Compares what a model got in training with what it gets when it serves, example by example.

    Transformed examples take the way of training, as GraphTrainer kept it; the raw examples that they were made of go
    through the exported model. Both sides show the graph that the network gets, value by value, and its logits. The
    exported model is also asked for the same examples one by one: the answer to a client must not depend on others.

    Args:
        examples_dir: raw examples.
        transformed_examples_dir: what GraphTransform made of them, in files of the same number and order.
        model_dir: trained model, with `Format-Serving/`.
        model_run_dir: its model run, with `training_path/`.
        skew_dir: absent or empty folder for `skew.json`.
        infra_blessing_dir: absent or empty folder for `INFRA_BLESSED` or `INFRA_NOT_BLESSED`, and `reasons.json`.
        options: what to compare, and what difference is allowed.

    Returns:
        What was found, as in the file.

    Raises:
        FileNotFoundError: if the model or its way of training is not there.
        ValueError: if the two folders of examples have other splits, files or numbers of examples, or none at all.
    """
    files = _file_pairs(examples_dir, transformed_examples_dir, options.splits)
    training, served = load_training_path(model_run_dir), load_served_path(model_dir)
    batch_size = min(options.batch_size, training.batch_size)
    with atomic_folder(skew_dir) as skew_partial, atomic_folder(infra_blessing_dir) as blessing_partial:
        comparison = _Comparison(training, served)
        pairs = _pairs(files, options.max_examples)
        while batch := list(itertools.islice(pairs, batch_size)):
            comparison.add(batch)
        if not comparison.num_examples:
            raise ValueError(
                f"`examples_dir` must hold at least one example; got none in {examples_dir!r}. "
                "Choose splits that hold some."
            )
        report = comparison.report(options, batch_size)
        write_skew_report(report, skew_partial)
        blessing.write_blessing(
            blessing_partial, blessed=report.blessed, reasons=report.reasons, prefix=blessing.INFRA_PREFIX
        )
    return report


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pair:
    """An example before and after the transform."""

    file: RecordFile
    record: int
    raw: bytes
    transformed: bytes

    def place(self, seed: Any = b"?") -> RecordPlace:
        text = seed.decode("utf-8", errors="replace") if isinstance(seed, bytes) else str(seed)
        return RecordPlace(split=self.file.split, file=os.path.basename(self.file.path), record=self.record, id=text)


def _file_pairs(examples_dir: str, transformed_dir: str, splits: Sequence[str]) -> list[tuple[RecordFile, RecordFile]]:
    raw_files = record_files(examples_dir, splits)
    files = record_files(transformed_dir, tuple(dict.fromkeys(file.split for file in raw_files)))
    if [(file.split, file.shard) for file in raw_files] != [(file.split, file.shard) for file in files]:
        raise ValueError(
            "`transformed_examples_dir` must hold as many files in each split as `examples_dir`; got "
            f"{len(files)} files in {transformed_dir!r}, {len(raw_files)} in {examples_dir!r}. "
            "Take the examples that GraphTransform made of these."
        )
    return list(zip(raw_files, files, strict=True))


def _pairs(files: Sequence[tuple[RecordFile, RecordFile]], max_examples: int) -> Iterator[_Pair]:
    for raw_file, file in files:
        quota, rest = divmod(max_examples, raw_file.num_shards)
        limit = quota + (raw_file.shard < rest)
        records = itertools.zip_longest(read_records(raw_file), read_records(file))
        for record, (raw, transformed) in enumerate(itertools.islice(records, limit)):
            if raw is None or transformed is None:
                longer = "transformed_examples_dir" if raw is None else "examples_dir"
                raise ValueError(
                    "`transformed_examples_dir` must hold one example for each of `examples_dir`; got more than "
                    f"{record} in `{longer}` alone, {place_of(file)}. Take the examples that GraphTransform made."
                )
            yield _Pair(file=raw_file, record=record, raw=raw, transformed=transformed)


@dataclasses.dataclass(frozen=True)
class _Answers:
    """What both sides say about a batch."""

    training: dict[str, npt.NDArray[Any]]
    graph: dict[str, npt.NDArray[Any]]
    predictions: dict[str, npt.NDArray[Any]]


class _Comparison:
    """Adds up what all batches show."""

    def __init__(self, training: TrainingAnswers, served: ServedAnswers) -> None:
        self._training, self._served = training, served
        self._graphs = GraphComparison()
        self._logits = FeatureComparison(signature.LOGITS_OUTPUT, FLOAT)
        self._one_by_one = FeatureComparison(f"{signature.LOGITS_OUTPUT} one by one", FLOAT)
        self.num_examples: dict[str, int] = {}
        self._counts = dict.fromkeys(("unanswered", "of_another_seed", "of_another_size"), 0)
        self._first_problems: dict[str, str] = {}
        self._num_compared = 0
        self._num_other_labels = 0
        self._num_other_labels_one_by_one = 0
        self._ids_compared = True

    def add(self, pairs: list[_Pair]) -> None:
        """Compares a batch; examples that cannot be compared are counted and left out."""
        for pair in pairs:
            self.num_examples[pair.file.split] = self.num_examples.get(pair.file.split, 0) + 1
        pairs, answers = self._answered(pairs)
        if answers is None:
            return
        places = _places(pairs, answers)
        same = self._same_seeds(answers, places)
        if not same.all():
            pairs, answers, places = self._again(pairs, same)
            if answers is None:
                return
        same = self._graphs.compare_sizes(answers.training, answers.graph, places)
        if not same.all():
            self._note("of_another_size", int((~same).sum()), places[int(np.argmin(same))].text())
            pairs, answers, places = self._again(pairs, same)
            if answers is None:
                return
        self._graphs.compare(answers.training, answers.graph, places)
        self._compare_outputs(pairs, answers, places)
        self._num_compared += len(pairs)

    def _again(
        self, pairs: list[_Pair], is_kept: npt.NDArray[np.bool_]
    ) -> tuple[list[_Pair], _Answers | None, list[RecordPlace]]:
        """Asks for some of a batch's examples only: in a merged graph, one stray example displaces all others."""
        pairs = [pair for pair, kept in zip(pairs, is_kept.tolist(), strict=True) if kept]
        if not pairs:
            return pairs, None, []
        answers = self._ask(pairs)
        return pairs, answers, _places(pairs, answers)

    def _ask(self, pairs: list[_Pair]) -> _Answers:
        raw = [pair.raw for pair in pairs]
        return _Answers(
            self._training.answer([pair.transformed for pair in pairs]),
            self._served.graph(raw),
            self._served.predict(raw),
        )

    def _answered(self, pairs: list[_Pair]) -> tuple[list[_Pair], _Answers | None]:
        try:
            return pairs, self._ask(pairs)
        except tf.errors.InvalidArgumentError:
            kept = []
        for pair in pairs:
            try:
                self._ask([pair])
            except tf.errors.InvalidArgumentError as error:
                self._note("unanswered", 1, f"{place_of(pair.file, pair.record)}: {error.message}")
            else:
                kept.append(pair)
        try:
            return kept, self._ask(kept) if kept else None
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(
                f"`batch_size` must let batches fit the budget of evaluation; got {len(kept)} examples from "
                f"{place_of(kept[0].file, kept[0].record)} on that fit alone and not together. Learn budgets from "
                f"this split, too, or compare smaller batches. Cause: {error.message}"
            ) from error

    def _same_seeds(self, answers: _Answers, places: Sequence[RecordPlace]) -> npt.NDArray[np.bool_]:
        if signature.ID_OUTPUT not in answers.training:
            self._ids_compared = False
            return np.ones(len(places), bool)
        seeds = answers.training[signature.ID_OUTPUT]
        same: npt.NDArray[np.bool_] = np.asarray(seeds == answers.predictions[signature.ID_OUTPUT], bool)
        if not same.all():
            first = int(np.argmin(same))
            self._note("of_another_seed", int((~same).sum()), f"{places[first].text()}: {seeds[first]!r} in training")
        return same

    def _compare_outputs(self, pairs: list[_Pair], answers: _Answers, places: Sequence[RecordPlace]) -> None:
        name = signature.LOGITS_OUTPUT
        served = answers.predictions[name]
        alone = np.concatenate([self._served.predict([pair.raw])[name] for pair in pairs])
        scale = np.maximum(np.abs(served).max(axis=1, keepdims=True, initial=1.0), 1.0)

        def place(row: int) -> tuple[str, int]:
            return places[max(row, 0)].text(), -1

        self._logits.add(answers.training[name], served, place, scale)
        self._one_by_one.add(served, alone, place, scale)
        labels = served.argmax(axis=1)
        self._num_other_labels += int((answers.training[name].argmax(axis=1) != labels).sum())
        self._num_other_labels_one_by_one += int((alone.argmax(axis=1) != labels).sum())

    def _note(self, kind: str, count: int, first: str) -> None:
        self._counts[kind] += count
        self._first_problems.setdefault(kind, first)

    def report(self, options: GraphSkewValidatorOptions, batch_size: int) -> SkewReport:
        """Puts together what was found, and judges it."""
        features = self._graphs.features
        report = SkewReport(
            blessed=True,
            reasons=(),
            options=dataclasses.asdict(options),
            num_examples=self.num_examples,
            num_compared=self._num_compared,
            batch_size=batch_size,
            num_unanswered=self._counts["unanswered"],
            num_of_another_seed=self._counts["of_another_seed"],
            num_of_another_size=self._counts["of_another_size"],
            first_problems=tuple(self._first_problems.values()),
            ids_compared=self._ids_compared,
            only_in_training=tuple(sorted(self._graphs.only_in_training - _OUTPUTS)),
            only_served=tuple(sorted(self._graphs.only_served - _OUTPUTS)),
            features=features,
            largest_difference=max((feature.largest_difference for feature in features), default=0.0),
            logits=self._logits.result,
            one_by_one=self._one_by_one.result,
            num_other_labels=self._num_other_labels,
            num_other_labels_one_by_one=self._num_other_labels_one_by_one,
        )
        problems = _problems(report, self._first_problems, options)
        reasons = problems or [_praise(report)]
        return dataclasses.replace(report, blessed=not problems, reasons=tuple(reasons))


def _places(pairs: Sequence[_Pair], answers: _Answers) -> list[RecordPlace]:
    seeds = answers.predictions[signature.ID_OUTPUT].tolist()
    return [pair.place(seed) for pair, seed in zip(pairs, seeds, strict=True)]


def _problems(report: SkewReport, first: dict[str, str], options: GraphSkewValidatorOptions) -> list[str]:
    num_read = sum(report.num_examples.values())
    problems = []
    if report.num_unanswered:
        problems.append(f"{report.num_unanswered} of {num_read} examples are refused, first {first['unanswered']}")
    if report.num_of_another_seed:
        problems.append(
            f"{report.num_of_another_seed} of {num_read} pairs of examples are not about the same seed, "
            f"first {first['of_another_seed']}"
        )
    if report.num_of_another_size:
        problems.append(
            f"{report.num_of_another_size} of {num_read} pairs of examples have another number of nodes or edges, "
            f"first {first['of_another_size']}"
        )
    for keys, side in ((report.only_in_training, "in training"), (report.only_served, "when served")):
        if keys:
            problems.append(f"only {side} there are {', '.join(keys)}")
    problems += [feature.text() for feature in report.features if not feature.is_within(options.max_float_difference)]
    if not report.logits.is_within(options.max_output_difference):
        problems.append(_about_logits(report.logits, "training and serving give other logits"))
    if not report.one_by_one.is_within(options.max_output_difference):
        problems.append(
            _about_logits(report.one_by_one, "answers depend on the other examples of a request: ask them one by one")
        )
    if not report.num_compared and not problems:
        problems.append("no example could be compared")
    more = len(problems) - _MAX_REASONS
    return problems if more <= 0 else [*problems[:_MAX_REASONS], f"and {more} more, see skew.json"]


def _about_logits(skew: FeatureSkew, words: str) -> str:
    return f"{words}: {skew.num_differing} of {skew.num_values} logits differ, by up to {skew.largest_difference:g}"


def _praise(report: SkewReport) -> str:
    return (
        f"{len(report.features)} features and parts of the structure of {report.num_compared} examples: largest "
        f"difference {report.largest_difference:g}; logits: {report.logits.largest_difference:.2g} between training "
        f"and serving, {report.one_by_one.largest_difference:.2g} between batches and single requests"
    )
