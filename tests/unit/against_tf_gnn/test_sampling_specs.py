"""Sampling specs mean here what they mean to tensorflow-gnn's own samplers.

Where no node has more edges than a hop takes, nothing is random: nodes and edges of each subgraph are
the same. Nodes are compared by their ids and edges by the ids of their ends.
"""

import re
import types

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto.sampling_spec_pb2 import SamplingSpec
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.sampling.plan.sampling_spec import plan_from_sampling_spec
from tfx_gnn.tables.graph_tables import EdgeTable, GraphTables, NodeTable

SCHEMA = """
node_sets { key: "paper" value { features { key: "#id" value { dtype: DT_INT64 } } } }
node_sets { key: "author" value { features { key: "#id" value { dtype: DT_INT64 } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper" } }
edge_sets { key: "written" value { source: "paper" target: "author" } }
edge_sets { key: "wrote" value { source: "author" target: "paper" } }
"""
READOUT = """
node_sets { key: "_readout" value { } }
edge_sets { key: "_readout/source" value { source: "paper" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "paper" target: "_readout" } }
"""
NUM_NODES = {"paper": 14, "author": 5}


@pytest.fixture(scope="module")
def sampler(oracle):
    """The functions behind its sampling models, which take half a minute to be made into those."""
    from tensorflow_gnn.experimental.sampler import InMemUniformEdgesSampler
    from tensorflow_gnn.experimental.sampler.subgraph_pipeline import LinkSamplingPipeline, SamplingPipeline

    return types.SimpleNamespace(
        edges=InMemUniformEdgesSampler, around_nodes=SamplingPipeline, around_pairs=LinkSamplingPipeline
    )


@pytest.fixture(scope="module")
def graph():
    """A random graph without parallel edges, which tensorflow-gnn merges."""
    random = np.random.default_rng(7)
    schema = parse_schema(SCHEMA)
    edges = {}
    for name, edge_set in schema.edge_sets.items():
        is_edge = random.random((NUM_NODES[edge_set.source], NUM_NODES[edge_set.target])) < 0.12
        edges[name] = np.nonzero(is_edge)
    return GraphTables(
        schema=schema,
        node_tables={
            name: NodeTable(path="", ids=pa.array(np.arange(size)), features={}) for name, size in NUM_NODES.items()
        },
        edge_tables={
            name: EdgeTable(
                path="",
                source_set=schema.edge_sets[name].source,
                target_set=schema.edge_sets[name].target,
                sources=sources,
                targets=targets,
                features={},
            )
            for name, (sources, targets) in edges.items()
        },
    )


def _oracle_schema(text):
    import tensorflow_gnn.proto.graph_schema_pb2 as oracle_pb2

    return text_format.Parse(text, oracle_pb2.GraphSchema())


def _edge_sampler(sampler, graph):
    def make(operation):
        table = graph.edge_tables[operation.edge_set_name]
        return sampler.edges(
            num_source_nodes=NUM_NODES[table.source_set],
            source=table.sources,
            target=table.targets,
            sample_size=operation.sample_size,
            name=re.sub(r"\W", "_", f"op {operation.op_name}"),
        )

    return make


def _theirs(subgraphs):
    """Ids of nodes and ends of edges by set, of each subgraph; sets without items are left out."""
    ids = {name: node_set["#id"].to_list() for name, node_set in subgraphs.node_sets.items() if name != "_readout"}
    ends = {
        name: [
            (edge_set.adjacency.source_name, edge_set.adjacency.source.to_list()),
            (edge_set.adjacency.target_name, edge_set.adjacency.target.to_list()),
        ]
        for name, edge_set in subgraphs.edge_sets.items()
        if not name.startswith("_readout")
    }
    described = []
    for which in range(len(ids["paper"])):
        nodes = {name: sorted(of_set[which]) for name, of_set in ids.items()}
        edges = {
            name: sorted(
                zip(*([ids[node_set][which][i] for i in index[which]] for node_set, index in both), strict=True)
            )
            for name, both in ends.items()
        }
        described.append(_without_empty(nodes, edges))
    return described


def _ours(subgraphs, graph):
    described = []
    for which in range(subgraphs.num_subgraphs):
        nodes, edges = {}, {}
        for name, sampled in subgraphs.node_sets.items():
            nodes[name] = sorted(sampled.rows[sampled.splits[which] : sampled.splits[which + 1]].tolist())
        for name, sampled in subgraphs.edge_sets.items():
            rows = sampled.rows[sampled.splits[which] : sampled.splits[which + 1]]
            table = graph.edge_tables[name]
            edges[name] = sorted(zip(table.sources[rows].tolist(), table.targets[rows].tolist(), strict=True))
        described.append(_without_empty(nodes, edges))
    return described


def _without_empty(nodes, edges):
    return tuple({name: items for name, items in described.items() if items} for described in (nodes, edges))


def _read(spec):
    return text_format.Parse(text_format.MessageToString(spec), SamplingSpec())


def _trees(builder):
    """Specs of growing intricacy, by name."""
    seed = builder().seed("paper")
    yield "one hop", seed.sample(50, "cites").build()
    yield "back to the seed", builder().seed("paper").sample([50, 50, 50], "cites").build()
    authors = builder().seed("paper").sample(50, "written")
    yield "another node set and back", authors.sample(50, "wrote").sample(50, "written").build()
    start = builder().seed("paper")
    cited, papers = start.sample(50, "cites"), start.sample(50, "written").sample(50, "wrote")
    yield "two branches that join", start.join([cited, papers]).sample(50, "cites").sample(50, "written").build()


def test_subgraphs_around_nodes_are_those_of_the_oracle(sampler, graph):
    from tensorflow_gnn.sampler import SamplingSpecBuilder, SamplingStrategy

    def builder():
        return SamplingSpecBuilder(_oracle_schema(SCHEMA), SamplingStrategy.RANDOM_UNIFORM)

    seeds = np.arange(NUM_NODES["paper"])
    for name, spec in _trees(builder):
        sample = sampler.around_nodes(_oracle_schema(SCHEMA), spec, _edge_sampler(sampler, graph))
        plan = plan_from_sampling_spec(_read(spec), graph.schema)

        theirs = _theirs(sample(tf.RaggedTensor.from_uniform_row_length(seeds, 1)))
        ours = _ours(InMemorySampler(graph, plan, sampling_seed=0).sample_nodes(seeds), graph)

        assert ours == theirs, name
        assert len({str(subgraph) for subgraph in ours}) > 10


def test_subgraphs_around_pairs_are_those_of_the_oracle(sampler, graph):
    schema = _oracle_schema(SCHEMA + READOUT)
    text = """
      symmetric_link_seed_op { op_name: "pair" }
      sampling_ops { op_name: "cited" input_op_names: "pair" edge_set_name: "cites" sample_size: 50
                     strategy: RANDOM_UNIFORM }
      sampling_ops { op_name: "authors" input_op_names: "pair" input_op_names: "cited" edge_set_name: "written"
                     sample_size: 50 strategy: RANDOM_UNIFORM }
    """
    from tensorflow_gnn.sampler import SamplingSpec as OracleSpec

    sample = sampler.around_pairs(schema, text_format.Parse(text, OracleSpec()), _edge_sampler(sampler, graph))
    plan = plan_from_sampling_spec(text_format.Parse(text, SamplingSpec()), graph.schema, seed_edge_set="cites")
    # Of pairs that are edges, ours leaves these edges out.
    table = graph.edge_tables["cites"]
    are_edges = set(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    pairs = np.array([
        (s, t)
        for s in range(NUM_NODES["paper"])
        for t in range(NUM_NODES["paper"])
        if s != t and not {(s, t), (t, s)} & are_edges
    ])  # fmt: skip

    theirs = _theirs(
        sample({
            "#source": tf.RaggedTensor.from_uniform_row_length(pairs[:, 0], 1),
            "#target": tf.RaggedTensor.from_uniform_row_length(pairs[:, 1], 1),
        })
    )  # fmt: skip
    seeds = Seeds(
        keys=np.arange(len(pairs), dtype=np.uint64),
        rows=np.arange(len(pairs)),
        readout_splits=np.arange(len(pairs) + 1),
        readout_nodes={"source": pairs[:, 0].copy(), "target": pairs[:, 1].copy()},
    )
    ours = _ours(InMemorySampler(graph, plan, sampling_seed=0).sample(seeds), graph)

    assert len(pairs) > 100
    assert ours == theirs
