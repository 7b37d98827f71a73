"""GraphTransform and the work of the stock Transform on the same subgraphs, each once.

`python transform_runs.py RUN ARGUMENTS` does it in a process of its own, and prints what it measured as JSON, in
the last line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import tensorflow_transform.beam as tft_beam
from tfx_bsl.coders import example_coder
from tfx_bsl.public import tfxio

import tfx_gnn_pipelines
from tfx_gnn.components import (
    GraphTransformOptions,
    SubgraphExampleGenOptions,
    generate_subgraph_examples,
    transform_graphs,
)
from tfx_gnn.graph import read_schema
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.sampling import SplitPlan
from tfx_gnn.transform import tensor_preprocessing_fn
from tfx_gnn_pipelines.tasks.debian_sections.plan import PLAN
from tfx_gnn_pipelines.tasks.debian_sections.preprocessing import preprocessing_fn

_TABLES_DIR = Path(tfx_gnn_pipelines.__file__).parent / "tasks" / "debian_sections" / "data"
_PREPROCESSING = "tfx_gnn_pipelines.tasks.debian_sections.preprocessing:preprocessing_fn"
#: Columns of the tables that hold ids of nodes.
_ID_COLUMNS = frozenset({"package", "source", "maintainer", "tag", "target"})
_SPLIT = "train"
_NUM_SHARDS = 4


def make_examples(examples_dir: str, times: int) -> dict[str, float]:
    """Samples around every package of some copies of the quickstart's graph, into one split.

    Args:
        examples_dir: folder to make.
        times: how many copies; no two share a node.
    """
    tables_dir = Path(f"{examples_dir}_tables")
    tables_dir.mkdir()
    shutil.copy(_TABLES_DIR / "graph_schema.pbtxt", tables_dir)
    for path in _TABLES_DIR.glob("*.csv"):
        table = pa_csv.read_csv(path)
        pa_csv.write_csv(pa.concat_tables([_copy(table, number) for number in range(times)]), tables_dir / path.name)
    report = generate_subgraph_examples(
        tables_dir=str(tables_dir),
        examples_dir=examples_dir,
        options=SubgraphExampleGenOptions(
            plan=dataclasses.replace(PLAN, splits=SplitPlan(weights={_SPLIT: 1})), num_shards=_NUM_SHARDS
        ),
    )
    return {"examples": sum(report.num_seeds.values())}


def run_ours(examples_dir: str, output_dir: str, with_statistics: int = 0) -> dict[str, float]:
    """Runs GraphTransform.

    Args:
        examples_dir: what to transform.
        output_dir: folder to make.
        with_statistics: 1 to write statistics before and after the transform, too.
    """
    statistics = ("pre_transform_stats", "post_transform_stats") if with_statistics else ()
    started, cpu = time.perf_counter(), time.process_time()
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=os.path.join(output_dir, "transform_graph"),
        transformed_examples_dir=os.path.join(output_dir, "examples"),
        transformed_graph_schema_dir=os.path.join(output_dir, "schema"),
        options=GraphTransformOptions(preprocessing_fn=_PREPROCESSING),
        **{f"{name}_dir": os.path.join(output_dir, name) for name in statistics},
    )
    return _measured(started, cpu)


def run_stock(examples_dir: str, output_dir: str) -> dict[str, float]:
    """Does what the stock Transform does: the same function over all occurrences of nodes and edges.

    Args:
        examples_dir: what to transform.
        output_dir: folder to make.
    """
    started, cpu = time.perf_counter(), time.process_time()
    layout = graph_layout(read_schema(os.path.join(examples_dir, "graph_schema.pbtxt")))
    source = tfxio.TFExampleRecord(
        file_pattern=os.path.join(examples_dir, f"Split-{_SPLIT}", "*"),
        telemetry_descriptors=["benchmark"],
        schema=make_tfmd_schema(layout),
    )
    function = tensor_preprocessing_fn(preprocessing_fn, layout)
    with (
        make_pipeline() as pipeline,
        tft_beam.Context(temp_dir=os.path.join(output_dir, "scratch"), force_tf_compat_v1=False),
    ):
        batches = pipeline | source.BeamSource()
        (transformed, _), transform_fn = (batches, source.TensorAdapterConfig()) | (
            tft_beam.AnalyzeAndTransformDataset(function, output_record_batches=True)
        )
        _ = transform_fn | tft_beam.WriteTransformFn(os.path.join(output_dir, "transform_graph"))
        _ = (
            transformed
            | beam.FlatMap(_encode, example_coder.RecordBatchToExamplesEncoder())
            | beam.io.WriteToTFRecord(os.path.join(output_dir, "examples"), file_name_suffix=".gz")
        )
    return _measured(started, cpu)


def _encode(
    transformed: tuple[pa.RecordBatch, object], encoder: example_coder.RecordBatchToExamplesEncoder
) -> list[bytes]:
    records: list[bytes] = encoder.encode(transformed[0])
    return records


def _copy(table: pa.Table, number: int) -> pa.Table:
    for position, name in enumerate(table.column_names):
        if name in _ID_COLUMNS:
            ids = table[name].cast(pa.string())
            if number:
                ids = pc.binary_join_element_wise(ids, f"copy{number}", "~")
            table = table.set_column(position, name, ids)
    return table


def _measured(started: float, cpu: float) -> dict[str, float]:
    # Not ru_maxrss: it starts at the size of the process that started this one.
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu, "peak": peak}


RUNS: Mapping[str, Callable[..., dict[str, float]]] = {
    "examples": make_examples,
    "ours": run_ours,
    "stock": run_stock,
}

if __name__ == "__main__":
    run, *arguments = sys.argv[1:]
    result = RUNS[run](*(int(argument) if argument.isdecimal() else argument for argument in arguments))
    sys.stdout.write(f"{json.dumps(result)}\n")
