"""Candidates for `:rank` from stored embeddings: the targets that are nearest to a source, of all that were embedded.

The model embeds the source in a pair with the first target of the graph. What is nearest is found by inner products
with the stored embeddings of targets; the whole network then ranks it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tfx_gnn.sampling.plan.hop import ROOT_SOURCE
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.server.candidates import RankRequest, check_ranks
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.refusals import Refusal, malformed
from tfx_gnn.serving.server.served_version import Outputs, ServedSignature, ServedVersion
from tfx_gnn.serving.server.stored_embeddings import StoredEmbeddings, origin_of

Ask = Callable[[ServedSignature, Sequence[Item]], Awaitable[Outputs]]
Run = Callable[[Callable[[], Any]], Awaitable[Any]]


async def retrieve(
    asked: RankRequest,
    embeddings: StoredEmbeddings | None,
    version: ServedVersion,
    versions: Sequence[ServedVersion],
    *,
    ask: Ask,
    run: Run,
) -> RankRequest:
    """Completes a request without candidates by the nearest ones.

    Args:
        asked: the request.
        embeddings: stored embeddings; None if the server has none.
        version: the version that ranks.
        versions: those that are served, one of which must have made the embeddings.
        ask: calls a signature of a model.
        run: calls a function in a thread.

    Returns:
        The request with candidates, and with what they are from.

    Raises:
        Refusal: if the model does not rank, the server has no embeddings of its targets or they are too old, or the
            source is no node.
    """
    if embeddings is None:
        raise Refusal(
            404,
            "no_embeddings",
            "`candidates` must be a list of ids on a server without stored embeddings; got none. List them, or start "
            "the server with `--embeddings-dir`, the output of `tfx-gnn embed --output target_embedding`.",
        )
    seeds = check_ranks(version, asked.task)
    stored, of_version = embeddings.check(versions)
    task, _, kind = stored.manifest.output.rpartition("/")
    if kind != model_interface.TARGET_EMBEDDING_OUTPUT or task not in ("", asked.task):
        wanted = f"{asked.task}/{model_interface.TARGET_EMBEDDING_OUTPUT}" if asked.task else ""
        raise malformed(
            f"`candidates` must be a list of ids unless the stored embeddings are {wanted or 'target_embedding'!r}, "
            f"those of targets; got {stored.manifest.output!r}. List them, or embed the examples by `tfx-gnn embed "
            f"--output {wanted or 'target_embedding'}`."
        )
    # The embeddings of two models cannot be compared; another one may rank.
    of_model = check_ranks(of_version, asked.task)
    output = f"{task}/{model_interface.SOURCE_EMBEDDING_OUTPUT}" if task else model_interface.SOURCE_EMBEDDING_OUTPUT
    signature = of_version.signature(model_interface.EMBEDDINGS_SIGNATURE)
    seed = of_model.read_source(asked.source, asked.context)
    outputs = await ask(signature, [seed])
    vector = outputs[output][0, 0]
    if len(vector) != stored.manifest.dimension:
        raise malformed(
            f"`candidates` must be a list of ids for a model that embeds sources in {len(vector)} numbers and targets "
            f"in {stored.manifest.dimension}; got none. List them."
        )
    nearest: list[Any] = await run(lambda: stored.ids_of_nearest(vector, asked.num_retrieved + 1))
    # A node is no candidate of its own.
    own = seed.ids[ROOT_SOURCE] if of_model.ends_are_of_one_set else None
    nearest = [one for one in nearest if one != own][: asked.num_retrieved]
    known = [one for one, is_known in zip(nearest, seeds.are_targets(nearest), strict=True) if is_known]
    if not known:
        raise Refusal(
            404,
            "unknown_id",
            f"The graph must have nodes with stored embeddings; got none of the {len(nearest)} nearest ones. Embed "
            "examples of this graph.",
        )
    origin = {
        "count": len(known),
        "num_unknown": len(nearest) - len(known),
        **origin_of(stored, of_version),
        "age_seconds": round(stored.age_seconds),
    }
    return dataclasses.replace(asked, candidates=known, retrieved=origin)
