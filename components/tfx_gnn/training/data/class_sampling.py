"""Class sampling: how many times each example of the training split comes in an epoch.

An example of a class with rate r comes floor(r) times, and once more with probability r - floor(r). Whether it does
depends on the seed, the epoch and the place of the example in the split only. So an epoch is the same after a restart,
and several processes together read what one alone would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.models.tasks import LabelSummary
from tfx_gnn.training.data.batching_names import BALANCED

_UNIFORM = 2**53  # A double holds integers up to here exactly.


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassSampler:
    """Decides how many times each record comes in an epoch.

    Attributes:
        rates: mean number of times that an example comes, by class.
        classes: maps serialized tf.Examples, string [n], to their classes, int64 [n].
        seed: seed of the decisions.
    """

    rates: tuple[float, ...]
    classes: Callable[[tf.Tensor], tf.Tensor]
    seed: int

    def __call__(self, records: tf.Tensor, shards: tf.Tensor, positions: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """Returns how many times each record comes in an epoch, int64 [n]; a `RecordTimes`."""
        rates = tf.gather(tf.constant(self.rates, tf.float64), self.classes(records))
        whole = tf.floor(rates)
        comes_again = self._uniform(shards, positions, epoch) < rates - whole
        return tf.cast(whole, tf.int64) + tf.cast(comes_again, tf.int64)

    def _uniform(self, shards: tf.Tensor, positions: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """Returns a number in [0, 1) for each record, float64 [n]."""
        parts = [tf.fill(tf.shape(shards), tf.as_string(one)) for one in (tf.constant(self.seed), epoch)]
        keys = tf.strings.join([*parts, tf.as_string(shards), tf.as_string(positions)], separator=" ")
        # TensorFlow promises that this hash never changes.
        return tf.cast(tf.strings.to_hash_bucket_fast(keys, _UNIFORM), tf.float64) / _UNIFORM


def sampling_rates(
    class_sampling: str | Mapping[str, float], class_names: Sequence[bytes], labels: LabelSummary
) -> tuple[float, ...]:
    """Returns the mean number of times that an example comes in an epoch, by class.

    Args:
        class_sampling: option of that name.
        class_names: names of all classes.
        labels: labels of the training split.

    Returns:
        One number for each class; of a class without examples, 1.

    Raises:
        ValueError: if a name is not a class, or an epoch would have less than one example.
    """
    counts = np.asarray(labels.class_counts, np.float64)
    rates = np.ones(len(class_names), np.float64)
    if class_sampling == BALANCED:
        occurs = counts > 0
        rates[occurs] = counts.sum() / (occurs.sum() * counts[occurs])
    elif not isinstance(class_sampling, str):
        names = [name.decode() for name in class_names]
        unknown = sorted(set(class_sampling) - set(names))
        if unknown:
            raise ValueError(
                f"`class_sampling` must name classes among {names}; got {unknown}. "
                f"{did_you_mean(unknown[0], names, otherwise='Correct the names.')}"
            )
        for name, rate in class_sampling.items():
            rates[names.index(name)] = rate
    if rates @ counts < 1.0:
        raise ValueError(
            f"`class_sampling` must leave at least one example in an epoch; got {rates @ counts:.3g} on average of "
            f"{int(counts.sum())} examples. Give larger numbers."
        )
    return tuple(rates.tolist())


def expected_examples(rates: Sequence[float], labels: LabelSummary) -> int:
    """Returns the expected number of examples in an epoch; that of one epoch may differ a little."""
    return max(round(float(np.dot(rates, labels.class_counts))), 1)
