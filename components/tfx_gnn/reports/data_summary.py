"""All that the statistics of a run say of its data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfx_gnn.reports.degree_figures import DegreeRow, IsolatedRow, degree_rows, isolated_rows
from tfx_gnn.reports.feature_figures import NOT_KEPT, FeatureFigures, SplitFigures, feature_figures
from tfx_gnn.reports.label_tables import LabelTable, label_tables
from tfx_gnn.reports.run_record import RecordedRun
from tfx_gnn.reports.statistics_files import (
    DISTANCES_FILE,
    STATISTICS_FILE,
    Distance,
    SplitDistances,
    SplitStatistics,
    read_split_distances,
    read_split_statistics,
    split_files,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFigures:
    """Statistics of the examples of a run.

    Attributes:
        splits: number of examples by split, largest first.
        features: figures by set.
        labels: distributions of labels.
        degrees: degrees by edge set, end and split.
        isolated: isolated nodes by node set and split.
    """

    splits: Mapping[str, int]
    features: Mapping[str, list[FeatureFigures]]
    labels: list[LabelTable]
    degrees: list[DegreeRow]
    isolated: list[IsolatedRow]

    @property
    def has_drift(self) -> bool:
        """Whether anything was compared with earlier data."""
        return any(name == "drift" for name, _ in self._distances())

    def notes(self) -> list[str]:
        """Returns sentences that explain the figures: what was compared and what is not kept."""
        skews = {split: one.skew for split, one in self._by_split() if one.skew is not None}
        references = [split for split in self.splits if split not in skews]
        notes = ["Missing are examples without the feature."]
        if skews and len(references) == 1:
            notes.append(f"Skew is the distance from split {references[0]}.")
        if self.has_drift:
            notes.append("Drift is the distance from the same split of earlier data.")
        else:
            notes.append("Drift was not measured, because the run had no earlier data to compare with.")
        if skews or self.has_drift:
            notes.append(
                "Distances are the Jensen-Shannon divergence (JS) of numbers and the L-infinity distance (L-inf) of "
                f"strings, in [0, 1]. Allowed are at most: {'; '.join(self._thresholds())}."
            )
        return [*notes, NOT_KEPT]

    def _thresholds(self) -> list[str]:
        return sorted({f"{name} {one.measure} {one.threshold:g}" for name, one in self._distances()})

    def _distances(self) -> list[tuple[str, Distance]]:
        """Returns all that was measured, as "skew" or "drift" and the distance."""
        measured = [
            *(("skew", one.skew) for _, one in self._by_split()),
            *(("drift", one.drift) for _, one in self._by_split()),
            *(("drift", row.drift) for row in self.degrees),
        ]
        return [(name, one) for name, one in measured if one is not None]

    def _by_split(self) -> list[tuple[str, SplitFigures]]:
        return [item for features in self.features.values() for one in features for item in one.splits.items()]

    def as_json(self) -> dict[str, Any]:
        """Returns the figures as JSON; what a run does not keep is null, or absent from a list."""
        return {**dataclasses.asdict(self), "not_kept": NOT_KEPT}


def make_data_figures(
    statistics: SplitStatistics, distances: Mapping[str, SplitDistances], sizes: Mapping[str, int]
) -> DataFigures:
    """Finds the figures of splits; `sizes` are their numbers of examples, in the order in which they are shown."""
    return DataFigures(
        splits=sizes,
        features=feature_figures(statistics, distances, sizes),
        labels=label_tables(statistics, sizes),
        degrees=degree_rows(statistics, distances, sizes),
        isolated=isolated_rows(statistics, sizes),
    )


def read_data_figures(run: RecordedRun) -> DataFigures:
    """Reads the statistics that GraphExampleValidator made in a run.

    Raises:
        FileNotFoundError: if the run has none.
        ValueError: if a file is damaged.
    """
    folders = run.folders().get("GraphExampleValidator", {})
    found = split_files(folders["statistics"], STATISTICS_FILE) if "statistics" in folders else {}
    if not found:
        raise FileNotFoundError(
            f"`RUN` must have statistics of its data; got {run.title!r}, in which GraphExampleValidator left none. "
            "Name a run whose examples were validated, as in ROOT@N."
        )
    statistics = {split: read_split_statistics(path) for split, path in found.items()}
    measured = split_files(folders["anomalies"], DISTANCES_FILE) if "anomalies" in folders else {}
    distances = {split: read_split_distances(path) for split, path in measured.items()}
    counts = {split: int(dataset.num_examples) for split, dataset in statistics.items()}
    sizes = {split: counts[split] for split in sorted(counts, key=lambda split: (-counts[split], split))}
    return make_data_figures(statistics, distances, sizes)
