"""How many examples a pipeline will have, counted in its tables."""

from __future__ import annotations

from collections.abc import Mapping

from tfx_gnn_pipelines.config import PipelineConfig


def count_examples(config: PipelineConfig) -> dict[str, int]:
    """Counts the examples of each split in the tables."""
    return with_earlier_spans(_count_in(config.tables_dir, config), config)


def with_earlier_spans(counts: Mapping[str, int], config: PipelineConfig) -> dict[str, int]:
    """Adds the examples of a window's earlier spans, which are in the first split, to those of the newest span."""
    first = config.subgraph_example_gen.first_split
    earlier = sum(_count_in(folder, config).get(first, 0) for folder in config.find_tables_folders()[:-1])
    return {split: count + (earlier if split == first else 0) for split, count in counts.items()}


def _count_in(tables_dir: str, config: PipelineConfig) -> dict[str, int]:
    # These import TensorFlow.
    from tfx_gnn.components.subgraph_example_gen.in_memory_examples import open_tables
    from tfx_gnn.tables.graph_tables import read_tables_schema

    options = config.subgraph_example_gen
    schema = read_tables_schema(tables_dir, access=options.access)
    return dict(open_tables(tables_dir=tables_dir, schema=schema, options=options).made.num_seeds)
