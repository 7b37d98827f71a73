"""Options of `FeatureEncoder`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Combiner = Literal["mean", "sum"]

COMBINERS = ("mean", "sum")
"""Ways to make one vector of the embeddings of several values."""

DEFAULT_UNITS = 16
"""Width of embeddings for which nothing else is said."""

MAX_DENSE_GRADIENT_ELEMENTS = 1 << 22
"""Elements of a table, rows times units, up to which its gradient is dense: 16 MiB of float32."""

MAX_FUSED_ELEMENTS = 1 << 18
"""Elements of a table up to which it shares a variable with others.

What fusing saves is the start of many small operations. One operation on a large table is not small, and several run
side by side. Parameter servers divide tables from this size on.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingOptions:
    """How a feature of categories is embedded.

    A category is an integer in [0, rows). Any other integer, such as the -1 that
    tf.Transform gives to values its vocabulary lacks, gets the table's last row. A
    string is hashed to a category by `tf.strings.to_hash_bucket_fast`.

    Attributes:
        rows: number of categories. 0: that of the vocabulary, or of the indices that tf.Transform
            says the feature has.
        oov_rows: rows of the table behind those of the categories. Values in [rows, rows + oov_rows) are
            the buckets that tf.Transform's `num_oov_buckets` makes. 0: what is no category shares
            the row of the last one.
        vocabulary: name of tf.Transform's vocabulary; "": that of the feature.
        units: width of an embedding; 0: `FeatureEncoderOptions.units`.
        shared_name: features with the same name here share one table; "": the feature has its own.
        combiner: how the embeddings of a feature with several values become one: "mean" or "sum". Those
            of no values are zeros.
        hashed: whether integers are hashed to categories, as decimal texts. Strings always are.
        max_values: width to which `PrepareFeatures` pads ragged values, for accelerators that want static
            shapes; 0: they stay ragged.

    Raises:
        ValueError: if a number is negative, `combiner` is unknown, or integers shall be hashed to no rows.

    Example:
        >>> city = EmbeddingOptions(rows=1000, units=32, shared_name="city")
        >>> city.combiner, city.oov_rows
        ('mean', 1)
        >>> options = FeatureEncoderOptions(embeddings={"user.home": city, "shop.place": city})
        >>> options.embeddings["user.home"].units
        32
    """

    rows: int = 0
    oov_rows: int = 1
    vocabulary: str = ""
    units: int = 0
    shared_name: str = ""
    combiner: Combiner = "mean"
    hashed: bool = False
    max_values: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "oov_rows", "units", "max_values"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must be at least 0; got {getattr(self, name)}. Correct it.")
        if self.combiner not in COMBINERS:
            raise ValueError(
                f"`combiner` must be one of {list(COMBINERS)}; got {self.combiner!r}. Choose one of these."
            )
        if self.hashed and self.rows == 0:
            raise ValueError("`rows` must be at least 1 for what is hashed; got 0. Say how many buckets there are.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureEncoderOptions:
    """How all features of a graph become one vector an item.

    Features are named "nodes/<node set>.<feature>", "edges/<edge set>.<feature>" and
    "context/<feature>", as in tf.Examples of graphs. For those of node sets
    "<node set>.<feature>" will do.

    Attributes:
        embeddings: options of features of categories, by name. Integers that are not named here must
            be known to tf.Transform, strings must be named.
        numeric: names of integer features that are numbers.
        ignored: names of features that shall not be used.
        units: width of embeddings.
        projection_units: width of a ReLU layer that mixes what was encoded, one for each set;
            0: there is none.
        dropout_rate: share of the result that training leaves out, in [0, 1).
        encode_edges: whether edge sets get a hidden state too.
        encode_context: whether the context gets one.
        fuse: whether tables of equal width, each of at most `MAX_FUSED_ELEMENTS`, are one variable, with one lookup
            for all their features.
        max_dense_gradient_elements: elements, rows times units, up to which a table has a dense gradient, which
            trains on all accelerators. A larger table has a sparse one, which costs the optimizer less, and for
            which TPUs lack an operation.

    Raises:
        ValueError: if a number is out of range, or a feature is named twice.

    Example:
        >>> options = FeatureEncoderOptions(
        ...     embeddings={"user.city": EmbeddingOptions(rows=1000)},
        ...     numeric=("user.age",),
        ...     ignored=("edges/buys.comment",),
        ...     projection_units=64,
        ...     encode_edges=True,
        ... )
        >>> options.numeric, options.units
        (('user.age',), 16)
    """

    embeddings: Mapping[str, EmbeddingOptions] = dataclasses.field(default_factory=dict)
    numeric: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    units: int = DEFAULT_UNITS
    projection_units: int = 0
    dropout_rate: float = 0.0
    encode_edges: bool = False
    encode_context: bool = False
    fuse: bool = True
    max_dense_gradient_elements: int = MAX_DENSE_GRADIENT_ELEMENTS

    def __post_init__(self) -> None:
        for name in ("numeric", "ignored"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(
                    f"`{name}` must be a list of names; got the text {value!r}. Write [{value!r}] for one."
                )
            object.__setattr__(self, name, tuple(value))
        if self.units < 1 or self.projection_units < 0 or self.max_dense_gradient_elements < 0:
            raise ValueError(
                "`units` must be at least 1, `projection_units` and `max_dense_gradient_elements` at least 0; got "
                f"{self.units}, {self.projection_units} and {self.max_dense_gradient_elements}. Correct them."
            )
        if not 0.0 <= self.dropout_rate < 1.0:
            raise ValueError(f"`dropout_rate` must be in [0, 1); got {self.dropout_rate}. Choose a share below 1.")
        names = [full_name(name) for name in (*self.embeddings, *self.numeric, *self.ignored)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"`embeddings`, `numeric` and `ignored` must name a feature once; got {twice} several times. "
                "Decide for one."
            )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> FeatureEncoderOptions:
        """Makes options of what JSON holds.

        Args:
            plain: fields by name; `embeddings` as a mapping of mappings.

        Returns:
            The options.

        Raises:
            TypeError: if there is no such field.
            ValueError: if the value of a field is out of range.

        Example:
            >>> options = FeatureEncoderOptions.from_plain({"embeddings": {"user.age": {"rows": 120}}})
            >>> options.embeddings["user.age"].rows
            120
        """
        embeddings = {
            name: value if isinstance(value, EmbeddingOptions) else EmbeddingOptions(**value)
            for name, value in plain.get("embeddings", {}).items()
        }
        return cls(**{**plain, "embeddings": embeddings})


def full_name(name: str) -> str:
    """Completes the name of a feature: one that does not say whose it is belongs to a node set.

    Example:
        >>> full_name("user.age"), full_name("edges/buys.count")
        ('nodes/user.age', 'edges/buys.count')
    """
    return name if name.startswith(("nodes/", "edges/", "context/")) else f"nodes/{name}"
