"""The command `infer-layerwise`: answers for all nodes of a graph, each state computed once."""

from __future__ import annotations

from typing import Annotated

from tfx_gnn.cli import arguments
from tfx_gnn.cli.option_flags import flags_of_options
from tfx_gnn.components.graph_layerwise_inferrer.options import GraphLayerwiseInferrerOptions


@flags_of_options(GraphLayerwiseInferrerOptions, names={"outputs": "--output"}, shown=("outputs", "file_format"))
def infer_layerwise(
    *,
    graph_index_dir: Annotated[str, arguments.folder("The graph: an output of `index`.")],
    model_dir: Annotated[
        str,
        arguments.folder(
            "A push destination (its newest version is used), a trained model, or a SavedModel; trained with "
            "`--layerwise-inference`."
        ),
    ],
    inference_dir: Annotated[str, arguments.folder("Where to write the tables and `inference.json`.")],
    blessing_dir: arguments.AskedBlessing = "",
    infra_blessing_dir: arguments.InfraBlessing = "",
    options: GraphLayerwiseInferrerOptions,
) -> None:
    """Write what a model answers to every node of a graph index, computing the state of each node once a layer.

    The answers are those of `sample --every-node` and `infer`; what would make them differ is refused. An interrupted
    run goes on where it stopped. Exits with 1 if a blessing is withheld.
    """
    from tfx_gnn.components.graph_layerwise_inferrer.stage import infer_layerwise as infer

    found = infer(
        graph_index_dir=graph_index_dir,
        model_dir=model_dir,
        inference_dir=inference_dir,
        blessing_dir=blessing_dir,
        infra_blessing_dir=infra_blessing_dir,
        options=options,
    )
    for split, number in found.num_rows.items():
        arguments.console.print(f"split '{split}': {number:,} nodes, {number:,} rows", markup=False, highlight=False)
    if found.num_verified:
        arguments.console.print(
            f"{found.num_verified} of them also asked by their subgraphs: largest difference "
            f"{found.largest_difference:.1e}",
            markup=False,
            highlight=False,
        )
    if found.num_nonfinite:
        arguments.console.print(f"Warning: {found.num_nonfinite:,} values are NaN or infinite.", markup=False)
    arguments.say_written(inference=inference_dir)
    if not found.blessed:
        arguments.end_with_verdict(passed=False, verdict="NOT asked", reasons=found.reasons)
