"""How many categories a transformed feature has, as tf.Transform knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tfx_gnn.graph import graph_constants as const


class TransformOutput(Protocol):
    """What is asked of a `tft.TFTransformOutput`.

    If it also has `transformed_domains()`, the ranges of indices there come first: they count
    `num_oov_buckets`, and need no name of a vocabulary.
    """

    def vocabulary_size_by_name(self, vocab_filename: str) -> int:
        """Returns the number of values of a vocabulary.

        Args:
            vocab_filename: its name.
        """
        ...


def category_count(tft_output: TransformOutput | None, name: str, vocabulary: str = "") -> int:
    """Tells how many categories a feature has.

    Args:
        tft_output: what tf.Transform learned; None: nothing.
        name: full name of the feature, such as "nodes/paper.venue".
        vocabulary: name of its vocabulary; "": the indices that tf.Transform says the feature holds, else
            the vocabulary of the name of the feature, such as "venue".

    Returns:
        The number; 0 if tf.Transform does not know it.

    Raises:
        ValueError: if `vocabulary` is given, but there is none of this name.
    """
    if tft_output is None:
        return 0
    if vocabulary:
        try:
            return int(tft_output.vocabulary_size_by_name(vocabulary))
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"`vocabulary` must name one that `preprocessing_fn` makes; got {vocabulary!r} for {name!r}. Give "
                "the same `vocab_filename` there."
            ) from error
    domain: Any = _domains(tft_output).get(name)
    if getattr(domain, "is_categorical", False):
        return int(domain.max) + 1
    try:
        return int(tft_output.vocabulary_size_by_name(feature_name(name)))
    except (LookupError, ValueError):
        return 0


def feature_name(name: str) -> const.FieldName:
    """Takes the name of a feature out of its full name.

    Args:
        name: such as "nodes/paper.venue" or "context/year".

    Returns:
        The name in its set.

    Example:
        >>> feature_name("edges/cites.kind"), feature_name("context/year")
        ('kind', 'year')
    """
    return name.removeprefix("context/") if name.startswith("context/") else name.partition(".")[2]


def _domains(tft_output: TransformOutput) -> Mapping[str, Any]:
    known = getattr(tft_output, "transformed_domains", None)
    return {} if known is None else known()
