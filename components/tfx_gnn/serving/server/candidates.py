"""The best of some candidate links of a node: `POST /v1/models/<name>:rank`.

    {"source": "u1", "candidates": ["i3", "i8", "i9"], "k": 2}

is answered by

    {"source": "u1", "best": [{"target": "i8", "score": 2.25}, {"target": "i3", "score": -0.5}]}

Each candidate is asked as the pair of `source` and itself is, so the scores are the same. Without candidates, those
with the nearest stored embeddings are ranked: see `tfx_gnn.serving.server.retrieval`. Where a model is asked as of a
time, "context" says which: see `tfx_gnn.serving.server.seed_context`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfx_gnn.serving import model_interface
from tfx_gnn.serving.server.ids_input import Item, SeedInput
from tfx_gnn.serving.server.inference import check_num_examples
from tfx_gnn.serving.server.json_values import plain_rows, read_object, write_json
from tfx_gnn.serving.server.refusals import malformed, shown
from tfx_gnn.serving.server.seed_context import CONTEXT_PART
from tfx_gnn.serving.server.served_version import Outputs, ServedVersion

_FIELDS = ("source", CONTEXT_PART, "candidates", "retrieve", "k", "task")
_NUM_RETRIEVED, _NUM_BEST = 100, 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankRequest:
    """A parsed request.

    Attributes:
        source: id of the node.
        candidates: ids of nodes at the other end; None if they are to be retrieved.
        num_best: how many are wanted.
        task: name of the task in a model of several; else empty.
        num_retrieved: how many candidates are to be retrieved.
        retrieved: what the answer says of candidates that were retrieved; None if the request lists them.
        context: what else the examples hold of each pair, such as as of when is asked; not checked yet.
    """

    source: Any
    candidates: list[Any] | None
    num_best: int
    task: str
    num_retrieved: int = 0
    retrieved: Mapping[str, Any] | None = None
    context: Any = dataclasses.field(default_factory=dict)
    signature_name: str = ""

    def items(self, version: ServedVersion, max_examples: int) -> list[Item]:
        """Reads the pairs; refuses models that do not score pairs of ids."""
        assert self.candidates is not None
        check_num_examples(len(self.candidates), max_examples)
        seeds, are_known = check_ranks(version, self.task), self.retrieved is not None
        return list(seeds.read_candidates(self.source, self.candidates, self.context, are_known=are_known))

    def response(self, outputs: Outputs, model_name: str, version: int) -> tuple[bytes, dict[str, str]]:
        """Writes the best candidates, and among equal ones the earlier."""
        assert self.candidates is not None
        scores = outputs[_scores_of(self.task)][:, 0]
        best = np.argsort(-scores, kind="stable")[: self.num_best]
        rows = zip(best.tolist(), plain_rows(scores[best]), strict=True)
        found = [{"target": self.candidates[number], "score": score} for number, score in rows]
        if model_interface.UNSEEN_TARGET_ID_OUTPUT in outputs:
            unseen = outputs[model_interface.UNSEEN_TARGET_ID_OUTPUT][best, 0].tolist()
            found = [
                {**one, model_interface.UNSEEN_TARGET_ID_OUTPUT: of_one}
                for one, of_one in zip(found, unseen, strict=True)
            ]
        content: dict[str, Any] = {"source": self.source, "best": found}
        if model_interface.UNSEEN_SOURCE_ID_OUTPUT in outputs:
            content[model_interface.UNSEEN_SOURCE_ID_OUTPUT] = bool(
                outputs[model_interface.UNSEEN_SOURCE_ID_OUTPUT][0, 0]
            )
        if self.retrieved is not None:
            content["retrieved"] = self.retrieved
        return write_json(content), {"content-type": "application/json"}


def _scores_of(task: str) -> str:
    """Names the output with the scores."""
    return f"{task}/{model_interface.SCORES_OUTPUT}" if task else model_interface.SCORES_OUTPUT


def check_ranks(version: ServedVersion, task: str) -> SeedInput:
    """Returns what samples pairs for a version; refuses models that do not score pairs of ids."""
    name = _scores_of(task)
    if version.seeds is None or not version.seeds.are_pairs or name not in version.signature("").output_specs:
        raise malformed(
            f"The model must predict links, with the output {name!r}, on a server with a graph index; got version "
            f"{version.version} with the outputs {sorted(version.signature('').output_specs)}. Ask for predictions."
        )
    return version.seeds


def read_rank_request(body: bytes, max_examples: int) -> RankRequest:
    """Reads the body of `:rank`.

    Raises:
        Refusal: if it does not have the form.
    """
    content = read_object(body)
    if "source" not in content or not set(content) <= set(_FIELDS) or {"candidates", "retrieve"} <= set(content):
        raise malformed(
            "The body must have 'source', and may have 'candidates' or 'retrieve', 'context', 'k' and 'task'; got "
            f'{sorted(content)[:10]}. Write {{"source": ..., "candidates": [...]}}.'
        )
    candidates, task = content.get("candidates"), content.get("task", "")
    if "candidates" in content and not isinstance(candidates, list):
        raise malformed(f"`candidates` must be a list of ids; got {shown(candidates)}. Make it a list.")
    if candidates == []:
        raise malformed("`candidates` must have at least one id; got none. List those to choose from.")
    num_retrieved = content.get("retrieve", min(_NUM_RETRIEVED, max_examples))
    if type(num_retrieved) is not int or not 1 <= num_retrieved <= max_examples:
        raise malformed(
            f"`retrieve` must be an integer in [1, {max_examples}]; got {shown(num_retrieved)}. Say how many stored "
            "embeddings are ranked."
        )
    num_best = content.get("k", _NUM_BEST if candidates is None else max(len(candidates), 1))
    if type(num_best) is not int or num_best < 1:
        raise malformed(f"`k` must be a positive integer; got {shown(num_best)}. Say how many are wanted.")
    if not isinstance(task, str):
        raise malformed(f"`task` must be a text; got {shown(task)}. Name a task, in a model of several.")
    return RankRequest(
        source=content["source"],
        candidates=candidates,
        num_best=num_best,
        task=task,
        num_retrieved=num_retrieved,
        context=content.get(CONTEXT_PART, {}),
    )
