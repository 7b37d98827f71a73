"""Adapts the user's preprocessing function over graphs to tf.Transform."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.distribution.distributed_datasets import PYTHON_OPS
from tfx_gnn.io.fingerprint import fingerprint_files, fingerprint_text
from tfx_gnn.io.user_errors import UserCodeError, place_of_result, user_errors_explained, with_place
from tfx_gnn.records.graph_layout import GraphLayout
from tfx_gnn.transform.graph_view import GraphView, graph_view_from_ragged, ragged_from_graph_view

RULE_OF_PREPROCESSING = "run on the features of the graph schema"
"""What `preprocessing_fn` must do, as error messages say it."""

_FROM_FILE = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")

GraphPreprocessingFn = Callable[[GraphView], GraphView]
TensorPreprocessingFn = Callable[[Mapping[str, tf.RaggedTensor]], dict[str, tf.RaggedTensor]]


def tensor_preprocessing_fn(preprocessing_fn: GraphPreprocessingFn, layout: GraphLayout) -> TensorPreprocessingFn:
    """Wraps a function over a graph view into one over a flat dict of tensors.

    Args:
        preprocessing_fn: takes a GraphView, returns `graph.replace_features(...)`.
        layout: the keys of the graph before the transform.

    Returns:
        Function that maps ragged tensors `[num_graphs, (num_items), ...]` by tf.Example key to those of the
        transformed graph. Structure keys and features that hold indices of nodes pass through. It raises a
        ValueError if `preprocessing_fn` calls Python at run time or replaces one of these features, and a
        TypeError if it does not return a GraphView.
    """
    # TensorFlow shares the lookup tables of vocabularies by operation name for the lifetime of a process.
    # Without unique names, an integer vocabulary would reuse the string table of an earlier transform.
    name = f"{preprocessing_fn.__module__}.{getattr(preprocessing_fn, '__qualname__', '')}"
    scope = re.sub("[^A-Za-z0-9_.]", "_", name).lstrip("_")  # A scope must not begin with that.

    def apply(tensors: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.RaggedTensor]:
        try:
            with tf.name_scope(scope), user_errors_explained("preprocessing_fn", RULE_OF_PREPROCESSING):
                graph = preprocessing_fn(graph_view_from_ragged(tensors, layout))
        except UserCodeError as error:
            if "Conflicting key/value dtypes" not in str(error.__cause__):
                raise
            raise ValueError(
                "`preprocessing_fn` must keep the types of its vocabularies while a process lives; got another type "
                f"than {name!r} had before, under the same names. Restart Python or the notebook's kernel."
            ) from error
        if not isinstance(graph, GraphView):
            message = (
                f"`preprocessing_fn` must return a GraphView; got {type(graph).__name__}. "
                "Return graph.replace_features(...)."
            )
            raise TypeError(with_place(message, place_of_result(preprocessing_fn)))
        outputs = ragged_from_graph_view(graph)
        replaced = sorted(layout.index_keys & set(outputs))
        if replaced:
            raise ValueError(
                f"`preprocessing_fn` must not replace features that hold indices of nodes; got {replaced}. They pass "
                "through unchanged: give the new features other names."
            )
        outputs.update({key: tensors[key] for key in layout.index_keys})
        for one_set in layout.sets:
            outputs.update({key: tensors[key] for key in one_set.structure_keys})
        _check_needs_no_python(outputs)
        return outputs

    return apply


def analyzed_keys(preprocessing_fn: TensorPreprocessingFn, type_specs: Mapping[str, tf.TypeSpec]) -> frozenset[str]:
    """Finds the tf.Example keys of features, sizes and edge ends that full-pass statistics depend on."""
    return frozenset(tft.get_analyze_input_columns(preprocessing_fn, dict(type_specs)))


def fingerprint_operations(preprocessing_fn: TensorPreprocessingFn, type_specs: Mapping[str, tf.TypeSpec]) -> str:
    """Hashes which operations a function consists of, how they are wired, and the files that its tables are read from.

    tf.Transform's keys of cached statistics have the constants and attributes of operations, but not their types: for
    them, the lower case of a text is the upper case, and a sum is a product.

    Returns:
        A text that is the same for the same function in every process, with one version of TensorFlow.
    """
    found: list[str] = []

    def note(tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        outputs = preprocessing_fn(tensors)
        graph = tf.compat.v1.get_default_graph()
        definition = graph.as_graph_def()
        functions = {one.signature.name: one.node_def for one in definition.library.function}
        # TensorFlow numbers the inputs in another order each time.
        inputs = {
            part.op.name: f"{key} {number}"
            for key, tensor in tensors.items()
            for number, part in enumerate(tf.nest.flatten(tensor, expand_composites=True))
        }
        found.append(_fingerprint_nodes(definition.node, functions, inputs))
        for operation in graph.get_operations():
            path = tf.get_static_value(operation.inputs[1]) if operation.type in _FROM_FILE else None
            if path is not None:
                found.append(fingerprint_files([tf.compat.as_str(path.item())]))
        return outputs

    tft.get_analyze_input_columns(note, dict(type_specs))
    return fingerprint_text("\n".join([found[0], *sorted(found[1:])]))


def _fingerprint_nodes(
    nodes: Sequence[Any], functions: Mapping[str, Sequence[Any]], inputs: Mapping[str, str] | None = None
) -> str:
    """Hashes the nodes of a graph or of a function in it, in any order and by any name, but for those of `inputs`."""
    known = dict(inputs or {})
    for node in nodes:  # Those that a node is made of are before it.
        if node.name in known:
            continue
        wires = [one.partition(":") for one in node.input if not one.startswith("^")]
        called = [attr.func.name for _, attr in sorted(node.attr.items()) if attr.HasField("func")]
        parts = [
            node.op,
            *(f"{known.get(name, name)}:{output}" for name, _, output in wires),
            *(_fingerprint_nodes(functions[name], functions) for name in called if name in functions),
        ]
        known[node.name] = fingerprint_text("\n".join(parts))
    return fingerprint_text("\n".join(sorted(known.values())))


def keys_of_transformed(
    preprocessing_fn: TensorPreprocessingFn, type_specs: Mapping[str, tf.TypeSpec], key: str
) -> frozenset[str]:
    """Finds the tf.Example keys of raw features, sizes and edge ends that a transformed feature depends on."""
    return frozenset(
        tft.get_transform_input_columns(lambda tensors: {key: preprocessing_fn(tensors)[key]}, dict(type_specs))
    )


def check_nonfinite_features(
    names: Collection[str], preprocessing_fn: TensorPreprocessingFn, type_specs: Mapping[str, tf.TypeSpec]
) -> None:
    """Refuses names that are not tf.Example keys of transformed float features."""
    known: set[str] = set()

    def note(tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        outputs = preprocessing_fn(tensors)
        known.update(key for key, value in outputs.items() if value.dtype.is_floating)
        return outputs

    if names:
        tft.get_transform_input_columns(note, dict(type_specs))
    unknown = sorted(set(names) - known)
    if unknown:
        raise ValueError(
            f"`nonfinite_features` must be tf.Example keys of transformed features of floats; got {unknown}. Known "
            f"are {sorted(known)}."
        )


def check_statistics_of_items(keys: Collection[str], layout: GraphLayout) -> None:
    """Refuses statistics of sizes and ends of edges.

    They have no meaning if every node and edge is counted once, separately from the subgraphs it was sampled into.
    """
    structure = sorted(set(keys) & {key for one_set in layout.sets for key in one_set.structure_keys})
    if structure:
        raise ValueError(
            "`preprocessing_fn` must take full-pass statistics (tft analyzers) of features of items only; got one "
            f"that depends on {structure}. Every node and edge is counted once, separately from the subgraphs it "
            'was sampled into, so sizes and neighbours have no meaning there. Choose analyze="as_sampled", where '
            "every occurrence in a subgraph counts; or compute such statistics when the tables are made, and read "
            "them as features. An assertion on sizes or edges has the same effect: leave it out."
        )


def _check_needs_no_python(outputs: Mapping[str, tf.RaggedTensor]) -> None:
    tensor = next(iter(outputs.values())).flat_values
    if not tf.is_symbolic_tensor(tensor):
        return
    graph = tensor.graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(function.node_def for function in graph.library.function))
    found = sorted({node.name for node in nodes if node.op in PYTHON_OPS})
    if found:
        raise ValueError(
            "`preprocessing_fn` must consist of TensorFlow operations; got calls to Python, such as tf.py_function, "
            f"tf.numpy_function or tft.apply_pyfunc, in {found}. Use only TensorFlow operations: the transform is "
            "served without Python."
        )
