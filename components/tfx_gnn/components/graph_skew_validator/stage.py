"""GraphSkewValidator: compares what the exported model computes from raw examples with what training saw."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence

from tfx_gnn.components.graph_skew_validator.answers import (
    ask_out_of_domain,
    load_served_answers,
    load_training_answers,
    operations_as_written,
)
from tfx_gnn.components.graph_skew_validator.comparison import FeatureSkew
from tfx_gnn.components.graph_skew_validator.examples_by_id import ExamplesById
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions
from tfx_gnn.components.graph_skew_validator.report import SkewReport, write_skew_report
from tfx_gnn.components.graph_skew_validator.served_by_id import ServedByIdSkew, compare_by_id
from tfx_gnn.components.graph_skew_validator.skew_accumulator import SkewAccumulator, pair_files, read_example_blocks
from tfx_gnn.io.atomic_folder import atomic_folders
from tfx_gnn.io.progress import progress
from tfx_gnn.io.whole_files import on_local_disk
from tfx_gnn.records import blessing
from tfx_gnn.records.examples_folder import split_names
from tfx_gnn.records.warning_kinds import NO_FINITE_ANSWER
from tfx_gnn.sampling.index.graph_index import GraphIndex, graph_index_on_local_disk
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.model_interface import MODEL_ARTIFACT_FOLDER
from tfx_gnn.serving.request_records import WRONG_SHAPE, DomainAnswer, label_keys, out_of_domain_requests
from tfx_gnn.serving.server.temporary_server import check_server_is_installed, temporary_server

_MAX_REASONS = 20
_MAX_SOURCES = 32
"""Examples from which requests with values outside the domain are made."""
_NONFINITE_ANSWERS = (
    "answers are NaN or infinite for values that requests may hold, which `preprocessing_fn` could clip:"
)


def validate_skew(
    *,
    examples_dir: str,
    transformed_examples_dir: str,
    model_dir: str,
    model_run_dir: str,
    skew_dir: str,
    infra_blessing_dir: str,
    graph_index_dir: str = "",
    options: GraphSkewValidatorOptions,
) -> SkewReport:
    """Compares a model's inputs and outputs in training with those in serving, example by example.

    Transformed examples go through the training reference that GraphTrainer saved; the raw examples that they were
    made from go through the exported model. On both sides, the graph that the network gets is compared value by value,
    and so are the outputs. The exported model is also queried with some examples one by one: the response to a client
    must not depend on other examples.

    With a graph index, a server of the exported model is started in a process of its own, and asked over HTTP about
    some of the examples by the ids of their seeds: what it samples must be the example to the byte, labels aside, and
    its answers those of the model for the example.

    Args:
        examples_dir: raw examples.
        transformed_examples_dir: output of GraphTransform for these examples, with the same number and order of files.
        model_dir: trained model, with `Format-Serving/`.
        model_run_dir: model run of the same training, with `training_reference/`.
        skew_dir: absent or empty folder for `skew.json`.
        infra_blessing_dir: absent or empty folder for `INFRA_BLESSED` or `INFRA_NOT_BLESSED`, and `reasons.json`.
        graph_index_dir: graph index of the tables that the examples were sampled from; empty: no server is asked.
        options: what to compare, and what difference is allowed.

    Returns:
        The results, as in the file.

    Raises:
        ModuleNotFoundError: if a server is to be asked and its packages are missing.
        ChildProcessError: if the server does not start; the message has the end of its log.
        FileNotFoundError: if the model or its training reference is missing.
        ValueError: if the two folders of examples differ in splits, files or numbers of examples, or hold no examples;
            or if there is no graph index where one is named, or `asks_server` needs it.
    """
    with (
        _open_index(graph_index_dir, options) as index,
        atomic_folders({"skew_dir": skew_dir, "infra_blessing_dir": infra_blessing_dir}) as (
            skew_partial,
            blessing_partial,
        ),
    ):
        files = pair_files(examples_dir, transformed_examples_dir, options.splits)
        training, served = load_training_answers(model_run_dir), load_served_answers(model_dir)
        saved_model_dir = os.path.join(model_dir, MODEL_ARTIFACT_FOLDER)
        batch_size = min(options.batch_size, training.batch_size)
        by_id = None
        if index is not None:
            by_id = ExamplesById(saved_model_dir, splits=split_names(examples_dir), limit=options.max_served_by_id)
        with operations_as_written():
            accumulator = SkewAccumulator(training, served, batch_size)
            some: list[bytes] = []
            with progress("comparing", unit="examples") as advance:
                for block in read_example_blocks(files, options.max_examples):
                    accumulator.add(block)
                    some += [pair.raw for pair in block.pairs][: _MAX_SOURCES - len(some)]
                    if by_id is not None:
                        by_id.add(block)
                    advance(len(block.pairs))
            if not accumulator.num_examples:
                raise ValueError(
                    f"`examples_dir` must hold at least one example; got none in {examples_dir!r}. "
                    "Choose splits that hold some."
                )
            requests = out_of_domain_requests(some, label_keys(some, saved_model_dir))
            out_of_domain = ask_out_of_domain(served, requests)
        # A server's operations are fused, and so must be those that its answers are compared with.
        served_by_id = None if index is None or by_id is None else _ask_server(by_id, saved_model_dir, index)
        report = _report(accumulator, options, batch_size, out_of_domain, served_by_id)
        write_skew_report(report, skew_partial)
        blessing.write_blessing(
            blessing_partial,
            blessed=report.blessed,
            reasons=report.reasons,
            subject=blessing.BlessingSubject(kind="model", fingerprint=fingerprint_model(saved_model_dir)),
            prefix=blessing.INFRA_PREFIX,
        )
    return report


@contextlib.contextmanager
def _open_index(graph_index_dir: str, options: GraphSkewValidatorOptions) -> Iterator[GraphIndex | None]:
    """Opens the graph index, if a server is to be asked; before anything is compared, which takes longer."""
    if not graph_index_dir:
        if options.asks_server:
            raise ValueError(
                "`graph_index_dir` must be given with `asks_server`; got none. Build an index of the tables by "
                "`tfx-gnn index`."
            )
        yield None
        return
    check_server_is_installed("graph_index_dir")
    with graph_index_on_local_disk(graph_index_dir) as index:
        yield index


def _ask_server(by_id: ExamplesById, saved_model_dir: str, index: GraphIndex) -> ServedByIdSkew:
    """Starts a server, if there is anything to ask, and compares what it samples and answers."""
    examples = by_id.chosen
    if not examples:
        return ServedByIdSkew(objection=by_id.objection, num_not_comparable=by_id.num_not_comparable)
    with (
        on_local_disk(saved_model_dir) as local_model_dir,
        temporary_server(local_model_dir, index.index_dir) as server,
    ):
        return compare_by_id(server, examples, local_model_dir, by_id.num_not_comparable)


def _report(
    accumulator: SkewAccumulator,
    options: GraphSkewValidatorOptions,
    batch_size: int,
    out_of_domain: tuple[DomainAnswer, ...],
    served_by_id: ServedByIdSkew | None,
) -> SkewReport:
    """Collects the results and decides the verdict."""
    features = accumulator.graphs.features
    report = SkewReport(
        blessed=True,
        reasons=(),
        options=dataclasses.asdict(dataclasses.replace(options, asks_server=served_by_id is not None)),
        num_examples=accumulator.num_examples,
        num_compared=accumulator.num_compared,
        batch_size=batch_size,
        num_unanswered=accumulator.num_of["unanswered"],
        num_of_another_seed=accumulator.num_of["of_another_seed"],
        num_of_another_size=accumulator.num_of["of_another_size"],
        first_problems=tuple(accumulator.first_of.values()),
        ids_compared=accumulator.ids_compared,
        only_in_training=tuple(sorted(accumulator.graphs.only_in_training | accumulator.outputs.only_in_first)),
        only_served=tuple(sorted(accumulator.graphs.only_served | accumulator.outputs.only_in_second)),
        features=features,
        largest_difference=max((feature.largest_difference for feature in features), default=0.0),
        rounding=accumulator.rounding.result,
        outputs=accumulator.outputs.results,
        one_by_one=accumulator.one_by_one.results,
        num_other_labels=accumulator.outputs.num_other_labels,
        num_other_labels_one_by_one=accumulator.one_by_one.num_other_labels,
        out_of_domain=out_of_domain,
        served_by_id=served_by_id,
    )
    problems = _problems(report, accumulator.first_of, options)
    reasons = problems or [_praise(report)]
    doubtful = [answer.text() for answer in out_of_domain if answer.is_doubtful]
    if doubtful and not options.refuses_nonfinite_answers:
        reasons.append(NO_FINITE_ANSWER.mark(f"warning: {_NONFINITE_ANSWERS} {_first_few(doubtful)}"))
    return dataclasses.replace(report, blessed=not problems, reasons=tuple(reasons))


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
    if not report.rounding.is_within(options.max_rounding_difference):
        problems.append(f"features depend on the other examples of a request: {report.rounding.text()}")
    problems += _about_outputs(report.outputs, options, "training and serving give other")
    problems += _about_outputs(
        report.one_by_one, options, "answers depend on the other examples of a request: ask one by one for other"
    )
    if report.served_by_id is not None:
        problems += report.served_by_id.problems(options.max_output_difference)
    problems += _about_out_of_domain(report.out_of_domain, options)
    if not report.num_compared and not problems:
        problems.append("no example could be compared")
    more = len(problems) - _MAX_REASONS
    return problems if more <= 0 else [*problems[:_MAX_REASONS], f"and {more} more, see skew.json"]


def _about_outputs(outputs: Sequence[FeatureSkew], options: GraphSkewValidatorOptions, words: str) -> list[str]:
    differing = [output for output in outputs if not output.is_within(options.max_output_difference)]
    return [f"{words} {', '.join(output.key for output in differing)}: {differing[0].text()}"] if differing else []


def _about_out_of_domain(answers: Sequence[DomainAnswer], options: GraphSkewValidatorOptions) -> list[str]:
    problems = []
    wrong = [answer.text() for answer in answers if answer.answer == WRONG_SHAPE]
    if wrong:
        problems.append(f"answers have another shape than [1, ...] for one example with {_first_few(wrong)}")
    doubtful = [answer.text() for answer in answers if answer.is_doubtful]
    if doubtful and options.refuses_nonfinite_answers:
        problems.append(f"{_NONFINITE_ANSWERS} {_first_few(doubtful)}")
    return problems


def _first_few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MAX_REASONS} more" if len(texts) > _MAX_REASONS else ""
    return ", ".join(texts[:_MAX_REASONS]) + more


def _praise(report: SkewReport) -> str:
    seeds = "" if report.ids_compared else " (seeds were not compared: the transform drops `#id`)"
    return (
        f"{len(report.features)} features and parts of the structure of {report.num_compared} examples{seeds}: largest "
        f"difference {report.largest_difference:g}, in other batches {report.rounding.largest_difference:.2g}; "
        f"answers: {_largest(report.outputs):.2g} between training and serving, "
        f"{_largest(report.one_by_one):.2g} between batches and single requests"
        f"{f'; {report.served_by_id.text()}' if report.served_by_id else ''}"
    )


def _largest(outputs: Sequence[FeatureSkew]) -> float:
    return max((output.largest_difference for output in outputs), default=0.0)
