"""The project.yaml of a proposal, with comments for its reader."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

import yaml

from tfx_gnn.prediction_tasks import SeedTableDescription
from tfx_gnn.sampling.plan.hop import ROOT_SOURCE, ROOT_TARGET, SEED, Hop
from tfx_gnn_pipelines.proposals.graph_proposal import GraphProposal
from tfx_gnn_pipelines.proposals.labels import Label, is_rare
from tfx_gnn_pipelines.proposals.preparations import Preparation
from tfx_gnn_pipelines.proposals.proposal import Proposal
from tfx_gnn_pipelines.proposals.task_proposal import TaskProposal

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_/]*")
_WIDTH = 110
_NOT_TEXTS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


_HEAD_LINES = (
    "# yaml-language-server: $schema=.project.schema.json",
    "# Proposed from the tables, for you to change. `tfx-gnn check` says in seconds whether everything fits,",
    "# `tfx-gnn run` makes the model, and `tfx-gnn options` lists what else can be set here. Paths are",
    "# relative to this file.",
    "",
)


def project_text(proposal: Proposal, *, name: str, tables_dir: str) -> str:
    """Writes a proposal as a project file.

    Args:
        proposal: the proposal.
        name: name of the project.
        tables_dir: folder of the tables, relative to the project's.

    Returns:
        The text of project.yaml.
    """
    return "\n".join(
        [
            *_HEAD_LINES,
            f"name: {name}",
            f"description: {_text(f'{proposal.label.feature} of {proposal.label.node_set}')}",
            "",
            *_question_lines(proposal.questions),
            "# Folder of the tables and of graph_schema.pbtxt, which declares their columns.",
            f"tables_dir: {_text(tables_dir)}",
            "",
            *_plan_lines(proposal),
            "",
            *_feature_lines(proposal.features),
            "",
            *_prediction_lines(proposal.label),
            "",
            *_training_lines(num_epochs=20, patience=5),
            *_network_lines(has_times=proposal.temporal is not None),
            *_metric_lines(proposal.label.rare_share),
            *_rule_lines(proposal.num_dangling),
            "",
        ]
    )


def task_project_text(proposal: TaskProposal, *, name: str, tables_dir: str) -> str:
    """Writes a proposal for a prediction task as a project file.

    Args:
        proposal: the proposal.
        name: name of the project.
        tables_dir: folder of the tables, relative to the project's.

    Returns:
        The text of project.yaml.
    """
    task = yaml.safe_dump({"task": proposal.task_fields()}, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return "\n".join(
        [
            *_HEAD_LINES,
            f"name: {name}",
            "",
            *_question_lines(proposal.questions),
            "# Folder of the tables and of graph_schema.pbtxt, which declares their columns.",
            f"tables_dir: {_text(tables_dir)}",
            "",
            "# Seeds with their times, labels and splits: `tfx-gnn task` shows how many, `--explain` the SQL.",
            task.rstrip(),
            "",
            "plan:",
            *_leak_lines(proposal, proposal.task.for_each),
            *_hop_lines(proposal.hops),
            "",
            *_feature_lines(proposal.features),
            "",
            *_lines_of_learning(proposal.seeds.description),
            *_metric_lines(proposal.rare_share),
            *_rule_lines(proposal.num_dangling),
            "",
        ]
    )


def _question_lines(questions: Sequence[str]) -> Iterator[str]:
    """Keeps in the file what nobody may have answered on the screen."""
    if not questions:
        return
    yield "# Open questions, of which `tfx-gnn new` tells how to answer them:"
    for question in questions:
        yield from textwrap.wrap(
            question, _WIDTH, initial_indent="# - ", subsequent_indent="#   ", break_long_words=False
        )
    yield ""


def _plan_lines(proposal: Proposal) -> Iterator[str]:
    label, splits = proposal.label, proposal.splits
    yield "plan:"
    yield f"  # Every one of {_text(label.node_set)} is the seed of one subgraph, which is one example."
    yield f"  seed_node_set: {_text(label.node_set)}"
    yield "  # Kept out of the subgraphs, so that neighbors cannot reveal it."
    yield f"  label_features: [{_text(label.feature)}]"
    yield from _leak_lines(proposal, label.node_set)
    if splits.column:
        unused = f", unused_values: [{', '.join(map(_text, splits.unused_values))}]" if splits.unused_values else ""
        yield "  # The column says what each row is for: train, val or test."
        yield f"  splits: {{column: {_text(splits.column)}{unused}}}"
    elif splits.rule == "time":
        until = ", ".join(f"{split}: {'null' if bound is None else bound}" for split, bound in splits.until.items())
        yield "  # Seeds before each bound, in seconds since 1970; the last split has the newest."
        yield f"  splits: {{time_feature: {_text(splits.time_feature)}, until: {{{until}}}}}"
    else:
        weights = ", ".join(f"{split}: {weight}" for split, weight in splits.weights.items())
        yield "  # By a hash of the id. A column of train, val and test can decide instead: {column: split}."
        yield f"  splits: {{weights: {{{weights}}}}}"
    if proposal.temporal is not None:
        times = ", ".join(f"{_text(name)}: {_text(time)}" for name, time in proposal.temporal.edge_times.items())
        yield "  # A seed does not see edges that are newer than it is."
        seed_time = _text(proposal.temporal.seed_time)
        yield f"  temporal: {{seed_time: {seed_time}, edge_times: {{{times}}}, inclusive: true}}"
    yield from _hop_lines(proposal.hops)


def _leak_lines(proposal: GraphProposal, node_set: str) -> Iterator[str]:
    # What is not reached need not be left out.
    used = {node_set} | {end for hop in proposal.hops for end in (hop.edge_set, *_ends(proposal, hop))}
    leaks: dict[str, list[str]] = {}
    for leak in proposal.leaks:
        name = leak.place.partition("/")[2]
        if leak.feature and name in used:
            leaks.setdefault(name, []).append(_text(leak.feature))
    if leaks:
        yield "  # Each alone tells the label of nearly every row: probably it is known only afterwards."
        of_sets = ", ".join(f"{_text(name)}: [{', '.join(of_set)}]" for name, of_set in leaks.items())
        yield f"  excluded_features: {{{of_sets}}}"


def _hop_lines(hops: Sequence[Hop]) -> Iterator[str]:
    if not hops:
        yield "  # No edges lead to or from these nodes, so a subgraph is the seed alone."
        yield "  hops: []"
        return
    yield "  # Steps outward, against the edges where backward. For each node, at most `fan_out` edges are sampled."
    yield "  hops:"
    previous: tuple[str, ...] = ()
    for hop in hops:
        if hop.inputs != previous:
            is_root = len(hop.inputs) == 1 and hop.inputs[0] in (SEED, ROOT_SOURCE, ROOT_TARGET)
            start = f"the {hop.inputs[0]}" if is_root else f"what {_listed(hop.inputs)} found"
            yield f"    # From {start}:"
        previous = hop.inputs
        yield f"    - {_hop_text(hop)}"


def _ends(proposal: GraphProposal, hop: Hop) -> tuple[str, str]:
    edge_set = proposal.schema.edge_sets[hop.edge_set]
    return edge_set.source, edge_set.target


def _hop_text(hop: Hop) -> str:
    fields = [f"edge_set: {_text(hop.edge_set)}", f"fan_out: {hop.fan_out}"]
    if hop.weight_feature:
        fields.append(f"strategy: {hop.strategy}, weight_feature: {_text(hop.weight_feature)}")
    if hop.direction != "forward":
        fields.append(f"direction: {hop.direction}")
    if hop.inputs != (SEED,):
        fields.append(f"inputs: [{', '.join(map(_text, hop.inputs))}]")
    return f"{{{', '.join(fields)}, name: {_text(hop.name)}}}"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _feature_lines(features: Mapping[str, Mapping[str, Preparation]]) -> Iterator[str]:
    yield "# How columns become features: z_score, min_max, log1p_z_score, number, age, bucketize, vocabulary, hash,"
    yield "# text, keep or drop."
    if not features:
        yield "features: {}"
        return
    yield "features:"
    for prefix, of_set in features.items():
        yield f"  {_text(prefix)}:"
        for column, preparation in of_set.items():
            reason = f"  # {preparation.reason}" if preparation.reason else ""
            yield f"    {_text(column)}: {_preparation_text(preparation)}{reason}"


def _preparation_text(preparation: Preparation) -> str:
    if not preparation.options:
        return preparation.kind
    fields = {"kind": preparation.kind, **preparation.options}
    texts = {name: _text(value) if isinstance(value, str) else value for name, value in fields.items()}
    return f"{{{', '.join(f'{name}: {value}' for name, value in texts.items())}}}"


def _prediction_lines(label: Label) -> Iterator[str]:
    other = "node_regression" if label.kind == "node_classification" else "node_classification"
    yield f"# {label.kind}, because the label has {label.reason}; the other kind is {other}."
    yield "prediction:"
    yield f"  kind: {label.kind}"
    yield f"  label_feature: {_text(label.feature)}"
    if label.kind == "node_classification" and not _PLAIN.fullmatch(label.feature):
        # TensorFlow names operations after the vocabulary, in ASCII.
        yield "  class_vocabulary: classes"
    if label.kind == "node_regression":
        if label.num_outputs > 1:
            yield f"  num_outputs: {label.num_outputs}"
        yield "  standardize: true"


def _lines_of_learning(seeds: SeedTableDescription) -> Iterator[str]:
    if seeds.recommended is None:
        yield from _training_lines(num_epochs=20, patience=5)
        yield from _network_lines(has_times=bool(seeds.time))
        return
    yield from _training_lines(num_epochs=40, patience=15)
    yield "# What is learned of each node by itself comes slowly, and the order of pairs improves before the loss does."
    yield "# Residual and joined states made the first scores too large to learn from."
    yield "graph_trainer: {hyperparameters: {reduce_type: mean, dropout_rate: 0.1}}"


def _training_lines(*, num_epochs: int, patience: int) -> Iterator[str]:
    yield "# A ready network; others are in tfx_gnn.models.model_fns."
    yield "model_fn: tfx_gnn.models.model_fns:mpnn"
    yield f"num_epochs: {num_epochs}"
    yield "batch_size: 32"
    yield "# Training stops after this many epochs without a lower validation loss; the best epoch is exported."
    yield f"early_stopping_patience: {patience}"


def _network_lines(*, has_times: bool) -> Iterator[str]:
    if not has_times:
        return
    yield "# Rows tell much by themselves, so the output reads their own states beside those with their neighbors; and"
    yield "# neighbors of one day are alike, which models of few days learn by heart without more dropout. Large steps"
    yield "# that become small find what single columns tell."
    yield "graph_trainer:"
    yield "  hyperparameters: {reduce_type: mean, residual: true, jumping_knowledge: concat, dropout_rate: 0.3}"
    yield "  optimization: {learning_rate: 0.003, schedule: cosine}"


def _metric_lines(rare_share: float | None) -> Iterator[str]:
    if not is_rare(rare_share):
        return
    yield f"# The rarer class has {rare_share:.1%} of the rows, so the other is the likelier answer nearly always: what"
    yield "# decides is whether the model orders rows better than chance."
    yield "graph_evaluator: {main_metric: roc_auc}"


def _rule_lines(num_dangling: Mapping[str, int]) -> Iterator[str]:
    if num_dangling:
        yield ""
        yield "# Rows that name a node that no node table has are left out, and listed beside the examples:"
        for edge_set, number in num_dangling.items():
            yield f"# {number:,} of {edge_set}."
        yield "subgraph_example_gen:"
        yield "  rules: {dangling_edges: drop}"


def _text(text: str) -> str:
    """Writes a text in YAML, in quotes where it would not be read as one."""
    is_plain = _PLAIN.fullmatch(text) and text.casefold() not in _NOT_TEXTS
    return text if is_plain else json.dumps(text, ensure_ascii=False)
