"""What the pushed model is asked about in bulk, at the end of a pipeline: every node, or a table of ids.

Every node can also be asked about layer by layer.
"""

from __future__ import annotations

import dataclasses

from tfx_gnn.components import GraphBulkInferrerOptions, GraphTrainerOptions, SubgraphExampleGenOptions
from tfx_gnn.components.graph_layerwise_inferrer.plan_rules import check_subgraphs_share_a_graph
from tfx_gnn.sampling.plan.inference_plan import plan_for_inference

INFERENCE_EXAMPLE_GEN = "InferenceExampleGen"
"""Id of the second SubgraphExampleGen, which samples what GraphBulkInferrer asks about."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BulkInferenceOptions(GraphBulkInferrerOptions):
    """What GraphBulkInferrer of a pipeline is asked about, and what it writes.

    Attributes:
        ids: table of what to ask about, relative to `tables_dir`, with a column `id`, or `source` and `target` for a
            plan of links. Empty: every node of the plan's seed node set, or every graph of a task without a plan.
        num_shards: files of the examples to ask about, each of which is one unit of work; 0: as many as those of a
            split in `subgraph_example_gen`.
    """

    ids: str = ""
    num_shards: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_shards < 0:
            raise ValueError(
                f"`num_shards` must be at least 0; got {self.num_shards}. Leave it out for as many as in training."
            )

    @property
    def of_component(self) -> GraphBulkInferrerOptions:
        """The options of GraphBulkInferrer alone."""
        names = [field.name for field in dataclasses.fields(GraphBulkInferrerOptions)]
        return GraphBulkInferrerOptions(**{name: getattr(self, name) for name in names})


def options_of_inference_example_gen(
    options: SubgraphExampleGenOptions, asked: BulkInferenceOptions
) -> SubgraphExampleGenOptions | None:
    """Makes the options of the second SubgraphExampleGen, which samples what the model is asked about.

    Args:
        options: options of the first, which samples what the model is trained on.
        asked: what to ask about.

    Returns:
        The options; None for graph-level examples, of which the model is asked about those that there are.

    Raises:
        ValueError: if the plan needs a table of ids, or the task can have none.
    """
    if options.plan is None:
        if asked.ids or asked.num_shards:
            raise ValueError(
                "`graph_bulk_inferrer` must leave out `ids` and `num_shards` for graph-level examples, all of which "
                f"are asked about; got {asked.ids!r} and {asked.num_shards}. Leave both out."
            )
        return None
    try:
        plan = plan_for_inference(options.plan, ids=asked.ids)
    except ValueError as error:
        raise ValueError(f"{error} This is an option of graph_bulk_inferrer.") from error
    # What is asked about is in the newest span, whatever the model was trained on.
    return dataclasses.replace(options, plan=plan, num_shards=asked.num_shards or options.num_shards, num_spans=1)


def check_layerwise_inference(examples: SubgraphExampleGenOptions, trainer: GraphTrainerOptions) -> None:
    """Checks, before anything is trained, that the model of a pipeline can be asked layer by layer.

    Args:
        examples: what the model is trained on.
        trainer: how it is trained and exported.

    Raises:
        ValueError: if the export holds no layers, or answers could not be those from subgraphs.
    """
    if examples.plan is None:
        raise ValueError(
            "`graph_layerwise_inferrer` must be left out for graph-level examples, whose graphs are many; got it "
            "without a plan. Use `graph_bulk_inferrer`."
        )
    if not trainer.export.layerwise_inference:
        raise ValueError(
            "`graph_trainer.export.layerwise_inference` must be true with `graph_layerwise_inferrer`, which asks the "
            "model layer by layer; got false. Set it, or leave `graph_layerwise_inferrer` out."
        )
    try:
        check_subgraphs_share_a_graph(examples.plan)
    except ValueError as error:
        raise ValueError(f"{error} In a pipeline, that is `graph_bulk_inferrer`.") from error
