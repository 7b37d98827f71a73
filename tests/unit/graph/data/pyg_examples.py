"""Random examples for either library, PyG or this one, and a script that records what PyG makes of them.

PyG is too large for the tests, so its answers are in `pyg_batches.json`. To record them again, in an environment with
torch and torch_geometric:

    python tests/unit/graph/data/pyg_examples.py
"""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np

ANSWERS = Path(__file__).with_name("pyg_batches.json")
NUM_LISTS = 60
_KINDS = ("plain", "pair", "bipartite", "stacked", "hetero", "nested")


def make_classes(data, hetero_data, tensor):
    """Examples with PyG's overrides, of the classes of either library; `tensor` converts arrays."""

    class PairData(data):
        def __inc__(self, key, value, *args, **kwargs):
            if key == "edge_index_s":
                return self.x_s.size(0)
            if key == "edge_index_t":
                return self.x_t.size(0)
            return super().__inc__(key, value, *args, **kwargs)

    class BipartiteData(data):
        def __inc__(self, key, value, *args, **kwargs):
            if key == "edge_index":
                return tensor(np.array([[self.x_s.size(0)], [self.x_t.size(0)]]))
            return super().__inc__(key, value, *args, **kwargs)

    class StackedData(data):
        def __cat_dim__(self, key, value, *args, **kwargs):
            return None if key == "foo" else super().__cat_dim__(key, value, *args, **kwargs)

    return types.SimpleNamespace(
        tensor=tensor, Data=data, HeteroData=hetero_data, Pair=PairData, Bipartite=BipartiteData, Stacked=StackedData
    )


def _edges(random, num_sources, num_targets):
    num_edges = random.integers(0, 4) if num_sources and num_targets else 0
    ends = [random.integers(0, max(size, 1), num_edges) for size in (num_sources, num_targets)]
    return np.array(ends, np.int64).reshape(2, num_edges)


def _rows(random, num_rows, width=2):
    return random.integers(-9, 10, [num_rows, width]).astype(np.float32)


def make_list(seed, classes):
    """Makes (examples, keys to follow) from a seed."""
    random = np.random.default_rng(seed)
    kind = _KINDS[seed % len(_KINDS)]
    examples = [_make_example(kind, random, classes) for _ in range(random.integers(1, 6))]
    return examples, {"pair": ["x_s", "x_t"], "plain": ["edge_attr"]}.get(kind, [])


def _make_example(kind, random, classes):
    tensor = classes.tensor
    num_nodes, num_others = random.integers(1, 5), random.integers(0, 4)
    if kind == "pair":
        return classes.Pair(
            x_s=tensor(_rows(random, num_nodes)),
            edge_index_s=tensor(_edges(random, num_nodes, num_nodes)),
            x_t=tensor(_rows(random, num_others, 1)),
            edge_index_t=tensor(_edges(random, num_others, num_others)),
        )
    if kind == "bipartite":
        return classes.Bipartite(
            x_s=tensor(_rows(random, num_nodes)),
            x_t=tensor(_rows(random, num_others)),
            edge_index=tensor(_edges(random, num_nodes, num_others)),
            num_nodes=int(num_nodes + num_others),
        )
    if kind == "stacked":
        return classes.Stacked(
            num_nodes=int(num_nodes),
            edge_index=tensor(_edges(random, num_nodes, num_nodes)),
            foo=tensor(random.integers(0, 9, [3])),
        )
    if kind == "hetero":
        data = classes.HeteroData()
        data["p"].x = tensor(_rows(random, num_nodes))
        data["a"].num_nodes = int(num_others)
        data["p", "w", "a"].edge_index = tensor(_edges(random, num_nodes, num_others))
        data["a", "v", "p"].edge_index = tensor(_edges(random, num_others, num_nodes))
        data["a", "v", "p"].weight = tensor(_rows(random, data["a", "v", "p"].edge_index.shape[1], 1))
        return data
    edge_index = _edges(random, num_nodes, num_nodes)
    values = {
        "x": tensor(_rows(random, num_nodes)),
        "edge_index": tensor(edge_index),
        "edge_attr": tensor(_rows(random, edge_index.shape[1], 1)),
        "y": tensor(random.integers(0, 5, [1])),
    }
    if kind == "nested":
        values["parts"] = {
            "a": tensor(_rows(random, num_others)),
            "b": [tensor(random.integers(0, 5, [num_nodes])), tensor(np.array([True, False]))],
        }
        values["text"] = f"text {num_nodes}"
        values["numbers"] = [int(num_nodes)] * int(num_others)
    else:
        values["face"] = tensor(random.integers(0, num_nodes, [3, num_others]))
        values["count"] = int(num_others)
        values["is_large"] = bool(num_nodes > 2)
    return classes.Data(**values)


def described(value):
    """Returns a value as lists, and arrays with their dtypes, for JSON."""
    if hasattr(value, "dtype"):
        return [str(value.dtype).removeprefix("torch."), value.tolist()]
    if isinstance(value, dict):
        return {name: described(item) for name, item in value.items()}
    return [described(item) for item in value] if isinstance(value, (list, tuple)) else value


def describe_batch(batch):
    """Returns the values of a batch by type and name."""
    stores = {"": batch} if not getattr(batch, "edge_types", ()) else {}
    for key in (*getattr(batch, "node_types", ()), *getattr(batch, "edge_types", ())):
        stores["|".join(key) if isinstance(key, tuple) else key] = batch[key]
    return {name: {key: described(store[key]) for key in sorted(store.keys())} for name, store in stores.items()}


def record():
    """Writes what PyG makes of all lists."""
    import torch
    from torch_geometric.data import Batch, Data, HeteroData

    classes = make_classes(Data, HeteroData, torch.from_numpy)
    answers = []
    for seed in range(NUM_LISTS):
        examples, follow = make_list(seed, classes)
        answers.append(describe_batch(Batch.from_data_list(examples, follow_batch=follow)))
    ANSWERS.write_text("\n".join(["[", ",\n".join(json.dumps(answer) for answer in answers), "]", ""]))


if __name__ == "__main__":
    record()
