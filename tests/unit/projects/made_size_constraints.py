"""Padding budgets by hand, as SizeConstraintLearner might have learned them."""

from __future__ import annotations

import numpy as np

from tfx_gnn.records.size_constraints_file import (
    FIT_OR_SKIP,
    PACKING,
    TIGHT,
    Budget,
    SetSizes,
    SizeConstraintsFile,
    SliceLoss,
    SplitSizes,
)

SIZES = [0, 1, 1, 2, 3, 5, 8, 13, 21, 2000]
"""Of the graphs of a split: 56 items in nine of them, and 2,000 in one."""


def made_sizes(sizes=SIZES):
    """Describes sizes that are given one by one."""
    bounds = [0, 1]
    while bounds[-1] <= max(sizes):
        bounds.append(2 * bounds[-1])
    counts, _ = np.histogram(sizes, np.array(bounds) - 0.5)
    levels = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    return SetSizes(
        total=sum(sizes),
        mean=sum(sizes) / len(sizes),
        minimum=min(sizes),
        maximum=max(sizes),
        quantiles={name: float(np.quantile(sizes, level, method="inverted_cdf")) for name, level in levels.items()},
        histogram_bounds=tuple(bounds),
        histogram_counts=tuple(counts.tolist()),
    )


def made_content(
    *,
    node_sets=("package", "_readout"),
    edge_sets=("depends",),
    splits=("train", "val"),
    losses=(),
    warnings=(),
    **options,
):
    """Makes budgets of each kind for batches of 2 and of 4 graphs; the losses are those of fit-or-skip for 2."""
    sizes = {"package": SIZES, "_readout": [1] * len(SIZES), "depends": [min(size, 40) for size in SIZES]}
    budgets = [
        Budget(
            kind=kind,
            batch_size=batch_size,
            total_num_components=batch_size + 1,
            total_num_nodes=dict.fromkeys(node_sets, 100 * batch_size),
            total_num_edges=dict.fromkeys(edge_sets, 50 * batch_size),
            min_nodes_per_component={"_readout": 1} if "_readout" in node_sets else {},
            success_ratio=0.99 if kind == FIT_OR_SKIP else 1.0,
            achieved_success_ratio=achieved,
            window=128 if kind == PACKING else 0,
            graphs_per_batch=batch_size * 1.25 if kind == PACKING else batch_size,
            fill=fill,
            fill_by_set={
                **{f"nodes/{name}": fill for name in node_sets},
                **{f"edges/{name}": fill / 2 for name in edge_sets},
            },
            bytes_per_batch=1024 * batch_size,
            losses=tuple(losses) if kind == FIT_OR_SKIP and batch_size == 2 else (),
        )
        for batch_size in (4, 2)
        for kind, fill, achieved in ((TIGHT, 0.125, 1.0), (FIT_OR_SKIP, 0.5, 0.986), (PACKING, 0.97, 1.0))
    ]
    made = {name: made_sizes(sizes.get(name, SIZES)) for name in (*node_sets, *edge_sets)}
    return SizeConstraintsFile(
        data_fingerprint="3f" * 32,
        graph_schema_fingerprint="a9" * 32,
        options={
            "batch_size": 2,
            "extra_batch_sizes": [4],
            "success_ratios": [0.99],
            "splits": [],
            "train_split": splits[0],
            "window": 128,
            "label_feature": "section",
            "class_vocabulary": "",
            "warn_slice_loss": 0.05,
            "max_slice_loss": 0.5,
            "seed": 0,
            **options,
        },
        splits={
            split: SplitSizes(
                num_graphs=len(SIZES),
                node_sets={name: made[name] for name in node_sets},
                edge_sets={name: made[name] for name in edge_sets},
            )
            for split in splits
        },
        budgets={budget.name: budget for budget in budgets},
        warnings=tuple(warnings),
    )


def lost(value, share, *, slicing="label", num_graphs=100):
    """Makes what one slice loses."""
    return SliceLoss(slicing=slicing, value=value, num_graphs=num_graphs, lost_share=share)
