"""The network of `training_runs.py` in PyG, trained on the same subgraphs, which are in memory as `HeteroData`.

`python training_pyg.py DATA NUM_WORKERS` prints a JSON in the last line: graphs per second of each epoch. PyG reads no
tf.Examples: they are parsed once, before the clock runs.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from training_runs import BATCH_SIZE, LABEL, NUM_BUCKETS, NUM_EPOCHS, NUM_LAYERS, READOUT, SEED_SET, UNITS

import tfx_gnn
from tfx_gnn.graph import read_schema

torch: Any = importlib.import_module("torch")
pyg_data: Any = importlib.import_module("torch_geometric.data")
pyg_loader: Any = importlib.import_module("torch_geometric.loader")
pyg_nn: Any = importlib.import_module("torch_geometric.nn")


def train(data_dir: str, num_workers: int) -> list[float]:
    """Trains on batches that PyG's DataLoader shuffles and collates.

    Args:
        data_dir: folder of prepared data.
        num_workers: processes that collate; 0: the one that trains does it.

    Returns:
        Graphs per second of each epoch.
    """
    graphs = list(_graphs(data_dir))
    loader = pyg_loader.DataLoader(
        graphs,
        batch_size=BATCH_SIZE,
        shuffle=True,
        drop_last=True,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
    )
    num_classes = tft.TFTransformOutput(f"{data_dir}/transform_graph").vocabulary_size_by_name(LABEL)
    model = _network(graphs[0], num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = torch.nn.CrossEntropyLoss()
    speeds = []
    for _ in range(NUM_EPOCHS):
        start = time.perf_counter()
        for batch in loader:
            optimizer.zero_grad()
            loss_of(model(batch), batch.label).backward()
            optimizer.step()
        speeds.append(len(loader) * BATCH_SIZE / (time.perf_counter() - start))
    return speeds


def _graphs(data_dir: str) -> Iterator[Any]:
    schema = read_schema(f"{data_dir}/transformed_graph_schema/graph_schema.pbtxt")
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    paths = sorted(str(path) for path in Path(data_dir, "transformed_examples", "Split-train").iterdir())
    records = tf.data.TFRecordDataset(paths, compression_type="GZIP")
    for graph in records.map(lambda record: tfx_gnn.parse_single_example(spec, record)):
        data = pyg_data.HeteroData()
        data.label = torch.tensor(np.maximum(graph.node_sets[READOUT][LABEL].numpy(), 0))
        for name, nodes in graph.node_sets.items():
            if name == READOUT:
                continue
            data[name].identity = torch.from_numpy(nodes[f"{name}_id"].numpy() % NUM_BUCKETS)
            data[name].num_nodes = len(data[name].identity)
            if "numbers" in nodes.features:
                data[name].numbers = torch.from_numpy(nodes["numbers"].numpy())
        for name, edges in graph.edge_sets.items():
            ends = edges.adjacency
            if READOUT in (ends.source_name, ends.target_name):
                continue
            # Messages go to the sources.
            index = np.stack([ends.target.numpy(), ends.source.numpy()]).astype(np.int64)
            data[ends.target_name, name, ends.source_name].edge_index = torch.from_numpy(index)
        yield data


def _network(sample: Any, num_classes: int) -> Any:
    class Message(pyg_nn.MessagePassing):  # type: ignore[misc, name-defined]
        """One layer's messages along one relation."""

        def __init__(self) -> None:
            super().__init__(aggr="add")
            self.dense = torch.nn.Linear(2 * UNITS, UNITS)

        def forward(self, states: Any, edge_index: Any, size: Any) -> Any:
            return self.propagate(edge_index, x=states, size=size)

        def message(self, x_i: Any, x_j: Any) -> Any:
            return torch.relu(self.dense(torch.cat([x_i, x_j], dim=-1)))

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        """First states, layers of messages to packages, a classifier of the seeds."""

        def __init__(self) -> None:
            super().__init__()
            self.embeddings = torch.nn.ModuleDict(
                {name: torch.nn.Embedding(NUM_BUCKETS, 32) for name in sample.node_types}
            )
            self.first = torch.nn.ModuleDict(
                {
                    name: torch.nn.Linear(
                        32 + (sample[name].numbers.shape[1] if "numbers" in sample[name] else 0), UNITS
                    )
                    for name in sample.node_types
                }
            )
            self.messages = torch.nn.ModuleList(
                torch.nn.ModuleDict({relation: Message() for _, relation, _ in sample.edge_types})
                for _ in range(NUM_LAYERS)
            )
            width = UNITS * (1 + len(sample.edge_types))
            self.next = torch.nn.ModuleList(torch.nn.Linear(width, UNITS) for _ in range(NUM_LAYERS))
            self.logits = torch.nn.Linear(UNITS, num_classes)

        def forward(self, batch: Any) -> Any:
            states = {}
            for name in batch.node_types:
                parts = [self.embeddings[name](batch[name].identity)]
                if "numbers" in batch[name]:
                    parts.append(batch[name].numbers)
                states[name] = torch.relu(self.first[name](torch.cat(parts, dim=-1)))
            for messages, dense in zip(self.messages, self.next, strict=True):
                heard = [
                    messages[relation](
                        (states[sender], states[receiver]),
                        batch[sender, relation, receiver].edge_index,
                        (len(states[sender]), len(states[receiver])),
                    )
                    for sender, relation, receiver in batch.edge_types
                ]
                states[SEED_SET] = torch.relu(dense(torch.cat([states[SEED_SET], *heard], dim=-1)))
            # A seed is the first node of its set.
            return self.logits(states[SEED_SET][batch[SEED_SET].ptr[:-1]])

    return Network()


if __name__ == "__main__":
    speeds = train(sys.argv[1], int(sys.argv[2]))
    sys.stdout.write(f"\n{json.dumps({'speeds': speeds})}\n")
