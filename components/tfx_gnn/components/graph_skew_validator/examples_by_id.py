"""Finds the examples that a server, which is asked by the ids of their seeds, must sample exactly as training did."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.comparison import RecordPlace
from tfx_gnn.components.graph_skew_validator.plan_rules import hides_from_split, objection_to_ids
from tfx_gnn.components.graph_skew_validator.skew_accumulator import ExampleBlock, ExamplePair
from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES, SIZE_NAME, SOURCE_NAME
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.plan import LABEL_FEATURE, SamplingPlan
from tfx_gnn.sampling.plan.recorded_plan import read_recorded_plan
from tfx_gnn.serving.model_interface import REQUEST_SCHEMA_FILE, SAMPLING_PLAN_FILE

_HIDES = "of a split that may not see all nodes and edges, as a server does"
_EARLIER_SPAN = "of an earlier span, which the index does not hold"
_SEVERAL_PAIRS = "of several pairs, while a server samples around one"
_NEGATIVE = "a negative, which hides its true pair as well"
_WITHOUT_ID = "without the id of the seed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleById:
    """An example, and how a server is asked about it.

    Attributes:
        pair: the example.
        instance: one of `instances` of a request, {"id": ...} or {"source": ..., "target": ...}, and the context.
    """

    pair: ExamplePair
    instance: Mapping[str, Any]

    @property
    def place(self) -> RecordPlace:
        """The place of the example, with the ids of its seed, and what else it was asked with."""
        context = self.instance.get(CONTEXT, {})
        ids = (value for key, value in self.instance.items() if key != CONTEXT)
        return self.pair.place(", ".join(map(str, (*ids, *context.values()))))


class ExamplesById:
    """Collects examples that can be compared with what a server samples, and counts the others.

    Attributes:
        objection: why none can be, whatever they hold; empty if some may.
        num_not_comparable: examples that cannot be, by the reason in words.
    """

    def __init__(self, saved_model_dir: str, *, splits: Collection[str], limit: int) -> None:
        """Starts with none, for a model, the splits that have examples, and a maximum number of examples."""
        self.num_not_comparable: dict[str, int] = {}
        self._splits, self._limit = splits, limit
        self._found: dict[str, list[ExampleById]] = {}
        recorded = read_recorded_plan(os.path.join(saved_model_dir, SAMPLING_PLAN_FILE))
        self._plan = recorded.plan if recorded else None
        self._node_sets: dict[str, str] = {}
        if self._plan is None:
            self.objection = (
                f"The model was exported without {SAMPLING_PLAN_FILE}: its examples were not sampled by a plan, or by "
                "an earlier version of the library."
            )
            return
        self.objection = objection_to_ids(self._plan)
        if self.objection:
            return
        schema = read_schema(os.path.join(saved_model_dir, REQUEST_SCHEMA_FILE))
        self._node_sets = {
            root: schema.edge_sets[f"{READOUT_NODE_SET}/{root}"].source for root in self._plan.root_names
        }

    def add(self, block: ExampleBlock) -> None:
        """Takes the compared examples of a block."""
        if self._plan is None or self.objection:
            return
        found = self._found.setdefault(block.pairs[0].file.split, [])
        reason = self._reason_of_file(self._plan, block.pairs[0].file)
        for pair in block.pairs:
            example = tf.train.Example() if reason else tf.train.Example.FromString(pair.raw)
            features = example.features.feature
            problem = reason or self._reason_of_example(self._plan, features)
            instance = {} if problem else self._instance(features)
            if problem or not instance:
                problem = problem or _WITHOUT_ID
                self.num_not_comparable[problem] = self.num_not_comparable.get(problem, 0) + 1
            elif len(found) < self._limit:
                found.append(ExampleById(pair=pair, instance=instance))

    @property
    def chosen(self) -> list[ExampleById]:
        """The examples to ask about, as many of each split as there are of others, if it has so many."""
        rounds = itertools.zip_longest(*self._found.values())
        return [one for row in rounds for one in row if one is not None][: self._limit]

    def _reason_of_file(self, plan: SamplingPlan, file: RecordFile) -> str:
        """Says why no example of a file can be compared; empty if some may be."""
        if file.earlier_span:
            return _EARLIER_SPAN
        return _HIDES if hides_from_split(plan, file.split, self._splits) else ""

    @staticmethod
    def _reason_of_example(plan: SamplingPlan, features: Mapping[str, Any]) -> str:
        prefix = f"{NODES}/{READOUT_NODE_SET}."
        if list(features[f"{prefix}{SIZE_NAME}"].int64_list.value) != [1]:
            return _SEVERAL_PAIRS
        if plan.negatives is not None and list(features[f"{prefix}{LABEL_FEATURE}"].int64_list.value) == [0]:
            return _NEGATIVE
        return ""

    def _instance(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Reads the ids of the seed, and its context if the model reads one; empty if there are no ids."""
        assert self._plan is not None
        ids: dict[str, Any] = {}
        for root, node_set in self._node_sets.items():
            of_nodes = features[f"{NODES}/{node_set}.{ID_NAME}"]
            kind = of_nodes.WhichOneof("kind")
            if kind is None:
                return {}
            (position,) = features[f"{EDGES}/{READOUT_NODE_SET}/{root}.{SOURCE_NAME}"].int64_list.value
            ids["id" if root == SEED else root] = _plain(getattr(of_nodes, kind).value[position])
        context = {name: _plain(_only_value(features[f"{CONTEXT}/{name}"])) for name in self._plan.seed_inputs}
        return ids | ({CONTEXT: context} if context else {})


def _only_value(feature: tf.train.Feature) -> Any:
    (value,) = getattr(feature, feature.WhichOneof("kind")).value
    return value


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
