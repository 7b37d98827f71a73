"""Statistics of what tf.Transform's analyzers see, counting each item once.

For each feature, before or after the transform, TensorFlow Data Validation reads as many values as there
are items: fields such as `num_non_missing` count items, not examples. If several splits are analyzed, an
item belongs to the first one, in alphabetical order, that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.records.example_batches import Column, list_column
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.records.split_statistics import FeatureSummary, write_feature, write_statistics
from tfx_gnn.transform.items import identity_rule

PlacesOfSet = tuple[str, npt.NDArray[np.int64]]
"""Prefix of a set, and positions among all of its items in a file."""


@dataclasses.dataclass(kw_only=True)
class ItemSummaries:
    """Summaries of the features of items.

    Attributes:
        num_examples: examples that were read for the summaries.
        features: summaries by tf.Example key.
    """

    num_examples: int = 0
    features: dict[str, FeatureSummary] = dataclasses.field(default_factory=dict)

    def add(self, columns: Mapping[str, Column]) -> None:
        """Adds items: columns by tf.Example key, with one entry per item."""
        for key, column in columns.items():
            self.features.setdefault(key, FeatureSummary()).add(column)

    def merge(self, other: ItemSummaries) -> None:
        """Adds the items of another summary, which is unchanged."""
        self.num_examples += other.num_examples
        for key, feature in other.features.items():
            self.features.setdefault(key, FeatureSummary()).merge(feature)


def merge_item_summaries(parts: Iterable[ItemSummaries]) -> ItemSummaries:
    """Adds up summaries in any order; without any, the result is empty."""
    merged = ItemSummaries()
    for part in parts:
        merged.merge(part)
    return merged


class ItemChoice:
    """The items of a file to summarize after the transform, while the file is read batch by batch.

    Attributes:
        layout: the keys of the graph before the transform.
        summaries: summaries of the chosen items so far.
    """

    def __init__(self, layout: GraphLayout, places: Iterable[PlacesOfSet], *, as_sampled: bool) -> None:
        """Chooses items.

        `places` are positions among the items of a set in the file, for sets whose items are recognized. All items of
        other sets are chosen, and all items of all sets with `as_sampled`.
        """
        self.layout = layout
        self.summaries = ItemSummaries()
        self._places = {
            one_set.prefix: [np.zeros(0, np.int64)]
            for one_set in layout.sets
            if not as_sampled and identity_rule(one_set, layout).recognizes_items
        }
        for prefix, some in places:
            self._places[prefix].append(some)
        self._sorted = {prefix: np.sort(np.concatenate(some)) for prefix, some in self._places.items()}
        self._num_items: dict[str, int] = {}

    def add(self, prefix: str, num_items: int, items: Mapping[str, pa.LargeListArray]) -> None:
        """Adds the chosen ones among the file's next items, given as lists of values by tf.Example key."""
        begin = self._num_items.get(prefix, 0)
        self._num_items[prefix] = begin + num_items
        if prefix in self._sorted:
            first, last = np.searchsorted(self._sorted[prefix], [begin, begin + num_items])
            rows = pa.array(self._sorted[prefix][first:last] - begin)
            items = {key: array.take(rows) for key, array in items.items()}
        self.summaries.add({key: list_column(array) for key, array in items.items()})


class WriteItemStatistics(beam.PTransform):
    """Writes summaries to `Split-<name>/FeatureStats.pb`, like TFX's StatisticsGen."""

    def __init__(self, folder: str, splits: Sequence[str]) -> None:
        """Takes an existing folder that all workers see, and the splits that get a file in any case."""
        super().__init__()
        self._folder, self._splits = folder, tuple(splits)

    def expand(self, input_or_inputs: Any) -> Any:
        """Maps a PCollection of (split, `ItemSummaries`) to one None per split, emitted once its file is written."""
        nothing = input_or_inputs.pipeline | "Splits" >> beam.Create(
            [(split, ItemSummaries()) for split in self._splits]
        )
        return (
            (input_or_inputs, nothing)
            | "AllSplits" >> beam.Flatten()
            | "Merge" >> beam.CombinePerKey(merge_item_summaries)
            | "Write" >> beam.Map(_write, self._folder)
        )


def _write(summarized: tuple[str, ItemSummaries], folder: str) -> None:
    split, summaries = summarized
    dataset = statistics_pb2.DatasetFeatureStatistics(name=split, num_examples=summaries.num_examples)
    for key, summary in sorted(summaries.features.items()):
        feature = dataset.features.add()
        feature.path.step.append(key)
        write_feature(feature, summary, summary.num_present)
    write_statistics(folder, dataset, split)
