"""How link predictions are measured: by mergeable sums of ranks and counts of scores.

The rank of a true pair is its position among the false pairs of its own example, by descending score. Pairs with
equal scores share their mean rank, so a model that gives all pairs the same score gains nothing from their order.
Other true pairs of the example are ignored, as in filtered ranks. Where each pair has an example of its own, a true
pair is ranked among the false pairs of the same source that follow it, as the sampler writes them.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.components.graph_evaluator.bootstrap_sample import Answers
from tfx_gnn.components.graph_evaluator.intervals import WeightedMetrics
from tfx_gnn.components.graph_evaluator.measures import (
    Array,
    ExampleSums,
    Measure,
    Quality,
    as_text,
    check_finite_output,
    feature_values,
    model_output,
)
from tfx_gnn.components.graph_evaluator.paired_bootstrap import PairedTerms
from tfx_gnn.components.graph_evaluator.ranked_pairs import RankCounts, RankedPairs
from tfx_gnn.components.graph_evaluator.score_counts import ScoreCounts
from tfx_gnn.components.graph_evaluator.weighted_metrics import ranking_metrics, weigh_ranks
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.serving import model_interface
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import seeds_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import read_table
from tfx_gnn.tables.table_layout import TableColumn

HITS_AT = (1, 3, 10)
"""Usual ranks up to which a true pair counts as a hit."""

LEFT_OUT = -1.0
"""Label of a candidate that is excluded."""

_ENDS = ("source", "target")
_IDS = (model_interface.SOURCE_ID_OUTPUT, model_interface.TARGET_ID_OUTPUT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingSums(ExampleSums):
    """Sums over examples, each with true and false pairs.

    Attributes:
        hits_at: ranks up to which a true pair counts as a hit.
        num_left_out: pairs that are neither true nor false, and are ignored.
        num_ranked: true pairs whose example also has false pairs; only these can be ranked.
        ranked: float64 array, shape [1 + number of ranks]: sums over the ranked pairs of 1 / rank, and of hits by
            `hits_at`.
        by_chance: float64 array of the same shape: the expected sums for random orders.
        scores: all pairs by score.
        ranks: the ranked pairs by rank.
    """

    hits_at: tuple[int, ...]
    num_left_out: int
    num_ranked: int
    ranked: npt.NDArray[np.float64]
    by_chance: npt.NDArray[np.float64]
    scores: ScoreCounts
    ranks: RankCounts

    @classmethod
    def of(
        cls,
        scores: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        hits_at: tuple[int, ...] = HITS_AT,
        ids: Sequence[Array] = (),
    ) -> RankingSums:
        """Ranks the pairs of examples.

        `scores` are floats [num_examples, max_pairs], finite where a pair is labelled. `labels` have the same
        shape: 1 for a true pair, 0 for a false one, NaN for padding, any other number for a pair that is
        ignored. `ids` are those of the sources and of the targets in the same shape, or none.
        """
        pairs = RankedPairs.of(scores, labels)
        ranks, num_candidates = pairs.ranks, pairs.num_candidates
        is_positive = labels == 1
        counted = is_positive | (labels == 0)
        num_examples = int(counted.any(axis=1).sum())
        return cls(
            hits_at=tuple(hits_at),
            num_examples=num_examples,
            num_without_label=len(labels) - num_examples,
            num_left_out=int(np.sum(~counted & ~np.isnan(labels))),
            num_ranked=len(ranks),
            ranked=np.array([np.sum(1.0 / ranks), *(np.sum(ranks <= k) for k in hits_at)], np.float64),
            by_chance=np.array(
                [
                    np.sum(_mean_reciprocals(num_candidates)),
                    *(np.sum(np.minimum(k / num_candidates, 1.0)) for k in hits_at),
                ],
                np.float64,
            ),
            scores=ScoreCounts.of(scores[counted], is_positive[counted]),
            ranks=RankCounts.of(pairs, ids),
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> RankingSums:
        """Restores what `to_json` wrote."""
        hits_at, num_examples, num_without_label, num_left_out, num_ranked, ranks, ranked, by_chance, *scores = plain
        return cls(
            hits_at=tuple(hits_at),
            num_examples=num_examples,
            num_without_label=num_without_label,
            num_left_out=num_left_out,
            num_ranked=num_ranked,
            ranked=np.asarray(ranked, np.float64),
            by_chance=np.asarray(by_chance, np.float64),
            scores=ScoreCounts.from_json(scores),
            ranks=RankCounts.from_json(ranks),
        )

    def to_json(self) -> list[Any]:
        """Converts the sums to lists of numbers."""
        counted = (self.num_examples, self.num_without_label, self.num_left_out, self.num_ranked)
        numbers = (list(self.hits_at), *counted)
        sums = (self.ranked.tolist(), self.by_chance.tolist())
        return [*numbers, self.ranks.to_json(), *sums, *self.scores.to_json()]

    def merged_with(self, other: RankingSums) -> RankingSums:
        """Adds the sums over other examples."""
        return RankingSums(
            hits_at=self.hits_at,
            num_examples=self.num_examples + other.num_examples,
            num_without_label=self.num_without_label + other.num_without_label,
            num_left_out=self.num_left_out + other.num_left_out,
            num_ranked=self.num_ranked + other.num_ranked,
            ranked=self.ranked + other.ranked,
            by_chance=self.by_chance + other.by_chance,
            scores=self.scores.merged_with(other.scores),
            ranks=self.ranks.merged_with(other.ranks),
        )

    def metrics(self) -> dict[str, float]:
        """Computes the metrics of `ranking_metrics` that are defined, each in [0, 1].

        Means of ranks need ranked pairs; areas need both true and false pairs.
        """
        return self._named(self.ranked, self.scores.roc_auc(), self.scores.average_precision())

    def metrics_by_chance(self) -> dict[str, float]:
        """Computes the expected metrics of random orders of the same pairs; for average precision, its limit."""
        num_positives, num_negatives = int(self.scores.positives.sum()), int(self.scores.negatives.sum())
        share = num_positives / max(num_positives + num_negatives, 1)
        return self._named(
            self.by_chance, 0.5 if num_positives and num_negatives else None, share if num_positives else None
        )

    def _named(
        self, sums: npt.NDArray[np.float64], roc_auc: float | None, average_precision: float | None
    ) -> dict[str, float]:
        means = (sums / self.num_ranked).tolist() if self.num_ranked else [None] * len(sums)
        values = zip(ranking_metrics(self.hits_at), (*means, roc_auc, average_precision), strict=True)
        return {name: value for name, value in values if value is not None}


def _mean_reciprocals(num_candidates: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Mean of 1 / rank over all ranks among `num_candidates`."""
    harmonic = np.cumsum(1.0 / np.arange(1, int(num_candidates.max(initial=0)) + 1))
    means: npt.NDArray[np.float64] = harmonic[num_candidates - 1] / num_candidates
    return means


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingMeasure(Measure):
    """True and false pairs per example, ordered by score; the baseline is a random order.

    Attributes:
        label_key: key of the labels in raw examples; 1 is a true pair, 0 a false one, other values are ignored.
        hits_at: ranks up to which a true pair counts as a hit.
        output_prefix: prefix of the names of this task's outputs.
        compares_examples: whether each pair has an example of its own.
        main_metric: one of `main_metrics`; empty: the first that is defined.
    """

    label_key: str
    hits_at: tuple[int, ...] = HITS_AT
    compares_examples: bool = False
    output_prefix: str = ""
    main_metric: str = ""

    kind: ClassVar[str] = "link_prediction"
    main_metrics: ClassVar[tuple[str, ...]] = ("mrr", "roc_auc")
    baseline_name: ClassVar[str] = "a random order"
    needs_baseline_split: ClassVar[bool] = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return ranking_metrics(self.hits_at)

    @property
    def setting(self) -> tuple[int, ...]:
        """Ranks up to which a true pair counts as a hit."""
        return self.hits_at

    def truth(self, examples: Sequence[Mapping[str, Any]], places: Sequence[str]) -> Array:
        """Reads the labels of all pairs, float64 [n, largest number of pairs], padded with NaN."""
        rows = []
        for features, place in zip(examples, places, strict=True):
            kind, values = feature_values(features, self.label_key)
            if kind == "bytes_list":
                raise ValueError(
                    f"`task` must name a label that is 1 for true pairs and 0 for false ones; got text in "
                    f"{self.label_key!r} of {place}. Name the label feature that the sampling plan creates."
                )
            rows.append(values)
        truth = np.full([len(rows), max([int(self.compares_examples), *map(len, rows)])], np.nan)
        for position, values in enumerate(rows):
            truth[position, : len(values)] = values
        return truth

    def sums(self, truth: Array, outputs: Mapping[str, Array], baseline: Any) -> RankingSums:
        """Ranks the true pairs."""
        scores, truth = self._scored(truth, outputs)
        ids = [outputs[name] for name in _IDS] if all(name in outputs for name in _IDS) else []
        sums = RankingSums.of(scores, truth, self.hits_at, ids)
        ends = self._ends_to_group_by(truth, outputs)
        if not ends:
            return sums
        scores, truth, positions = _grouped(scores, truth, ends)
        of_groups = RankingSums.of(scores, truth, self.hits_at, [of_end[:, 0][positions] for of_end in ids])
        return dataclasses.replace(of_groups, num_examples=sums.num_examples, num_without_label=sums.num_without_label)

    def answers(self, truth: Array, outputs: Mapping[str, Array]) -> Answers:
        """Takes scores, labels and ranks of pairs; an unranked pair has rank 0."""
        scores, truth = self._scored(truth, outputs)
        ends = self._ends_to_group_by(truth, outputs)
        examples = np.arange(len(truth))
        if ends:
            scores, truth, positions = _grouped(scores, truth, ends)
            examples = positions[:, 0]
        pairs = RankedPairs.of(scores, truth)
        ranks = np.zeros(truth.shape)
        ranks[pairs.rows, pairs.columns] = pairs.ranks
        counted = (truth == 1) | (truth == 0)
        values = {"score": scores[counted].astype(np.float32), "label": truth[counted], "rank": ranks[counted]}
        return Answers(examples=examples, lengths=counted.sum(axis=1), values=values)

    def weighted_metrics(self, values: Mapping[str, Array], lengths: Array) -> WeightedMetrics:
        """Computes mean ranks from weighted sums over rows, and areas from weighted counts of scores."""
        return weigh_ranks(values, lengths, self.hits_at)

    def paired_terms(
        self, truth: Array, outputs: Mapping[str, Array], baseline: Any, hashes: npt.NDArray[np.uint64]
    ) -> PairedTerms:
        """Sums up 1 / rank of each example's true pairs, and what a random order gives on average."""
        scores, truth = self._scored(truth, outputs)
        ends = self._ends_to_group_by(truth, outputs)
        if ends:
            scores, truth, positions = _grouped(scores, truth, ends)
            hashes = hashes[positions[:, 0]]
        pairs = RankedPairs.of(scores, truth)
        by_chance = _mean_reciprocals(pairs.num_candidates)
        terms = np.zeros([len(truth), 3, 1])
        for column, values in enumerate((np.ones(len(pairs.rows)), 1.0 / pairs.ranks, by_chance)):
            np.add.at(terms[:, column, 0], pairs.rows, values)
        return PairedTerms(hashes=hashes, terms=terms)

    def _scored(self, truth: Array, outputs: Mapping[str, Array]) -> tuple[Array, Array]:
        """Returns scores and labels of the same shape, checked."""
        name = self.output_prefix + model_interface.SCORES_OUTPUT
        counts = model_output(outputs, self.output_prefix + model_interface.NUM_CANDIDATES_OUTPUT)
        scores = np.asarray(model_output(outputs, name))
        is_labelled = ~np.isnan(truth)
        width = min(truth.shape[1], scores.shape[1])
        is_answered = np.arange(truth.shape[1]) < np.asarray(counts)[:, np.newaxis]
        if is_labelled[:, width:].any() or (is_labelled & ~is_answered).any():
            raise ValueError(
                f"`model_dir` must hold a model that scores every pair of an example; got fewer scores than labels in "
                f"output {name!r}. Name the label feature of the pairs that the model was trained on."
            )
        scores, truth = scores[:, :width], truth[:, :width]
        check_finite_output(scores[~np.isnan(truth)], name)
        return scores, truth

    def _ends_to_group_by(self, truth: Array, outputs: Mapping[str, Array]) -> list[Array]:
        """Returns the ids of both ends if each pair has an example of its own, else none."""
        if not self.compares_examples or not len(truth):
            return []
        return [np.asarray(outputs[name])[:, 0] for name in _IDS if name in outputs]

    def label_sums(self, truth: Array) -> RankingSums:
        """Counts labels only; the baseline learns nothing from them."""
        return RankingSums.of(np.zeros_like(truth), truth, self.hits_at)

    def sums_from_json(self, plain: Any) -> RankingSums:
        """Reads sums."""
        return RankingSums.from_json(plain)

    def quality(self, sums: RankingSums, baseline: Any, split: str) -> Quality:
        """Computes mean ranks, hits and areas under curves."""
        values, by_chance = sums.metrics(), sums.metrics_by_chance()
        counts = {"num_ranked": sums.num_ranked, "num_true_pairs": int(sums.scores.positives.sum())}
        counts["num_unranked"] = counts["num_true_pairs"] - sums.num_ranked
        counts["num_false_pairs"] = int(sums.scores.negatives.sum())
        counts["num_left_out"] = sums.num_left_out
        report = {**values, **counts, "random_baseline": by_chance, **sums.ranks.report()}
        return Quality(metrics=values, baseline=by_chance, report=report)


def _grouped(scores: Array, truth: Array, ends: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Puts examples with one pair each into rows: a true pair and those that follow it and have an end of it.

    Scores and labels have the shape [num_pairs, 1], the ids of both ends [num_pairs]; the results, padded,
    [num_groups, largest group]. The last result has the positions of the examples in this shape, padded with -1.
    """
    is_true = truth[:, 0] == 1
    last_true = np.maximum.accumulate(np.where(is_true, np.arange(len(truth)), -1))
    # Negatives keep the source of their true pair, or its target.
    keeps_an_end = np.any([of_end == of_end[last_true] for of_end in ends], axis=0) & (last_true >= 0)
    starts = is_true | ~keeps_an_end
    rows = np.cumsum(starts) - 1
    columns = np.arange(len(rows)) - np.flatnonzero(starts)[rows]
    positions = np.full([int(rows[-1]) + 1, int(columns.max()) + 1], -1)
    positions[rows, columns] = np.arange(len(rows))
    return scores[positions, 0], np.where(positions < 0, np.nan, truth[positions, 0]), positions


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownLinks:
    """A table of the true links of all splits. Each worker that needs it reads it and keeps it in memory.

    Attributes:
        path: table in one of the formats of graph tables, with columns "source" and "target".
        features: columns that distinguish links between the same nodes; the features of `_readout` in raw examples
            have the same names.
    """

    path: str
    features: tuple[str, ...] = ()

    def without_false_negatives(
        self,
        truth: npt.NDArray[Any],
        examples: Sequence[Mapping[str, Any]],
        outputs: Mapping[str, npt.NDArray[Any]],
    ) -> npt.NDArray[Any]:
        """Excludes candidates that are labelled false but known to be true.

        `truth` and the result are float64 [n, largest number of candidates]. `outputs` must include the original
        ids of both ends.
        """
        missing = [name for name in _IDS if name not in outputs]
        if missing:
            raise ValueError(
                f"`known_links` must be left out if the model returns no ids; got no outputs {missing}. Keep `#id` of "
                "node sets in `preprocessing_fn`, and train again."
            )
        sources, targets = (outputs[name] for name in _IDS)
        marked = truth.copy()
        # Labels without a score are refused later, when scores are compared with labels.
        for row, column in zip(*np.nonzero(truth[:, : sources.shape[1]] == 0), strict=True):
            ends = as_text(sources[row, column]), as_text(targets[row, column])
            if (*ends, *self._features_of(examples[row], int(column))) in self._known:
                marked[row, column] = LEFT_OUT
        return marked

    def _features_of(self, example: Mapping[str, Any], column: int) -> list[str]:
        values = []
        for name in self.features:
            key = f"nodes/{READOUT_NODE_SET}.{name}"
            _, of_candidates = feature_values(example, key)
            if column >= len(of_candidates):
                raise ValueError(
                    f"`known_link_features` must name features of {READOUT_NODE_SET!r} with a value per candidate; got "
                    f"{name!r} with {len(of_candidates)}. Name what distinguishes links between the same nodes."
                )
            values.append(as_text(of_candidates[column]))
        return values

    @functools.cached_property
    def _known(self) -> frozenset[tuple[str, ...]]:
        folder, file = os.path.split(self.path)
        names = (*_ENDS, *self.features)
        columns = {name: TableColumn(name=name, dtype=pa.large_string()) for name in names}
        table = read_table(
            seeds_layout(folder, file, columns, access=TableAccess(allow_outside_files=True)), RowRules()
        )
        return frozenset(zip(*(table.columns[name].to_pylist() for name in names), strict=True))
