"""Graphs made alike in tfx_gnn and in tensorflow-gnn, and comparisons of what the two make of them.

A `GraphPlan` is built by either library. An operation is a function of a library and of a graph
of that library; `agree` runs a table of them eagerly and in one tf.function without static sizes,
and compares values, dtypes, static shapes, specs and types of errors.

TFX_GNN_THOROUGH=100 draws a hundred times as many graphs.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import types
from collections.abc import Mapping

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tfx_gnn

THOROUGH = int(os.environ.get("TFX_GNN_THOROUGH", "1"))


@pytest.fixture(scope="session")
def oracle() -> types.ModuleType:
    """tensorflow-gnn, where there is one for this Python."""
    return pytest.importorskip("tensorflow_gnn", reason="tensorflow-gnn ends with Python 3.10")


def few(num_examples):
    return settings(
        max_examples=num_examples * THOROUGH,
        suppress_health_check=list(HealthCheck),
        # Examples are small by construction, and each step of shrinking runs both libraries.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )


@pytest.fixture(scope="session", name="few")
def few_fixture():
    return few


# --- Graphs ---------------------------------------------------------------------------------

#: Edge sets to the node sets of their sources and targets.
ENDS = {"ab": ("a", "b"), "ba": ("b", "a"), "aa": ("a", "a"), "al": ("a", "latent")}
#: Features of edge sets other than "ab".
FEWER_FEATURES = ("scalar", "vector", "matrix", "count", "name", "ragged")
#: Of indices and row splits; each pair costs a tracing of both libraries.
ALL_DTYPES = ((tf.int32, tf.int64), (tf.int64, tf.int64), (tf.int32, tf.int32))
HYPER_ENDS = ("a", "b", "a")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPlan:
    """What a scalar graph is made of, for either library.

    Attributes:
        node_sizes: node set names to sizes of the components.
        edge_sizes: edge set names to sizes of the components.
        seed: of all features and ends of edges.
        indices_dtype: of sizes and indices.
        row_splits_dtype: of ragged features.
        lean: whether only nodes "a" have features of all kinds.
        kind: "hyper", with an edge set of three ends, or "readout", with a readout structure, or both, or "".
    """

    node_sizes: Mapping[str, list[int]]
    edge_sizes: Mapping[str, list[int]]
    seed: int
    indices_dtype: tf.DType
    row_splits_dtype: tf.DType
    kind: str
    lean: bool

    @property
    def num_components(self):
        return len(self.node_sizes["a"])

    def build(self, library):
        random = np.random.default_rng(self.seed)
        node_sets = {
            name: library.NodeSet.from_fields(
                sizes=self._sizes(sizes),
                features={}
                if name == "latent"
                else self._features(random, sum(sizes), all_kinds=not self.lean or name == "a"),
            )
            for name, sizes in self.node_sizes.items()
        }
        edge_sets = {
            name: library.EdgeSet.from_fields(
                sizes=self._sizes(sizes),
                features={}
                if name == "al"
                else self._features(random, sum(sizes), all_kinds=name == "ab" and not self.lean),
                adjacency=library.Adjacency.from_indices(*(self._ends(random, name, end) for end in ENDS[name])),
            )
            for name, sizes in self.edge_sizes.items()
        }
        if "hyper" in self.kind:
            edge_sets["hyper"] = library.EdgeSet.from_fields(
                sizes=self._sizes(self.edge_sizes["ab"]),
                adjacency=library.HyperAdjacency.from_indices(
                    {tag: self._ends(random, "ab", end) for tag, end in enumerate(HYPER_ENDS)}
                ),
            )
        if "readout" in self.kind:
            self._add_readout(library, random, node_sets, edge_sets)
        context = library.Context.from_fields(
            features=self._features(random, self.num_components, all_kinds=not self.lean),
            sizes=tf.ones([self.num_components], self.indices_dtype),
        )
        return library.GraphTensor.from_pieces(context, node_sets, edge_sets)

    def _sizes(self, sizes):
        return tf.constant(sizes, self.indices_dtype, shape=[len(sizes)])

    def _ends(self, random, edge_set, node_set):
        node_sizes = self.node_sizes[node_set]
        starts = np.cumsum([0, *node_sizes])
        index = [
            starts[component] + random.integers(0, node_sizes[component])
            for component, num_edges in enumerate(self.edge_sizes[edge_set])
            for _ in range(num_edges)
        ]
        return node_set, tf.constant(np.array(index, np.int64), self.indices_dtype)

    def _features(self, random, num_items, *, all_kinds=True):
        def numbers(shape, dtype, low=-4):
            return tf.cast(tf.constant(random.integers(low, 5, shape)), dtype)

        def ragged(values, lengths):
            lengths = tf.constant(np.asarray(lengths, np.int64), self.row_splits_dtype)
            return tf.RaggedTensor.from_row_lengths(values, lengths)

        rows = random.integers(0, 3, num_items)
        cells = random.integers(0, 3, rows.sum())
        features = {
            "scalar": numbers([num_items], tf.float32),
            "vector": numbers([num_items, 2], tf.float32),
            "matrix": numbers([num_items, 2, 3], tf.float64),
            "count": numbers([num_items], tf.int64),
            "small": numbers([num_items], tf.int32),
            "flag": numbers([num_items], tf.bool),
            "name": tf.strings.as_string(numbers([num_items], tf.int32)),
            "ragged": ragged(numbers([rows.sum()], tf.float32), rows),
            "words": ragged(tf.strings.as_string(numbers([rows.sum()], tf.int32)), rows),
            "deep": ragged(ragged(numbers([cells.sum(), 2], tf.int64), cells), rows),
        }
        return features if all_kinds else {name: features[name] for name in FEWER_FEATURES}

    def _add_readout(self, library, random, node_sets, edge_sets):
        # One seed in each component that has a node "a".
        starts = np.cumsum([0, *self.node_sizes["a"]])
        has_seed = [int(size > 0) for size in self.node_sizes["a"]]
        seeds = [starts[component] for component, seed in enumerate(has_seed) if seed]
        sizes = self._sizes(has_seed)
        node_sets["_readout"] = library.NodeSet.from_fields(
            sizes=sizes, features={"label": tf.constant(random.integers(0, 9, len(seeds)), tf.int64)}
        )
        edge_sets["_readout/seed"] = library.EdgeSet.from_fields(
            sizes=sizes,
            adjacency=library.Adjacency.from_indices(
                ("a", tf.constant(np.array(seeds, np.int64), self.indices_dtype)),
                ("_readout", tf.range(len(seeds), dtype=self.indices_dtype)),
            ),
        )


@st.composite
def graph_plans(draw, *, min_components=0, max_components=3, min_nodes=0, kind="", lean=False, any_dtypes=False):
    """Draws plans of graphs with some components, any of which may be empty."""
    num_components = draw(st.integers(min_components, max_components))
    nodes = {"a": min_nodes, "b": min_nodes, "latent": 0}
    node_sizes = {
        name: draw(st.lists(st.integers(least, 4), min_size=num_components, max_size=num_components))
        for name, least in nodes.items()
    }
    edge_sizes = {
        name: [
            draw(st.integers(0, 5)) if all(node_sizes[end][component] for end in ends) else 0
            for component in range(num_components)
        ]
        for name, ends in ENDS.items()
    }
    indices_dtype, row_splits_dtype = draw(
        st.sampled_from(ALL_DTYPES if any_dtypes or THOROUGH > 1 else ALL_DTYPES[:1])
    )
    return GraphPlan(
        node_sizes=node_sizes,
        edge_sizes=edge_sizes,
        seed=draw(st.integers(0, 999)),
        indices_dtype=indices_dtype,
        row_splits_dtype=row_splits_dtype,
        kind=kind,
        lean=lean,
    )


@pytest.fixture(scope="session", name="graph_plans")
def graph_plans_fixture():
    return graph_plans


def relaxed(spec):
    return spec.relax(num_components=True, num_nodes=True, num_edges=True)


def stacked(graphs, *batch_sizes):
    """Puts graphs into a batch by tf.data; with several sizes, of higher rank."""
    spec = graphs[0].spec.relax(num_nodes=True, num_edges=True)
    dataset = tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)
    for batch_size in batch_sizes:
        dataset = dataset.batch(batch_size, drop_remainder=True)
    return next(iter(dataset))


@pytest.fixture(scope="session", name="stacked")
def stacked_fixture():
    return stacked


# --- Descriptions ---------------------------------------------------------------------------


def describe_spec(spec):
    """Describes a type spec of either library, as far as it is public."""
    if isinstance(spec, tf.TensorSpec):
        return "dense", spec.dtype.name, spec.shape.rank and spec.shape.as_list()
    if isinstance(spec, tf.RaggedTensorSpec):
        return "ragged", spec.dtype.name, spec.shape.as_list(), spec.ragged_rank, spec.row_splits_dtype.name
    common = spec.shape.as_list(), spec.rank, spec.indices_dtype.name, spec.row_splits_dtype.name
    if hasattr(spec, "node_sets_spec"):
        return {
            "context": describe_spec(spec.context_spec),
            "nodes": {name: describe_spec(piece) for name, piece in spec.node_sets_spec.items()},
            "edges": {name: describe_spec(piece) for name, piece in spec.edge_sets_spec.items()},
            "spec": (*common, spec.total_num_components),
        }
    if hasattr(spec, "get_index_specs_dict"):
        ends = {tag: (name, describe_spec(index)) for tag, (name, index) in spec.get_index_specs_dict().items()}
        return {"ends": ends, "spec": (*common, spec.total_size)}
    described = {
        "features": {name: describe_spec(field) for name, field in spec.features_spec.items()},
        "sizes": describe_spec(spec.sizes_spec),
        "spec": (*common, spec.total_size, spec.total_num_components),
    }
    if hasattr(spec, "adjacency_spec"):
        described["adjacency"] = describe_spec(spec.adjacency_spec)
    return described


def describe_statically(value):
    """Describes dtypes and static shapes, also in a function that is being traced."""
    if isinstance(value, Mapping):
        return {name: describe_statically(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe_statically(item) for item in value]
    if isinstance(value, type) or value is None or isinstance(value, (bool, int, float, str, bytes, tf.DType)):
        return value
    if hasattr(value, "dtype") and isinstance(value, np.ndarray):
        return "array", value.dtype.name, list(value.shape)
    spec = value if isinstance(value, tf.TypeSpec) else getattr(value, "spec", None)
    return describe_spec(spec or tf.type_spec_from_value(value))


def describe(value):  # noqa: PLR0911 - one line for each kind
    """Describes values, dtypes and static shapes."""
    if isinstance(value, Mapping):
        return {name: describe(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, tf.RaggedTensor):
        # The same as their nested lists, which take far longer to make.
        return describe_statically(value), [
            np.asarray(part).tolist() for part in (*value.nested_row_splits, value.flat_values)
        ]
    if isinstance(value, tf.Tensor):
        return describe_statically(value), np.asarray(value).tolist()
    if hasattr(value, "node_sets"):
        pieces = {"context": value.context, "nodes": dict(value.node_sets), "edges": dict(value.edge_sets)}
        return {"spec": describe_spec(value.spec), **{kind: describe(piece) for kind, piece in pieces.items()}}
    if hasattr(value, "get_indices_dict"):
        return {"spec": describe_spec(value.spec), "ends": describe(value.get_indices_dict())}
    if hasattr(value, "get_features_dict"):
        described = {"features": describe(value.get_features_dict()), "sizes": describe(value.sizes)}
        if hasattr(value, "adjacency"):
            described["adjacency"] = describe(value.adjacency)
        return {"spec": describe_spec(value.spec), **described}
    return describe_statically(value)


def differences(ours, theirs, place=""):
    """Lists what differs between two descriptions; numbers may differ by rounding."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        keys = sorted({*ours, *theirs}, key=str)
        missing = object()
        pairs = [(f"{place}/{key}", ours.get(key, missing), theirs.get(key, missing)) for key in keys]
        return [line for where, mine, other in pairs for line in differences(mine, other, where)]
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return [line for i, (mine, other) in enumerate(pairs) for line in differences(mine, other, f"{place}[{i}]")]
    if isinstance(ours, float) and isinstance(theirs, float):
        same = math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-6) or (math.isnan(ours) and math.isnan(theirs))
    else:
        same = type(ours) is type(theirs) and ours == theirs
    return [] if same else [f"{place}: ours {ours!r}, theirs {theirs!r}"]


# --- Comparisons ----------------------------------------------------------------------------


def attempt(operation, library, *args):
    """Returns the result of an operation, or the type of its error."""
    try:
        return operation(library, *args)
    except Exception as error:  # noqa: BLE001 - the type is what is compared
        return f"raises {type(error).__name__}"


@pytest.fixture(scope="session")
def agreement():
    """Checks that an operation does the same with two lists of arguments, the first of which are ours."""

    def check(operation, ours, theirs, *, answers=None):
        results = [attempt(operation, *arguments) for arguments in (ours, theirs)]
        found = differences(*map(describe, results))
        assert not found, "\n".join(found[:20])
        assert answers is None or answers == (not refused(results[0])), results[0]

    return check


def refused(result):
    return isinstance(result, str) and result.startswith("raises ")


def compared(name, ours, theirs, answers_more=(), refuses_otherwise=()):
    """Lists how results differ; where only ours is one, it must be the name of a known case."""
    if refused(ours) and refused(theirs) and any(re.search(pattern, name) for pattern in refuses_otherwise):
        return []
    if refused(theirs) and not refused(ours):
        if any(re.search(pattern, name) for pattern in answers_more):
            return []
        return [f"{name}: ours answers, theirs {theirs}"]
    return [f"{name}{line}" for line in differences(ours, theirs)[:5]]


def only_tensors(value):
    """Leaves out what a tf.function cannot return."""
    if isinstance(value, Mapping):
        return {name: only_tensors(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [only_tensors(item) for item in value]
    return value if isinstance(value, (tf.Tensor, tf.RaggedTensor)) or hasattr(value, "spec") else None


class Traced:
    """A table of operations as one tf.function of graphs of any size."""

    def __init__(self, operations, library, spec):
        self.statics = {}

        def run_all(graph):
            results = {}
            for name, operation in operations.items():
                result = attempt(operation, library, graph)
                self.statics[name] = describe_statically(result)
                if not isinstance(result, str):
                    results[name] = only_tensors(result)
            return results

        self.function = tf.function(run_all, input_signature=[spec], autograph=False)


@pytest.fixture
def agree(oracle):
    """Checks that both libraries do the same to graphs."""

    def check(
        operations,
        plans,
        *,
        num_examples=5,
        traced=True,
        only_eager=(),
        answers_more=(),
        refuses=(),
        refuses_otherwise=(),
    ):
        """Compares the results of operations.

        Args:
            operations: names to functions of a library and a graph.
            plans: strategy of `GraphPlan`.
            num_examples: how many graphs to draw.
            traced: whether to compare in a tf.function too.
            only_eager: patterns of names of operations that a tf.function cannot hold, or that fail when it runs.
            answers_more: patterns of names of operations that ours may do where theirs refuses.
            refuses: names of operations that refuse all graphs; all others must answer for some.
            refuses_otherwise: patterns of names of operations whose errors may be of different types.
        """
        known = answers_more, refuses_otherwise
        cache = {}
        answered = set()
        in_function = {
            name: operation
            for name, operation in operations.items()
            if not any(re.search(pattern, name) for pattern in only_eager)
        }

        @few(num_examples)
        @given(plans)
        def draw(plan):
            found = []
            libraries = (tfx_gnn, oracle)
            graphs = [plan.build(library) for library in libraries]
            for name, operation in operations.items():
                results = [attempt(operation, *pair) for pair in zip(libraries, graphs, strict=True)]
                if not refused(results[0]):
                    answered.add(name)
                found += compared(name, *map(describe, results), *known)
            if traced:
                key = plan.indices_dtype, plan.row_splits_dtype
                if key not in cache:
                    cache[key] = [
                        Traced(in_function, library, relaxed(graph.spec))
                        for library, graph in zip(libraries, graphs, strict=True)
                    ]
                results = [traced.function(graph) for traced, graph in zip(cache[key], graphs, strict=True)]
                for name in in_function:
                    statics = [traced.statics[name] for traced in cache[key]]
                    found += compared(f"{name}, traced", *statics, *known)
                    if all(name in result for result in results):
                        found += compared(f"{name}, traced", *(describe(result[name]) for result in results))
            assert not found, "\n".join([f"{len(found)} differences", *found[:60]])

        draw()
        never = sorted(name for name in operations if name not in answered)
        assert never == sorted(refuses), f"never answered: {never}"

    return check
