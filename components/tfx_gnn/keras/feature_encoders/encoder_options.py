"""Options of `FeatureEncoder`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from tfx_gnn.io.option_groups import check_choices

Combiner = Literal["mean", "sum"]

COMBINERS = ("mean", "sum")
"""Ways to combine the embeddings of several values."""

DEFAULT_UNITS = 16
"""Default width of embeddings."""

MAX_DENSE_GRADIENT_ELEMENTS = 1 << 22
"""Largest number of elements, rows times units, of a table with a dense gradient: 16 MiB of float32."""

MAX_FUSED_ELEMENTS = 1 << 18
"""Largest number of elements of a table that shares a variable with other tables.

Fusing saves the overhead of starting many small operations. Operations on large tables are not small, and several of
them run in parallel. Parameter servers partition tables from this size on.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingOptions:
    """How a categorical feature is embedded.

    A category is an integer in [0, rows). Any other integer, such as the -1 that
    tf.Transform gives to values that its vocabulary lacks, gets the table's last row. A
    string is hashed to a category by `tf.strings.to_hash_bucket_fast`.

    Attributes:
        rows: number of categories. 0: take the number from the vocabulary, or from the range of indices that
            tf.Transform gives for the feature.
        oov_rows: rows of the table after those of the categories. Values in [rows, rows + oov_rows) are
            the buckets that tf.Transform's `num_oov_buckets` makes. 0: values that are not categories share
            the row of the last category.
        vocabulary: name of tf.Transform's vocabulary; "": the vocabulary with the name of the feature.
        units: width of an embedding; 0: `FeatureEncoderOptions.units`.
        shared_name: features with the same `shared_name` share one table; "": the feature has its own table.
        combiner: how the embeddings of a feature with several values are combined: "mean" or "sum". Items
            without values get zeros.
        hashed: whether integers are hashed to categories, as decimal strings. Strings are always hashed.
        max_values: width to which `PrepareFeatures` pads ragged values, for accelerators that need static
            shapes; 0: values stay ragged.

    Raises:
        ValueError: if a number is negative, `combiner` is unknown, or `hashed` is set without `rows`.

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
        check_choices(self)
        if self.hashed and self.rows == 0:
            raise ValueError("`rows` must be at least 1 if `hashed` is set; got 0. Set it to the number of buckets.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureEncoderOptions:
    """How all features of a graph are encoded as one vector per item.

    Features are named "nodes/<node set>.<feature>", "edges/<edge set>.<feature>" and
    "context/<feature>", as in tf.Examples of graphs. Features of node sets can be
    shortened to "<node set>.<feature>".

    Attributes:
        embeddings: options of categorical features, by name. Integer features that are not named here
            must have a number of categories known to tf.Transform, or be in `numeric` or `ignored`. String
            features must be named here or in `ignored`.
        numeric: names of integer features that are numbers.
        ignored: names of features that are not used.
        units: width of embeddings.
        projection_units: width of a ReLU layer that mixes the encoded features, one for each set;
            0: no such layer.
        dropout_rate: fraction of the result's values that training drops, in [0, 1).
        input_dropout_rate: fraction of the encoded features' values that training drops before they are mixed, in
            [0, 1): the dropout of the input in GCN (arXiv:1609.02907) and GAT (arXiv:1710.10903).
        encode_edges: whether edge sets get a hidden state, too.
        encode_context: whether the context gets a hidden state, too.
        fuse: whether tables of equal width, each of at most `MAX_FUSED_ELEMENTS`, share one variable, with one lookup
            for all their features.
        max_dense_gradient_elements: largest number of elements, rows times units, of a table with a dense gradient,
            which trains on all accelerators. A larger table has a sparse gradient, which is cheaper for the
            optimizer but needs an operation that TPUs lack.

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
    input_dropout_rate: float = 0.0
    encode_edges: bool = False
    encode_context: bool = False
    fuse: bool = True
    max_dense_gradient_elements: int = MAX_DENSE_GRADIENT_ELEMENTS

    def __post_init__(self) -> None:
        for name in ("numeric", "ignored"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(
                    f"`{name}` must be a list of names; got the string {value!r}. Write [{value!r}] for one."
                )
            object.__setattr__(self, name, tuple(value))
        if self.units < 1 or self.projection_units < 0 or self.max_dense_gradient_elements < 0:
            raise ValueError(
                "`units` must be at least 1, `projection_units` and `max_dense_gradient_elements` at least 0; got "
                f"{self.units}, {self.projection_units} and {self.max_dense_gradient_elements}. Correct them."
            )
        for name in ("dropout_rate", "input_dropout_rate"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"`{name}` must be in [0, 1); got {getattr(self, name)}. Choose a rate below 1.")
        names = [full_name(name) for name in (*self.embeddings, *self.numeric, *self.ignored)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"`embeddings`, `numeric` and `ignored` must name a feature once; got {twice} several times. "
                "Choose one of them."
            )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> FeatureEncoderOptions:
        """Makes options from plain values, as JSON holds them.

        Args:
            plain: fields by name; `embeddings` as a mapping of mappings.

        Returns:
            The options.

        Raises:
            TypeError: if a field is unknown.
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
    """Completes the name of a feature; a name without a prefix is that of a node set's feature.

    Example:
        >>> full_name("user.age"), full_name("edges/buys.count")
        ('nodes/user.age', 'edges/buys.count')
    """
    return name if name.startswith(("nodes/", "edges/", "context/")) else f"nodes/{name}"
