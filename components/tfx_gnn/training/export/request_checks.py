"""Checks requests to an exported model, and finds the ids that its responses are about."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_to_flat_tensors
from tfx_gnn.graph.ops.readout import structured_readout
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.candidate_groups import pad_candidates
from tfx_gnn.models.tasks import Objective
from tfx_gnn.models.tasks.label_places import without_context_features, without_other_readout_features
from tfx_gnn.serving import model_interface
from tfx_gnn.transform.id_tables import are_unseen

#: Largest number of nodes of a featureless set in a request. Only `#size` gives their number, so a few bytes could
#: request any number; with 64 units, the state of this many nodes takes 256 MiB.
MAX_NODES_WITHOUT_FEATURES = 2**20

_SEED, _SOURCE, _TARGET = "seed", "source", "target"
_ID_OUTPUTS = {
    _SEED: model_interface.ID_OUTPUT,
    _SOURCE: model_interface.SOURCE_ID_OUTPUT,
    _TARGET: model_interface.TARGET_ID_OUTPUT,
}
_UNSEEN_OUTPUTS = {
    _SEED: model_interface.UNSEEN_ID_OUTPUT,
    _SOURCE: model_interface.UNSEEN_SOURCE_ID_OUTPUT,
    _TARGET: model_interface.UNSEEN_TARGET_ID_OUTPUT,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestForm:
    """The form of requests.

    Attributes:
        spec: spec of one raw graph without labels.
        label_keys: keys of tf.Examples that requests may omit.
        roots: what each prediction is read from: ("seed",), ("source", "target"), or () for whole graphs.
        id_tables: tables of the vocabularies that number ids, by node set, as from `find_id_tables`.
    """

    spec: GraphTensorSpec
    label_keys: tuple[str, ...]
    roots: tuple[str, ...]
    id_tables: Mapping[str, Sequence[tf.Tensor]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        raw_spec: GraphTensorSpec,
        objective: Objective,
        *,
        other_labels: Collection[str] = (),
        id_tables: Mapping[str, Sequence[tf.Tensor]] | None = None,
    ) -> RequestForm:
        """Describes requests to a model that takes raw graphs of a spec.

        They may omit the labels of this and other tasks, and all features of `_readout` but those whose names begin
        with `#` and those that the prediction depends on.
        """
        roots = _roots(objective)
        if roots and READOUT_NODE_SET not in raw_spec.node_sets_spec:
            raise ValueError(
                f"`graph_schema_dir` must describe the examples before the transform, with node set "
                f"{READOUT_NODE_SET!r}; got {sorted(raw_spec.node_sets_spec)}. Name the schema of the same examples."
            )
        spec = without_context_features(objective.without_labels(raw_spec), other_labels)
        spec = without_other_readout_features(spec, objective.input_features)
        keys = [set(graph_flat_tensor_specs(one)) for one in (raw_spec, spec)]
        label_keys = tuple(sorted(keys[0] - keys[1]))
        return cls(spec=spec, label_keys=label_keys, roots=roots, id_tables=dict(id_tables or {}))

    def edge_ends(self) -> dict[str, list[str]]:
        """Returns the node sets at the source and the target of each edge set, except auxiliary ones but readouts."""
        ends = {name: edge_set.adjacency_spec for name, edge_set in self.spec.edge_sets_spec.items()}
        return {
            name: [adjacency.source_name, adjacency.target_name]
            for name, adjacency in sorted(ends.items())
            if isinstance(adjacency, AdjacencySpec)
            and (get_aux_type_prefix(name) is None or name.startswith(f"{READOUT_NODE_SET}/"))
        }

    def checks(self, raw: GraphTensor) -> list[tf.Operation]:
        """Makes operations that assert that each example of the merged graph has a readout and bounded memory use."""
        return [
            *_bare_node_checks(raw, confirmed=(READOUT_NODE_SET,) if self.roots else ()),
            *self._readout_checks(raw),
        ]

    def _readout_checks(self, raw: GraphTensor) -> list[tf.Operation]:
        if not self.roots:
            return []
        readouts = raw.node_sets[READOUT_NODE_SET].sizes
        edges = [raw.edge_sets[f"{READOUT_NODE_SET}/{root}"].sizes for root in self.roots]
        if self.roots == (_SEED,):
            message = (
                f"`{model_interface.EXAMPLES_INPUT}` must have exactly one node in node set `{READOUT_NODE_SET}` and "
                f"one edge in `{READOUT_NODE_SET}/{_SEED}` in every example; got others. Send one rooted subgraph per "
                "example."
            )
            return [
                tf.debugging.assert_equal(sizes, tf.ones_like(sizes), message=message) for sizes in (readouts, *edges)
            ]
        message = (
            f"`{model_interface.EXAMPLES_INPUT}` must have at least one node in node set `{READOUT_NODE_SET}` in every "
            f"example, and as many edges in `{READOUT_NODE_SET}/{_SOURCE}` and `{READOUT_NODE_SET}/{_TARGET}`; got "
            "others. Send the candidate pairs of a source as one example."
        )
        return [
            tf.debugging.assert_positive(readouts, message=message),
            *(tf.debugging.assert_equal(sizes, readouts, message=message) for sizes in edges),
        ]

    def ids(self, raw: GraphTensor) -> dict[str, tf.Tensor]:
        """Reads the original ids of what predictions are about.

        They are `id`, [n]; or `source_id` and `target_id`, [n, largest number of candidates]. Without ids in the
        examples the result is empty. With `id_tables`, `unseen_id` and so on say which of them the model has no row
        for.
        """
        if not self.roots:
            ids = raw.context.features.get(ID_NAME)
            return {} if ids is None else {model_interface.ID_OUTPUT: ids}
        found = {}
        for root in self.roots:
            ids = _ids(raw, root)
            if ids is None:
                continue
            found[_ID_OUTPUTS[root]] = _by_example(raw, root, ids, padding="" if ids.dtype == tf.string else -1)
            ends = raw.edge_sets.get(f"{READOUT_NODE_SET}/{root}")
            tables = () if ends is None else self.id_tables.get(ends.adjacency.source_name, ())
            if tables:
                found[_UNSEEN_OUTPUTS[root]] = _by_example(raw, root, are_unseen(ids, tables), padding=False)
        return found


def _bare_node_checks(raw: GraphTensor, *, confirmed: Collection[str]) -> list[tf.Operation]:
    """Bounds the size of node sets without features, whose number of nodes nothing else in a request confirms.

    Features hold as many values as there are nodes, unless their width is 0. Other checks confirm the sizes of the
    sets in `confirmed`.
    """
    checks = []
    for name, node_set in raw.node_sets.items():
        is_confirmed = name in confirmed or any(0 not in value.shape for value in node_set.features.values())
        if not is_confirmed:
            message = (
                f"`{model_interface.EXAMPLES_INPUT}` must have at most {MAX_NODES_WITHOUT_FEATURES} nodes in node set "
                f"`{name}`, which has no features; got more. Send fewer examples at once."
            )
            total = tf.reduce_sum(tf.cast(node_set.sizes, tf.int64))
            checks.append(
                tf.debugging.assert_less_equal(
                    total, tf.constant(MAX_NODES_WITHOUT_FEATURES, tf.int64), message=message
                )
            )
    return checks


def finite_checks(graph: GraphTensor, allowed: Collection[str]) -> list[tf.Operation]:
    """Makes operations that assert finite numbers, as GraphTransform does for training data.

    A response to NaN or infinity may be finite, and would hide them: `relu(NaN)` is 0 in TensorFlow. Features
    of auxiliary sets, and those whose tf.Example keys are in `allowed`, are not checked.
    """
    checks = []
    for key, value in graph_to_flat_tensors(graph).items():
        is_auxiliary = key.startswith((f"{const.NODES}/_", f"{const.EDGES}/_"))
        if value.dtype.is_floating and not is_auxiliary and key not in allowed:
            message = (
                f"`{model_interface.EXAMPLES_INPUT}` must have finite numbers once they are transformed; got NaN or "
                f"infinity in `{key}`. Send finite values, or clip them in `preprocessing_fn`."
            )
            checks.append(tf.debugging.Assert(tf.reduce_all(tf.math.is_finite(value)), [message]))
    return checks


def _roots(objective: Objective) -> tuple[str, ...]:
    if any(part.reads_pairs for part in objective.parts.values()):
        return _SOURCE, _TARGET
    return (_SEED,) if any(part.reads_seeds for part in objective.parts.values()) else ()


def _by_example(raw: GraphTensor, root: str, values: tf.Tensor, *, padding: str | float) -> tf.Tensor:
    """Returns values of seeds as they are, [n], and those of pairs in one row per example."""
    return values if root == _SEED else pad_candidates(values, raw.node_sets[READOUT_NODE_SET].sizes, padding)


def _ids(raw: GraphTensor, root: str) -> tf.Tensor | None:
    try:
        ids: tf.Tensor = structured_readout(raw, root, feature_name=ID_NAME)
    except KeyError:
        return None
    return ids
