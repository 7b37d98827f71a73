"""Runs the steps of a pipeline on a few of its examples, in a process of its own, and measures what they cost."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import importlib
import itertools
import json
import os
import pickle
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from tfx_gnn.io import options_json
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.planning.example_counts import with_earlier_spans
from tfx_gnn_pipelines.planning.measurements import (
    READING,
    RESOLVER,
    SAMPLE,
    STEPS,
    Measurements,
    SampleMeasurements,
    StepMeasurement,
    TrainingMeasurement,
    examples_of_step,
    with_upstream,
)
from tfx_gnn_pipelines.process_memory import forget_peak, peak_bytes, resident_bytes

if TYPE_CHECKING:
    from tfx_gnn.components.subgraph_example_gen.in_memory_examples import ExampleSource
    from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
    from tfx_gnn.training.loop.summary import TrainingSummary

RESULT_FILE, PROGRESS_FILE, JOB_FILE = "measurements.json", "progress", "job"
"""Files in the folder of a sample run: what it measured, the step that runs, and what it was asked for."""
ERROR = "error"
"""Key of the result of a run that failed."""

_MIN_SAMPLE = 128
_MAX_WHOLE = 512
_MIN_OF_SPLIT = 16
_NUM_BATCHES = 4
_LARGER = 4
_NUM_EPOCHS = 3
_READ_PER_FILE = 64
_STARTED = time.monotonic()
_REPEATED = {
    "SubgraphExampleGen": (),
    "GraphSchemaGen": ("SubgraphExampleGen",),
    "GraphExampleValidator": ("GraphSchemaGen",),
    "GraphTransform": ("GraphSchemaGen",),
    "SizeConstraintLearner": ("GraphTransform",),
    # With the model of the first pass.
    "GraphEvaluator": ("SubgraphExampleGen",),
}
"""Steps whose cost grows with the examples, and what must be repeated for them."""


def choose_sample(num_examples: Mapping[str, int], *, train_split: str, batch_size: int) -> dict[str, int]:
    """Chooses how many examples of each split the first pass uses: all of a small pipeline, else a few in proportion.

    The training split gets at least a few batches.
    """
    total = sum(num_examples.values())
    if total <= _MAX_WHOLE:
        return dict(num_examples)
    sample = {}
    for split, count in num_examples.items():
        least = _NUM_BATCHES * batch_size if split == train_split else _MIN_OF_SPLIT
        sample[split] = min(count, max(least, _MIN_SAMPLE * count // total))
    return sample


class _Meter:
    """Measures the steps of this process."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.measurements: list[StepMeasurement] = []
        self._note = note

    @contextlib.contextmanager
    def step(self, name: str, num_examples: int, *outputs: str) -> Iterator[None]:
        self._note(name)
        forget_peak()
        memory = resident_bytes()
        started = time.perf_counter()
        yield
        seconds, peak = time.perf_counter() - started, peak_bytes()
        self.measurements.append(
            StepMeasurement(
                step=name,
                num_examples=num_examples,
                seconds=seconds,
                peak_bytes=peak,
                growth_bytes=max(peak - memory, 0),
                output_bytes=sum(map(folder_bytes, outputs)),
            )
        )


def folder_bytes(folder: str) -> int:
    """Adds the sizes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names)


def measure_sample(
    config: PipelineConfig,
    folder: str,
    *,
    seconds: float,
    steps: Collection[str] = STEPS,
    note: Callable[[str], None] = lambda _: None,
) -> SampleMeasurements:
    """Runs steps once on a sample, then most of them on a larger one and on the same one again, while time remains.

    Args:
        config: the pipeline.
        folder: where the steps write; the caller removes it.
        seconds: time for steps to be repeated in, after all have run once; a step that has begun ends.
        steps: what to measure; steps upstream of these run, too. GraphTuner is measured as GraphTrainer.
        note: called with the name of each step that begins.
    """
    from tfx_gnn.components.subgraph_example_gen.in_memory_examples import open_tables
    from tfx_gnn.tables.graph_tables import read_tables_schema

    begun = time.monotonic()
    meter = _Meter(note)
    example_gen = config.subgraph_example_gen
    schema = read_tables_schema(config.tables_dir, access=example_gen.access)
    with meter.step(READING, 0):
        opened = open_tables(tables_dir=config.tables_dir, schema=schema, options=example_gen)
    counted = dict(opened.made.num_seeds)
    batch_size = max(*config.size_constraint_learner.batch_sizes, config.graph_trainer.batching.batch_size)
    sample = choose_sample(counted, train_split=config.graph_trainer.train_split, batch_size=batch_size)
    larger = {split: min(counted[split], _LARGER * count) for split, count in sample.items()}
    wanted = {"GraphTrainer" if step == "GraphTuner" else step for step in steps}
    trial = _Trial(config, opened.source, schema, meter)
    trial.run_once(os.path.join(folder, "first"), sample, with_upstream(wanted))
    until, is_repeated = time.monotonic() + seconds, True
    for name, splits in (("larger", larger), ("again", sample)) if larger != sample else ():
        again = with_upstream(wanted & _REPEATED.keys(), _REPEATED)
        is_repeated = trial.repeat(os.path.join(folder, name), splits, again, until=until) and is_repeated
    measured = tuple(meter.measurements)
    note("importing TFX")
    before = resident_bytes()
    importlib.import_module("tfx_gnn_pipelines.local_runs")
    tfx_bytes = max(resident_bytes() - before, 0)
    ended = time.monotonic()
    return SampleMeasurements(
        counted=with_earlier_spans(counted, config),
        measured=Measurements(
            source=SAMPLE,
            num_examples=sample,
            steps=measured,
            training=trial.training,
            record_bytes=trial.record_bytes,
            tfx_bytes=tfx_bytes,
        ),
        start_seconds=ended - _STARTED - sum(step.seconds for step in measured),
        is_repeated=is_repeated,
        seconds=ended - begun,
    )


class _Trial:
    """The steps of a pipeline on some of its examples."""

    def __init__(self, config: PipelineConfig, source: ExampleSource, schema: GraphSchema, meter: _Meter) -> None:
        self._config, self._source, self._schema, self._meter = config, source, schema, meter
        self._model_dir = self._model_run_dir = self._blessed_model_dir = ""
        self.training: TrainingMeasurement | None = None
        self.record_bytes = 0.0

    def run_once(self, folder: str, splits: Mapping[str, int], names: Collection[str]) -> None:
        """Runs steps once."""
        self._model_dir, self._model_run_dir = os.path.join(folder, "model"), os.path.join(folder, "model_run")
        if self._config.latest_blessed_model_resolver is not None:
            self._blessed_model_dir = os.path.join(folder, "blessed_model")
        for name, run in self._steps(folder, splits).items():
            if name in names:
                run()

    def repeat(self, folder: str, splits: Mapping[str, int], names: Collection[str], *, until: float) -> bool:
        """Runs steps once more, as long as time remains; returns whether it did."""
        for name, run in self._steps(folder, splits).items():
            if name in names:
                if time.monotonic() >= until:
                    return False
                run()
        return True

    def _steps(self, folder: str, splits: Mapping[str, int]) -> dict[str, Callable[[], None]]:
        return {
            **self._data_steps(folder, splits),
            "GraphTrainer": lambda: self._train(folder, splits),
            **self._model_steps(folder, splits),
            "GraphPusher": lambda: self._push(folder),
        }

    def _data_steps(self, folder: str, splits: Mapping[str, int]) -> dict[str, Callable[[], None]]:
        from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples
        from tfx_gnn.components.graph_schema_gen.stage import generate_graph_schema
        from tfx_gnn.components.graph_transform.stage import transform_graphs
        from tfx_gnn.components.latest_blessed_model_resolver.stage import resolve_latest_blessed_model
        from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints

        config, place, meter = self._config, _Places(folder), self._meter
        total = sum(splits.values())
        # A sample loses other shares of its slices than the whole.
        sizes = dataclasses.replace(config.size_constraint_learner, max_slice_loss=1.0)
        transform = config.graph_transform
        compares_data = config.graph_example_validator.compares_with_latest_blessed

        def make_examples() -> None:
            with meter.step("SubgraphExampleGen", total, place.examples):
                self._write_examples(place.examples, splits)

        resolver = config.latest_blessed_model_resolver

        def resolve() -> None:
            assert resolver is not None
            with meter.step(RESOLVER, 0, self._blessed_model_dir):
                resolve_latest_blessed_model(
                    push_destination=config.push_destination,
                    blessed_model_dir=self._blessed_model_dir,
                    # A plan needs no version yet.
                    options=dataclasses.replace(resolver, must_exist=False),
                )

        def make_schema() -> None:
            outputs = {"graph_schema_dir": place.graph_schema, "schema_dir": place.of("schema")}
            with meter.step("GraphSchemaGen", total, *outputs.values()):
                generate_graph_schema(examples_dir=place.examples, options=config.graph_schema_gen, **outputs)

        def validate() -> None:
            outputs = {name: place.of(name) for name in ("statistics_dir", "anomalies_dir", "blessing_dir")}
            with meter.step("GraphExampleValidator", total, *outputs.values()):
                validate_graph_examples(
                    examples_dir=place.examples,
                    graph_schema_dir=place.graph_schema,
                    blessed_model_dir=self._blessed_model_dir if compares_data else "",
                    options=config.graph_example_validator,
                    **outputs,
                )

        def transform_examples() -> None:
            outputs = {
                "transform_graph_dir": place.of("transform_graph"),
                "transformed_examples_dir": place.transformed_examples,
                "transformed_graph_schema_dir": place.of("transformed_graph_schema"),
            }
            with meter.step("GraphTransform", total, *outputs.values()):
                transform_graphs(
                    examples_dir=place.examples,
                    graph_schema_dir=place.graph_schema,
                    options=transform,
                    tables_dir=config.tables_dir if transform.analyze == "tables" else "",
                    **outputs,
                )

        def learn_sizes() -> None:
            with meter.step("SizeConstraintLearner", total, place.of("size_constraints")):
                learn_size_constraints(
                    examples_dir=place.transformed_examples,
                    graph_schema_dir=place.of("transformed_graph_schema"),
                    transform_graph_dir=place.of("transform_graph"),
                    size_constraints_dir=place.of("size_constraints"),
                    options=sizes,
                )

        return {
            "SubgraphExampleGen": make_examples,
            **({RESOLVER: resolve} if resolver is not None else {}),
            "GraphSchemaGen": make_schema,
            "GraphExampleValidator": validate,
            "GraphTransform": transform_examples,
            "SizeConstraintLearner": learn_sizes,
        }

    def _write_examples(self, folder: str, splits: Mapping[str, int]) -> None:
        from tfx_gnn.graph.schema import schema_io
        from tfx_gnn.records import examples_folder
        from tfx_gnn.sampling.plan.graph_level_tables import make_graph_level_schema
        from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema

        for split, count in splits.items():
            # Keys are hashes, so the first ones are a random sample.
            batches = self._source.batches(split, 0, count)
            records = (record for _, of_batch in batches for record in of_batch)
            examples_folder.write_split_shard(folder, split, 0, 1, records)
        options = self._config.subgraph_example_gen
        if options.plan is not None:
            schema = make_subgraph_schema(self._schema, options.plan)
        else:
            assert options.graph_level_examples is not None
            schema = make_graph_level_schema(self._schema, options.graph_level_examples)
        schema_io.write_schema(schema, examples_folder.graph_schema_path(folder))

    def _train(self, folder: str, splits: Mapping[str, int]) -> None:
        from tfx_gnn.components.graph_trainer.stage import train_graph_model
        from tfx_gnn.distribution.options import STRATEGIES_OF_ONE_PROCESS, StrategyOptions

        place, options = _Places(folder), self._config.graph_trainer
        options = dataclasses.replace(
            options,
            num_epochs=_NUM_EPOCHS,
            # Never stops, but keeps the best weights as the real training does.
            early_stopping_patience=_NUM_EPOCHS if options.early_stopping_patience else 0,
            strategy=options.strategy if options.strategy.kind in STRATEGIES_OF_ONE_PROCESS else StrategyOptions(),
            checkpoints=dataclasses.replace(options.checkpoints, directory=""),
            verify_tpu="never",
        )
        num_examples = examples_of_step("GraphTrainer", self._config, splits)
        with self._meter.step("GraphTrainer", num_examples, self._model_dir, self._model_run_dir):
            summary = train_graph_model(
                transformed_examples_dir=place.transformed_examples,
                transform_graph_dir=place.of("transform_graph"),
                graph_schema_dir=place.graph_schema,
                transformed_graph_schema_dir=place.of("transformed_graph_schema"),
                size_constraints_dir="" if options.batching.kind == "ego" else place.of("size_constraints"),
                model_dir=self._model_dir,
                model_run_dir=self._model_run_dir,
                examples_dir=place.examples,
                options=options,
            )
        self.record_bytes = mean_record_bytes(place.transformed_examples)
        self.training = describe_training(summary, self._model_run_dir, num_trained=splits[options.train_split])

    def _model_steps(self, folder: str, splits: Mapping[str, int]) -> dict[str, Callable[[], None]]:
        from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model
        from tfx_gnn.components.graph_skew_validator.stage import validate_skew

        config, place = self._config, _Places(folder)
        evaluator, skew = config.graph_evaluator, config.graph_skew_validator

        def evaluate() -> None:
            outputs = {"evaluation_dir": place.of("evaluation"), "blessing_dir": place.of("model_blessing")}
            num_examples = examples_of_step("GraphEvaluator", config, splits)
            with self._meter.step("GraphEvaluator", num_examples, *outputs.values()):
                evaluate_graph_model(
                    examples_dir=place.examples,
                    model_dir=self._model_dir,
                    blessed_model_dir=self._blessed_model_dir,
                    options=evaluator,
                    **outputs,
                )

        def compare() -> None:
            outputs = {"skew_dir": place.of("skew"), "infra_blessing_dir": place.of("infra_blessing")}
            num_examples = examples_of_step("GraphSkewValidator", config, splits)
            with self._meter.step("GraphSkewValidator", num_examples, *outputs.values()):
                validate_skew(
                    examples_dir=place.examples,
                    transformed_examples_dir=place.transformed_examples,
                    model_dir=self._model_dir,
                    model_run_dir=self._model_run_dir,
                    options=skew,
                    **outputs,
                )

        return {"GraphEvaluator": evaluate, "GraphSkewValidator": compare}

    def _push(self, folder: str) -> None:
        from tfx_gnn.components.graph_pusher.stage import push_graph_model
        from tfx_gnn.records.blessing import write_blessing

        place = _Places(folder)
        blessing = place.of("assumed_blessing")
        os.makedirs(blessing)
        write_blessing(blessing, blessed=True, reasons=["assumed for the plan"])
        with self._meter.step("GraphPusher", 0, place.of("serving"), place.of("pushed")):
            push_graph_model(
                model_dir=self._model_dir,
                blessing_dir=blessing,
                examples_dir=place.examples,
                push_destination=place.of("serving"),
                pushed_model_dir=place.of("pushed"),
                options=self._config.graph_pusher,
            )


@dataclasses.dataclass(frozen=True)
class _Places:
    """Folders of one pass."""

    folder: str

    @property
    def examples(self) -> str:
        return self.of("examples")

    @property
    def graph_schema(self) -> str:
        return self.of("graph_schema")

    @property
    def transformed_examples(self) -> str:
        return self.of("transformed_examples")

    def of(self, name: str) -> str:
        return os.path.join(self.folder, name)


def describe_training(summary: TrainingSummary, model_run_dir: str, *, num_trained: int) -> TrainingMeasurement:
    """Measures a training of at least two epochs by what it wrote.

    Args:
        summary: its summary.
        model_run_dir: its folder of logs and checkpoints.
        num_trained: examples of its training split.
    """
    epoch = summary.epoch_inputs[-1]
    later = summary.epoch_inputs[1:]
    ends = _ends_of_epochs(os.path.join(model_run_dir, "logs"))
    return TrainingMeasurement(
        num_epochs=len(summary.epoch_inputs),
        stopped_early=summary.stopped_early,
        seconds_per_step=statistics.median(
            one.num_graphs / one.graphs_per_second / max(one.num_steps, 1) for one in later
        ),
        seconds_per_epoch=statistics.median(after - before for before, after in itertools.pairwise(ends)),
        steps_per_epoch=epoch.num_steps,
        graphs_per_batch=float(summary.budget["graphs_per_batch"])
        if "graphs_per_batch" in summary.budget
        else epoch.graphs_per_batch,
        trained_share=epoch.num_graphs / num_trained,
        batch_bytes=int(summary.budget.get("bytes_per_batch", 0)),
        num_parameters=summary.num_parameters,
        num_classes=summary.num_classes,
    )


def mean_record_bytes(examples_dir: str) -> float:
    """Returns the mean size of examples in memory, in bytes."""
    from tfx_gnn.records.examples_folder import read_records, record_files

    sizes = []
    for file in record_files(examples_dir):
        with contextlib.closing(read_records(file)) as records:  # type: ignore[type-var]
            sizes += [len(record) for record, _ in zip(records, range(_READ_PER_FILE), strict=False)]
    return sum(sizes) / max(len(sizes), 1)


def _ends_of_epochs(logs_dir: str) -> list[float]:
    """Reads from TensorBoard's logs when each epoch had ended, evaluation included."""
    import tensorflow as tf

    ends: dict[int, float] = {}
    for path in sorted(glob.glob(os.path.join(logs_dir, "train", "*tfevents*"))):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                if value.tag == "epoch_loss":
                    ends[event.step] = event.wall_time
    return [ends[step] for step in sorted(ends)]


def main(folder: str) -> None:
    """Runs what a folder asks for and writes the result there; see `RESULT_FILE`."""
    from tfx_gnn.io.quiet_libraries import quiet_first_compilation, quiet_start
    from tfx_gnn.io.user_errors import plain_message

    def note(step: str) -> None:
        with open(os.path.join(folder, PROGRESS_FILE), "w", encoding="utf-8") as file:
            file.write(step)

    quiet_start()
    with open(os.path.join(folder, JOB_FILE), "rb") as file:
        config, seconds, steps = pickle.load(file)
    note("start")
    try:
        quiet_first_compilation()
        found = options_json.to_json(measure_sample(config, folder, seconds=seconds, steps=steps, note=note))
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is what the parent reports.
        found = json.dumps({ERROR: f"{type(error).__name__}: {plain_message(error)}"})
    with open(os.path.join(folder, RESULT_FILE), "w", encoding="utf-8") as result:
        result.write(found)


if __name__ == "__main__":
    main(sys.argv[1])
