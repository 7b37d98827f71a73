"""Every statistic of tf.Transform over sampled subgraphs, and the same from the CSV tables by pandas.

The statistics are of the nodes and edges that occur in the analyzed split, each
once. Integers and texts are equal, floats to 1e-5 of their size unless a case
says otherwise, quantiles within the share of ranks that they promise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform import gaussianization

import tfx_gnn_pipelines
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan
from tfx_gnn.transform.graph_view import GraphView

DATA_DIR = Path(tfx_gnn_pipelines.__file__).parent / "tasks" / "debian_sections" / "data"
PLAN = SamplingPlan(
    seed_node_set="package",
    label_features=("section",),
    splits=SplitPlan(column="split", order=("val", "test"), unused_values=("train",)),
    hops=(
        Hop(edge_set="depends", fan_out=8),
        Hop(edge_set="built_from", fan_out=1),
        Hop(edge_set="build_depends", fan_out=8, inputs=("built_from",)),
        Hop(edge_set="tagged", fan_out=4, inputs=("depends",)),
    ),
)
EPSILON = 0.01

WITHOUT_STATISTICS = {
    "bag_of_words": "a row's words alone; by hand in test_transform_by_hand.py",
    "deduplicate_tensor_per_row": "a row's values alone",
    "hash_strings": "each text alone; by hand in test_transform_by_hand.py",
    "ngrams": "a row's words alone; by hand in test_transform_by_hand.py",
    "segment_indices": "positions within rows",
    "sparse_tensor_left_align": "another form of the same rows",
    "sparse_tensor_to_dense_with_shape": "another form of the same rows",
    "word_count": "a row's words alone; by hand in test_transform_by_hand.py",
}


class _Case(NamedTuple):
    prefix: str
    expected: Callable[[dict[str, pd.DataFrame]], Any]
    make: Callable[[GraphView], Any]


CASES: dict[str, _Case] = {}


def case(name: str, place: str, expected: Callable[[dict[str, pd.DataFrame]], Any]) -> Callable[..., Any]:
    """A call of `tft.<name>`, of which what follows a blank tells cases of one function apart.

    `place` is a set that gets a feature, or "" for a statistic alone; `expected` makes its values from the tables by
    set, in their order, or a function that checks the values found.
    """

    def register(make: Callable[[GraphView], Any]) -> Callable[[GraphView], Any]:
        CASES[name] = _Case(place, expected, make)
        return make

    return register


def preprocessing_fn(graph: GraphView) -> GraphView:
    """All the cases at once."""
    return _with_cases(graph, CASES)


def statistics_alone(graph: GraphView) -> GraphView:
    """The cases that give no feature of a set."""
    return _with_cases(graph, {name: case for name, case in CASES.items() if not case.prefix})


def _with_cases(graph: GraphView, cases: dict[str, _Case]) -> GraphView:
    made: dict[str, dict[str, Any]] = {}
    num_graphs = tf.size(graph.context.row_splits, tf.int64) - 1
    for name, (place, _, make) in cases.items():
        value = make(graph)
        if not place:
            value = tf.reshape(value, [-1])
            splits = tf.range(num_graphs + 1) * tf.size(value, tf.int64)
            value = tf.RaggedTensor.from_row_splits(tf.tile(value, [num_graphs]), splits, validate=False)
        made.setdefault(place, {})[name] = value
    node_sets, edge_sets = (
        {name: {"#id": sets[name]["#id"], **made.get(name, {})} for name in sets if "#id" in sets[name]}
        for sets in (graph.node_sets, graph.edge_sets)
    )
    return graph.replace_features(context=made[""], node_sets=node_sets, edge_sets=edge_sets)


# What the cases are about, once for graphs and once for tables.


def _size(graph: GraphView) -> tf.Tensor:
    return tf.math.log1p(tf.cast(graph.node_sets["package"]["size_bytes"], tf.float32))


def _sizes(tables: dict[str, pd.DataFrame]) -> Any:
    return np.log1p(tables["package"]["size_bytes"].to_numpy(np.float64))


def _both(graph: GraphView) -> tf.Tensor:
    installed = tf.math.log1p(tf.cast(graph.node_sets["package"]["installed_size_kib"], tf.float32))
    return tf.stack([_size(graph), installed], axis=1)


def _boths(tables: dict[str, pd.DataFrame]) -> Any:
    return np.log1p(tables["package"][["size_bytes", "installed_size_kib"]].to_numpy(np.float64))


def _words(graph: GraphView) -> tf.RaggedTensor:
    """The parts of packages' names."""
    return tf.strings.split(graph.node_sets["package"]["#id"], "-")


def _word_lists(tables: dict[str, pd.DataFrame]) -> pd.Series:
    return tables["package"].index.to_series().str.split("-")


def _ranking(values: pd.Series) -> list[str]:
    """A vocabulary: the most frequent first, the greater first of equally frequent ones."""
    counts = values.value_counts()
    return sorted(counts.index, key=lambda value: (counts[value], value), reverse=True)


def _places(values: pd.Series, top: int | None = None) -> list[int]:
    order = {value: position for position, value in enumerate(_ranking(values)[:top])}
    return [order.get(value, -1) for value in values]


def _z_scores(values: Any) -> Any:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _unit(values: Any) -> Any:
    return (values - values.min(axis=0)) / (values.max(axis=0) - values.min(axis=0))


def _by_key(values: Any, keys: pd.Series, change: Callable[[Any], Any]) -> Any:
    return pd.Series(values, index=keys.index).groupby(keys).transform(lambda part: change(part.to_numpy()))


def _rank_check(values: Any, boundaries: Any, num_buckets: int) -> None:
    """Each boundary has a rank within EPSILON (and one item) of the one it stands for."""
    assert len(boundaries) == num_buckets - 1
    slack = EPSILON + 1 / len(values)
    for number, boundary in enumerate(boundaries, start=1):
        below = (values < boundary - 1e-5).mean()
        up_to = (values <= boundary + 1e-5).mean()
        assert below - slack <= number / num_buckets <= up_to + slack


def _bucket_check(values: Any, buckets: Any, num_buckets: int) -> None:
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.asarray(buckets)[order]) >= 0).all()
    _rank_check(values, [values[np.asarray(buckets) >= bucket].min() for bucket in range(1, num_buckets)], num_buckets)


def _l_moments(values: Any) -> Any:
    """The first four: of the mean, half the mean difference of two, and so on (Hosking 1990, by weighted moments)."""
    ranks = np.arange(len(values), dtype=np.float64)
    weights, moments = np.ones(len(values)), []
    for order in range(4):
        moments.append((weights * np.sort(values)).mean())
        weights = weights * (ranks - order) / (len(values) - 1 - order)
    return np.array([[1, 0, 0, 0], [-1, 2, 0, 0], [1, -6, 6, 0], [-1, 12, -30, 20]]) @ moments


# Analyzers.

case("min", "", lambda tables: [tables["package"]["installed_size_kib"].min()])(
    lambda graph: tft.min(graph.node_sets["package"]["installed_size_kib"])
)
case("max", "", lambda tables: [tables["package"]["installed_size_kib"].max()])(
    lambda graph: tft.max(graph.node_sets["package"]["installed_size_kib"])
)
case("sum", "", lambda tables: [tables["package"]["size_bytes"].sum()])(
    lambda graph: tft.sum(graph.node_sets["package"]["size_bytes"])
)
case("sum of edges", "", lambda tables: [tables["depends"]["versioned"].sum()])(
    lambda graph: tft.sum(graph.edge_sets["depends"]["versioned"])
)
case("size", "", lambda tables: [len(tables["source"])])(
    lambda graph: tft.size(graph.node_sets["source"]["n_uploaders"])
)
case("mean", "", lambda tables: _boths(tables).mean(axis=0))(
    lambda graph: tft.mean(_both(graph), reduce_instance_dims=False)
)
case("var", "", lambda tables: _boths(tables).var(axis=0))(
    lambda graph: tft.var(_both(graph), reduce_instance_dims=False)
)


@case("covariance", "", lambda tables: np.cov(_boths(tables), rowvar=False, bias=True).ravel())
def _(graph: GraphView) -> Any:
    # In float32 the difference of two large numbers loses a digit.
    return tf.cast(tft.covariance(tf.cast(_both(graph), tf.float64), tf.float64), tf.float32)


def _principal(tables: dict[str, pd.DataFrame]) -> Any:
    axes = np.linalg.eigh(np.cov(_boths(tables), rowvar=False, bias=True))[1]
    return np.abs(axes[:, ::-1].ravel())  # The direction of an axis is free.


case("pca", "", _principal)(lambda graph: tf.abs(tft.pca(_both(graph), output_dim=2, dtype=tf.float32)))
case("count_per_key", "", lambda tables: tables["package"].groupby("multi_arch").size())(
    lambda graph: tft.count_per_key(graph.node_sets["package"]["multi_arch"])[1]
)

_BOUNDARIES = [0.0, 9.5, 10.5, 12.0, 25.0]
_SHIFTED = np.array(_BOUNDARIES) - 1e-4  # As tf.Transform's histograms have them.
case("histogram", "", lambda tables: np.histogram(_sizes(tables), _SHIFTED)[0])(
    lambda graph: tft.histogram(_size(graph), boundaries=_BOUNDARIES)[0]
)
case("quantiles", "", lambda tables: lambda found: _rank_check(_sizes(tables), found, 10))(
    lambda graph: tft.quantiles(_size(graph), num_buckets=10, epsilon=EPSILON)
)


@case("vocabulary", "source", lambda tables: _places(tables["source"]["standards_version"]))
def _(graph: GraphView) -> Any:
    versions = graph.node_sets["source"]["standards_version"]
    return tft.apply_vocabulary(versions, tft.vocabulary(versions, vocab_filename="versions"))


# A tail of this hash is short, so location and scale are those of a normal distribution.


def _uniform(graph: GraphView) -> tf.Tensor:
    return tf.cast(tft.hash_strings(graph.node_sets["package"]["#id"], 1000), tf.float32)


def _uniforms(tables: dict[str, pd.DataFrame]) -> Any:
    return tf.strings.to_hash_bucket_fast(tables["package"].index.to_numpy(str), 1000).numpy().astype(np.float64)


case("tukey_location", "", lambda tables: [_uniforms(tables).mean()])(lambda graph: tft.tukey_location(_uniform(graph)))


def _scale_check(tables: dict[str, pd.DataFrame]) -> Callable[[Any], None]:
    # tf.Transform averages this moment over batches, so it differs from that of all values by the draw.
    return lambda found: np.testing.assert_allclose(
        found, [_l_moments(_uniforms(tables))[1] * np.sqrt(np.pi)], rtol=0.05
    )


case("tukey_scale", "", _scale_check)(lambda graph: tft.tukey_scale(_uniform(graph)))
case("tukey_h_params", "", lambda _: [0.0, 0.0])(lambda graph: tf.stack(tft.tukey_h_params(_uniform(graph))))


class _Median(beam.PTransform):
    def expand(self, input_or_inputs: Any) -> Any:
        """Batches of values to the one in the middle."""
        return (
            input_or_inputs
            | beam.FlatMap(lambda batch: batch[0].tolist())
            | beam.combiners.ToList()
            | beam.Map(lambda values: np.float32(np.median(values)))
        )


@case("ptransform_analyzer", "", lambda tables: [tables["source"]["n_build_depends"].median()])
def _(graph: GraphView) -> Any:
    values = graph.node_sets["source"]["n_build_depends"]
    return tft.experimental.ptransform_analyzer([values], _Median(), [tf.float32], [[]])[0]


@case("approximate_vocabulary", "tag", lambda tables: _places(tables["tag"]["facet"]))
def _(graph: GraphView) -> Any:
    facets = graph.node_sets["tag"]["facet"]
    # With room for all it is exact.
    return tft.apply_vocabulary(
        facets, tft.experimental.approximate_vocabulary(facets, top_k=1000, vocab_filename="approximate")
    )


# Mappers.

case("scale_to_z_score", "package", lambda tables: _z_scores(_boths(tables)))(
    lambda graph: tft.scale_to_z_score(_both(graph), elementwise=True)
)
case("scale_to_0_1", "package", lambda tables: _unit(_boths(tables)))(
    lambda graph: tft.scale_to_0_1(_both(graph), elementwise=True)
)
case("scale_by_min_max", "depends", lambda tables: _unit(tables["depends"]["alternative"]) * 3 - 1)(
    lambda graph: tft.scale_by_min_max(graph.edge_sets["depends"]["alternative"], output_min=-1.0, output_max=2.0)
)
case("scale_to_gaussian", "package", lambda tables: _z_scores(_uniforms(tables)))(
    lambda graph: tft.scale_to_gaussian(_uniform(graph))
)


def _gaussian_check(tables: dict[str, pd.DataFrame]) -> Callable[[Any], None]:
    # From moments of all values; tf.Transform averages those of batches. What follows from moments is its own.
    values = tables["package"]["size_bytes"].to_numpy(np.float64) ** 0.25
    moments = _l_moments(values)
    tails = gaussianization.compute_tukey_hh_params(moments[2:] / moments[1])
    mean, scale = gaussianization.tukey_hh_l_mean_and_scale(tails)
    centred = (values - moments[0]) / moments[1]

    def check(found: Any) -> None:
        assert tails[1] > 0.2
        expected = gaussianization.inverse_tukey_hh(centred * scale + mean, *tails)
        assert np.abs(found - expected).mean() < 0.1

    return check


case("scale_to_gaussian of long tails", "package", _gaussian_check)(
    lambda graph: tft.scale_to_gaussian(tf.cast(graph.node_sets["package"]["size_bytes"], tf.float32) ** 0.25)
)

_ARCH = "multi_arch"


case(
    "scale_to_z_score_per_key", "package", lambda tables: _by_key(_sizes(tables), tables["package"][_ARCH], _z_scores)
)(lambda graph: tft.scale_to_z_score_per_key(_size(graph), key=graph.node_sets["package"][_ARCH]))
case("scale_to_0_1_per_key", "package", lambda tables: _by_key(_sizes(tables), tables["package"][_ARCH], _unit))(
    lambda graph: tft.scale_to_0_1_per_key(_size(graph), key=graph.node_sets["package"][_ARCH])
)


@case(
    "scale_by_min_max_per_key",
    "package",
    lambda tables: _by_key(_sizes(tables), tables["package"][_ARCH], lambda part: _unit(part) * 3 - 1),
)
def _(graph: GraphView) -> Any:
    arch = graph.node_sets["package"][_ARCH]
    return tft.scale_by_min_max_per_key(_size(graph), key=arch, output_min=-1.0, output_max=2.0)


case("bucketize", "package", lambda tables: lambda found: _bucket_check(_sizes(tables), found, 8))(
    lambda graph: tft.bucketize(_size(graph), num_buckets=8, epsilon=EPSILON)
)


def _bucket_check_by_key(tables: dict[str, pd.DataFrame]) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        for key in ("none", "same"):
            of_key = (tables["package"][_ARCH] == key).to_numpy()
            _bucket_check(_sizes(tables)[of_key], np.asarray(found)[of_key], 4)

    return check


case("bucketize_per_key", "package", _bucket_check_by_key)(
    lambda graph: tft.bucketize_per_key(_size(graph), graph.node_sets["package"][_ARCH], num_buckets=4, epsilon=EPSILON)
)
case("apply_buckets", "package", lambda tables: np.digitize(_sizes(tables), _BOUNDARIES))(
    lambda graph: tft.apply_buckets(_size(graph), [_BOUNDARIES])
)
case(
    "apply_buckets_with_interpolation",
    "package",
    lambda tables: np.interp(_sizes(tables), _BOUNDARIES, np.linspace(0, 1, len(_BOUNDARIES))),
)(lambda graph: tft.apply_buckets_with_interpolation(_size(graph), [_BOUNDARIES]))


def _densities(tables: dict[str, pd.DataFrame]) -> Any:
    shares = np.histogram(_sizes(tables), _SHIFTED)[0] / len(tables["package"])
    mean_width = (_BOUNDARIES[-1] - _BOUNDARIES[0]) / (len(_BOUNDARIES) - 1)
    return shares[np.digitize(_sizes(tables), _SHIFTED) - 1] / mean_width


case("estimated_probability_density", "package", _densities)(
    lambda graph: tft.estimated_probability_density(_size(graph), boundaries=_BOUNDARIES)
)
case(
    "compute_and_apply_vocabulary",
    "source",
    lambda tables: _places(tables["source"]["format"]),
)(lambda graph: tft.compute_and_apply_vocabulary(graph.node_sets["source"]["format"], vocab_filename="format"))


@case("apply_vocabulary", "package", lambda tables: _places(tables["package"][_ARCH], top=2))
def _(graph: GraphView) -> Any:
    arch = graph.node_sets["package"][_ARCH]
    return tft.apply_vocabulary(arch, tft.vocabulary(arch, top_k=2, vocab_filename="two_arches"))


case(
    "compute_and_apply_approximate_vocabulary",
    "package",
    lambda tables: _places(tables["package"]["priority"]),
)(
    lambda graph: tft.experimental.compute_and_apply_approximate_vocabulary(
        graph.node_sets["package"]["priority"], top_k=100
    )
)


# Statistics of words: each package is a document.


def _indexed_words(graph: GraphView) -> tuple[tf.SparseTensor, tf.Tensor]:
    indices = tft.compute_and_apply_vocabulary(_words(graph), vocab_filename="words")
    return indices.to_sparse(), tft.get_num_buckets_for_transformed_feature(indices)


def _rows_of(sparse: tf.SparseTensor, graph: GraphView) -> tf.RaggedTensor:
    num_rows = tf.size(graph.node_sets["package"]["#id"], tf.int64)
    values = tf.reshape(sparse.values, [-1])
    return tf.RaggedTensor.from_value_rowids(values, sparse.indices[:, 0], num_rows, validate=False)


def _document_frequencies(tables: dict[str, pd.DataFrame]) -> pd.Series:
    return _word_lists(tables).map(set).explode().value_counts()


def _tf_idf(tables: dict[str, pd.DataFrame]) -> list[list[float]]:
    order = {word: position for position, word in enumerate(_ranking(_word_lists(tables).explode()))}
    rarity = 1 + np.log((len(tables["package"]) + 1) / (_document_frequencies(tables) + 1))
    return [
        [words.count(word) / len(words) * rarity[word] for word in sorted(set(words), key=order.__getitem__)]
        for words in _word_lists(tables)
    ]


case("tfidf", "package", _tf_idf)(lambda graph: _rows_of(tft.tfidf(*_indexed_words(graph))[1], graph))


def _frequencies_of_words(tables: dict[str, pd.DataFrame]) -> list[list[int]]:
    frequency = _document_frequencies(tables).to_dict()
    return [[frequency[word] for word in words] for words in _word_lists(tables)]


@case("document_frequency", "package", _frequencies_of_words)
def _(graph: GraphView) -> Any:
    frequencies = _rows_of(tft.experimental.document_frequency(*_indexed_words(graph)), graph)
    return tf.cast(frequencies, tf.int64)


def _rarities(tables: dict[str, pd.DataFrame]) -> list[list[float]]:
    rarity = 1 + np.log((len(tables["package"]) + 1) / (_document_frequencies(tables) + 1))
    return [[rarity[word] for word in words] for words in _word_lists(tables)]


case("idf", "package", _rarities)(lambda graph: _rows_of(tft.experimental.idf(*_indexed_words(graph)), graph))
case(
    "get_num_buckets_for_transformed_feature",
    "",
    lambda tables: [_word_lists(tables).explode().nunique()],
)(lambda graph: _indexed_words(graph)[1])


@pytest.fixture(scope="module")
def examples_dir(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("pandas") / "examples")
    generate_subgraph_examples(
        tables_dir=str(DATA_DIR), examples_dir=folder, options=SubgraphExampleGenOptions(plan=PLAN)
    )
    return folder


@pytest.fixture(scope="module")
def transform(examples_dir, read_examples, tmp_path_factory):
    """Transforms the examples by statistics of "val", not of "test", and gives those of "val"."""

    def run(function: str, tables_dir: str = "", **options: Any) -> list[dict[str, list[Any]]]:
        folder = tmp_path_factory.mktemp(function)
        transform_graphs(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            transform_graph_dir=str(folder / "transform_graph"),
            transformed_examples_dir=str(folder / "transformed"),
            transformed_graph_schema_dir=str(folder / "schema"),
            options=GraphTransformOptions(
                preprocessing_fn=f"{__name__}:{function}", analyze_splits=("val",), **options
            ),
            tables_dir=tables_dir,
        )
        return read_examples(str(folder / "transformed"), "val")

    return run


def _read_table(prefix: str) -> pd.DataFrame:
    kind, name = prefix.split("/")
    if kind == "nodes":
        return pd.read_csv(DATA_DIR / f"{name}s.csv", index_col=0, keep_default_na=False)
    return pd.read_csv(DATA_DIR / f"{name}.csv", keep_default_na=False)


@pytest.fixture(scope="module")
def tables(examples_dir, read_examples):
    """The rows of the CSV tables that occur in a subgraph of "val"."""
    seen: dict[str, set[Any]] = {}
    for content in read_examples(examples_dir, "val"):
        for key, values in content.items():
            if key.endswith(".#id"):
                ids = (value.decode() if isinstance(value, bytes) else value for value in values)
                seen.setdefault(key[: -len(".#id")], set()).update(ids)
    return {prefix.partition("/")[2]: _read_table(prefix).loc[sorted(ids)] for prefix, ids in seen.items()}


@pytest.fixture(scope="module")
def transformed(transform):
    return transform("preprocessing_fn")


def test_some_items_are_in_many_subgraphs_and_some_in_none(tables, transformed):
    shown = sum(content["nodes/package.#size"][0] for content in transformed)

    assert shown > 2 * len(tables["package"])
    assert len(tables["package"]) < len(_read_table("nodes/package")) / 2
    assert set(tables) == {"package", "source", "tag", "depends", "build_depends", "built_from", "tagged"}


def _values(contents: list[dict[str, list[Any]]], place: str, name: str, table: pd.DataFrame | None) -> list[Any]:
    """The rows found, by item in the order of the table; all that show an item agree."""
    if not place:
        key = f"context/{name}"
        assert all(content[key] == contents[0][key] for content in contents)
        return contents[0][key]
    prefix = f"edges/{place}" if f"edges/{place}.#size" in contents[0] else f"nodes/{place}"
    rows: dict[Any, list[Any]] = {}
    for content in contents:
        ids, values = content[f"{prefix}.#id"], content[f"{prefix}.{name}"]
        if not ids:
            continue
        splits = np.cumsum([0, *content.get(f"{prefix}.{name}.d1", [len(values) // len(ids)] * len(ids))])
        for item_id, (begin, end) in zip(ids, itertools.pairwise(splits.tolist()), strict=True):
            row = values[begin:end]
            first = rows.setdefault(item_id, row)
            # The last bits of a logarithm depend on the place in a batch: TensorFlow computes the odd ones out apart.
            assert row == (pytest.approx(first, rel=1e-5, abs=1e-6) if row and isinstance(row[0], float) else first)
    assert table is not None
    return [rows[item_id.encode() if isinstance(item_id, str) else item_id] for item_id in table.index]


@pytest.mark.parametrize("name", CASES)
def test_statistics_are_those_of_pandas(transformed, tables, name):
    place, expect, _ = CASES[name]

    found = _values(transformed, place, name, tables.get(place))

    _check(found, expect(tables), place)


def test_statistics_of_tables_are_those_of_pandas(transform):
    contents = transform("statistics_alone", tables_dir=str(DATA_DIR), analyze="tables")

    node_sets, edge_sets = ("package", "source", "tag"), ("depends", "build_depends")
    tables = {name: _read_table(f"nodes/{name}") for name in node_sets}
    tables |= {name: _read_table(f"edges/{name}") for name in edge_sets}
    for name, (place, expect, _) in CASES.items():
        if not place:
            _check(_values(contents, place, name, None), expect(tables), place)


def _check(found: list[Any], expected: Any, place: str) -> None:
    flat = list(itertools.chain.from_iterable(found)) if place else found
    if callable(expected):
        expected(flat)
        return
    if place and isinstance(expected, list) and isinstance(expected[0], list):
        assert [len(row) for row in found] == [len(row) for row in expected]
        expected = np.concatenate(expected)
    expected = np.ravel(np.asarray(expected))
    assert len(flat) == len(expected) > 0
    if np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_allclose(flat, expected, rtol=1e-5, atol=1e-5)
    else:
        assert flat == expected.tolist()


def test_every_function_of_tf_transform_has_a_case():
    modules = ("analyzers", "mappers")
    public = {
        name
        for source in (tft, tft.experimental)
        for name in dir(source)
        if callable(getattr(source, name))
        and not isinstance(getattr(source, name), type)
        and getattr(source, name).__module__.startswith("tensorflow_transform")
        and getattr(source, name).__module__.rpartition(".")[2] in modules
    }
    covered = {name.partition(" ")[0] for name in CASES}

    assert len(public) > 40
    assert covered | set(WITHOUT_STATISTICS) == public
    assert not covered & set(WITHOUT_STATISTICS)
