"""The check of a whole pipeline, from the imports of the user's code to the thresholds."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from tfx_gnn.io.user_code import load_function
from tfx_gnn.io.user_errors import source_files
from tfx_gnn_pipelines.checks.example_checks import check_examples, check_heads
from tfx_gnn_pipelines.checks.findings import FindingsCollector, PipelineCheck
from tfx_gnn_pipelines.checks.model_checks import check_batch_size, check_model, transform_sample
from tfx_gnn_pipelines.checks.threshold_checks import check_thresholds
from tfx_gnn_pipelines.checks.transform_checks import check_transform
from tfx_gnn_pipelines.config import PipelineConfig

_IMPORTED = "be in a module that can be imported"


def check_project(
    load: Callable[[], PipelineConfig],
    *,
    files: Sequence[str] = (),
    samples_dir: str = "",
    debug: bool = False,
) -> PipelineCheck:
    """Loads a project and checks its pipeline; an error of the project's own code is a finding, too.

    Args:
        load: builds the config from the user's project.
        files: files of the user to look for wrong names in beside the functions, such as `project.yaml`.
        samples_dir: folder in which a few transformed examples are kept, for a later check of the same tables and the
            same preprocessing function; empty to keep none.
        debug: whether warnings of the stages, and the traceback behind each error, are shown on standard error.

    Returns:
        What was found.
    """
    started = time.monotonic()
    found = FindingsCollector(files, debug=debug)
    config = None
    with found.caught("project", argument="project", rule="be loaded"):
        config = load()
    if config is not None:
        found = FindingsCollector([*files, *source_files(_references(config))], debug=debug)
        _check(config, samples_dir, found)
    return _finished(found, started)


def check_pipeline(config: PipelineConfig, *, files: Sequence[str] = ()) -> PipelineCheck:
    """Checks a pipeline in seconds, without TFX and without training.

    In the order of the steps: the user's functions can be imported; schema and tables can be read; all names in plan,
    task and options exist; no split is empty; the preprocessing function can be traced on the schema and makes what
    the task and the model need; transform and model work on a few examples, with a finite loss; thresholds can be met
    and missed. A later step is left out where an earlier one made its input impossible; everything else that is wrong
    is found at once.

    Args:
        config: the pipeline.
        files: files of the user to look for wrong names in, such as `project.yaml`.

    Returns:
        What was found; `passed` if a run can start.
    """
    return check_project(lambda: config, files=files)


def check_names(config: PipelineConfig, *, files: Sequence[str] = ()) -> PipelineCheck:
    """Checks what needs neither the rows of the tables nor the transform: in a moment, once TensorFlow is imported.

    The user's functions can be imported; the schema can be read, and the heads of the tables fit it; all names in plan
    and options exist; thresholds can be met.

    Args:
        config: the pipeline.
        files: files of the user to look for wrong names in, such as `project.yaml`.

    Returns:
        What was found.
    """
    started = time.monotonic()
    found = FindingsCollector([*files, *source_files(_references(config))])
    with _quiet():
        _check_imports(config, found)
        check_heads(config, found)
        check_thresholds(config, {}, found)
    return _finished(found, started)


def _finished(found: FindingsCollector, started: float) -> PipelineCheck:
    return PipelineCheck(
        findings=tuple(found.findings),
        looked_at=tuple(found.looked_at),
        not_checked=tuple(found.not_checked),
        seconds=time.monotonic() - started,
    )


def _references(config: PipelineConfig) -> tuple[str, ...]:
    return tuple(filter(None, (config.graph_transform.preprocessing_fn, config.graph_trainer.model_fn)))


def _check_imports(config: PipelineConfig, found: FindingsCollector) -> dict[str, bool]:
    """Imports the user's functions; tells by option whether that worked."""
    imports = {}
    for step, argument, reference in (
        ("GraphTransform", "preprocessing_fn", config.graph_transform.preprocessing_fn),
        ("GraphTrainer", "model_fn", config.graph_trainer.model_fn),
    ):
        num_findings = len(found.findings)
        with found.caught(step, argument=argument, rule=_IMPORTED):
            if reference:
                load_function(reference)
        imports[argument] = len(found.findings) == num_findings
    found.files = list(dict.fromkeys([*found.files, *source_files(_references(config))]))
    return imports


def _check(config: PipelineConfig, samples_dir: str, found: FindingsCollector) -> None:
    imports = _check_imports(config, found)
    quiet = contextlib.nullcontext() if found.debug else _quiet()
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-check-") as folder, quiet:
        examples_dir = os.path.join(folder, "examples")
        examples = check_examples(config, examples_dir, found)
        num_examples = examples.num_examples if examples else {}
        check_batch_size(config, num_examples, found)
        check_thresholds(config, num_examples, found)
        if examples is None or not imports["preprocessing_fn"]:
            found.not_checked.append("transform and model: see the errors")
            return
        traced = check_transform(config, examples.schema, found)
        if traced is None or not examples.has_sample or found.has_errors:
            found.not_checked.append("the transform on examples, and the model: see the errors")
            return
        folders = transform_sample(config, examples_dir, samples_dir or folder, found)
        if folders is not None:
            check_model(config, folders, found)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides what the stages log about small data, which says nothing about the whole."""
    levels = {name: logging.getLogger(name).level for name in ("tfx_gnn", "absl", "tensorflow")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
