"""Few labels: training on the same small number of examples of each class in every epoch.

Of each class, the examples with the smallest hashes are chosen. A hash is of the whole transformed example, so the
choice depends neither on the order of examples nor on files, epochs, processes or seeds.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterable

import tensorflow as tf

_HASHES = 2**62


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassSubset:
    """Lets the chosen examples come once in each epoch, and no others; a `RecordTimes`.

    Attributes:
        largest_hashes: largest hash of a chosen example, by class; -1 for a class without examples.
        num_examples: number of chosen examples.
        classes: maps serialized tf.Examples, string [n], to their classes, int64 [n].
    """

    largest_hashes: tuple[int, ...]
    num_examples: int
    classes: Callable[[tf.Tensor], tf.Tensor]

    def __call__(self, records: tf.Tensor, shards: tf.Tensor, positions: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """Returns how many times each record comes in an epoch, 0 or 1, int64 [n]."""
        limits = tf.gather(tf.constant(self.largest_hashes, tf.int64), self.classes(records))
        return tf.cast(_hashes(records) <= limits, tf.int64)


def choose_class_subset(
    batches: Iterable[tf.Tensor], classes: Callable[[tf.Tensor], tf.Tensor], *, num_classes: int, per_class: int
) -> ClassSubset:
    """Chooses `per_class` examples of each class, or all of a class that has fewer.

    Args:
        batches: all serialized examples, string [n] each.
        classes: as in `ClassSubset`.
        num_classes: number of classes.
        per_class: at least 1. Copies of the last chosen example are chosen, too.
    """
    # Negative hashes, because a heap has its smallest item first.
    chosen: list[list[int]] = [[] for _ in range(num_classes)]
    copies: dict[tuple[int, int], int] = {}
    for records in batches:
        for of_class, hashed in zip(classes(records).numpy().tolist(), _hashes(records).numpy().tolist(), strict=True):
            heap = chosen[of_class]
            copies[of_class, hashed] = copies.get((of_class, hashed), 0) + 1
            if copies[of_class, hashed] > 1:
                continue
            if len(heap) < per_class:
                heapq.heappush(heap, -hashed)
            else:
                del copies[of_class, -heapq.heappushpop(heap, -hashed)]
    return ClassSubset(
        largest_hashes=tuple(-heap[0] if heap else -1 for heap in chosen),
        num_examples=sum(copies.values()),
        classes=classes,
    )


def _hashes(records: tf.Tensor) -> tf.Tensor:
    # TensorFlow promises that this hash never changes.
    return tf.strings.to_hash_bucket_fast(records, _HASHES)
