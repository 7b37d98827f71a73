"""Statistics of what tf.Transform's analyzers count: an item once, however often it was sampled.

Of each feature, before or after the transform, TensorFlow Data Validation reads as many values as there
are items: `num_non_missing` and the like count items, not examples. Where several splits are analyzed, an
item belongs to the first of them, in alphabetical order, that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.stages.example_batches import Column
from tfx_gnn.stages.split_statistics import FeatureSummary, write_feature
from tfx_gnn.stages.statistics_files import write_statistics


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
        """Takes items in.

        Args:
            columns: by tf.Example key, one entry an item.
        """
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


class WriteItemStatistics(beam.PTransform):
    """Summaries to `Split-<name>/FeatureStats.pb`, as TFX's StatisticsGen writes them."""

    def __init__(self, folder: str, splits: Sequence[str]) -> None:
        """Chooses where to write.

        Args:
            folder: existing folder that all workers see.
            splits: splits that get a file in any case.
        """
        super().__init__()
        self._folder, self._splits = folder, tuple(splits)

    def expand(self, input_or_inputs: Any) -> Any:
        """Builds the steps.

        Args:
            input_or_inputs: PCollection of (split, `ItemSummaries`).

        Returns:
            PCollection with one None a split, there once its file is.
        """
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
