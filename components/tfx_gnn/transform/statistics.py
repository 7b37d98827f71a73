"""Statistics of what tf.Transform's analyzers see, each item once.

Of each feature, before or after the transform, TensorFlow Data Validation reads as many values as there
are items: `num_non_missing` and the like count items, not examples. Where several splits are analyzed, an
item belongs to the first of them, in alphabetical order, that has it.
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
    """What is known of the features of items.

    Attributes:
        num_examples: examples that were read for them.
        features: summaries by tf.Example key.
    """

    num_examples: int = 0
    features: dict[str, FeatureSummary] = dataclasses.field(default_factory=dict)

    def add(self, columns: Mapping[str, Column]) -> None:
        """Takes items in: columns by tf.Example key, one entry an item."""
        for key, column in columns.items():
            self.features.setdefault(key, FeatureSummary()).add(column)

    def merge(self, other: ItemSummaries) -> None:
        """Takes the items of another summary in, which stays as it is."""
        self.num_examples += other.num_examples
        for key, feature in other.features.items():
            self.features.setdefault(key, FeatureSummary()).merge(feature)


def merge_item_summaries(parts: Iterable[ItemSummaries]) -> ItemSummaries:
    """Adds up summaries, in any order; of none, it makes an empty one."""
    merged = ItemSummaries()
    for part in parts:
        merged.merge(part)
    return merged


class ItemChoice:
    """The items of a file that are summarized after the transform, while it is read batch by batch.

    Attributes:
        layout: the keys of the graph before the transform.
        summaries: what is known of them so far.
    """

    def __init__(self, layout: GraphLayout, places: Iterable[PlacesOfSet], *, as_sampled: bool) -> None:
        """Chooses items.

        `places` are positions among the items of a set in the file, of sets whose items are recognized; of other sets,
        or with `as_sampled`, all items are chosen.
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
        """Takes the chosen ones of the file's next items, which have lists of values by tf.Example key."""
        begin = self._num_items.get(prefix, 0)
        self._num_items[prefix] = begin + num_items
        if prefix in self._sorted:
            first, last = np.searchsorted(self._sorted[prefix], [begin, begin + num_items])
            rows = pa.array(self._sorted[prefix][first:last] - begin)
            items = {key: array.take(rows) for key, array in items.items()}
        self.summaries.add({key: list_column(array) for key, array in items.items()})


class WriteItemStatistics(beam.PTransform):
    """Summaries to `Split-<name>/FeatureStats.pb`, as TFX's StatisticsGen writes them."""

    def __init__(self, folder: str, splits: Sequence[str]) -> None:
        """Chooses an existing folder that all workers see, and splits that get a file in any case."""
        super().__init__()
        self._folder, self._splits = folder, tuple(splits)

    def expand(self, input_or_inputs: Any) -> Any:
        """Maps a PCollection of (split, `ItemSummaries`) to one None a split, there once its file is."""
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
