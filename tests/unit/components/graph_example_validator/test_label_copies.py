import numpy as np
import pytest

from tfx_gnn.components.graph_example_validator.label_copies import (
    LABEL_COPIED,
    LABEL_DETERMINED,
    LABEL_ROW,
    LabelColumn,
    count_label_rows,
    find_label_copies,
    merge_label_counts,
    reduce_label_rows,
)

LABELS = np.arange(60) % 3 + 100
KEY = "context/y"
COLUMNS = [LabelColumn(label=KEY, key=KEY), LabelColumn(label=KEY, key="nodes/a.x", root="seed")]


def rows_of(values, labels, column):
    rows = np.ones(len(values), LABEL_ROW)
    rows["column"], rows["value"], rows["label"] = column, values, labels
    return rows


def copies_of(values, labels=LABELS):
    rows = np.concatenate([rows_of(labels, labels, 0), rows_of(values, labels, 1)])
    return find_label_copies(COLUMNS, count_label_rows(reduce_label_rows(rows), 2))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(LABELS, [LABEL_COPIED], id="equal"),
        pytest.param(LABELS * 7, [LABEL_COPIED], id="renamed"),
        pytest.param(LABELS * 7 + np.arange(60) % 2, [LABEL_DETERMINED], id="finer-than-the-label"),
        pytest.param(
            np.where(np.arange(60) == 31, 5, LABELS * 7), [LABEL_DETERMINED], id="renamed-but-for-a-rare-value"
        ),
        pytest.param(np.where(np.arange(60) == 31, 700, LABELS * 7), [], id="one-exception"),
        pytest.param(np.arange(60), [], id="all-different"),
        pytest.param(np.arange(60) // 2 * 2 + LABELS * 1000, [], id="hardly-repeated"),
        pytest.param(np.zeros(60), [], id="constant"),
        pytest.param(np.arange(60) % 2, [], id="unrelated"),
    ],
)
def test_features_are_judged_by_how_they_go_with_the_label(values, expected):
    assert [copy.check for copy in copies_of(values)] == expected


def test_few_seeds_prove_nothing_but_equality():
    few = LABELS[:9]

    assert copies_of(few * 7, few) == []
    assert [copy.check for copy in copies_of(few, few)] == [LABEL_COPIED]
    assert copies_of(few[:6], few[:6]) == []


def test_one_label_cannot_be_copied():
    assert copies_of(np.full(60, 7), np.full(60, 7)) == []


def test_agreement_with_a_frequent_label_proves_less():
    # One seed in sixty has the other label: fifty-eight repetitions of a value would agree anyway.
    labels = np.where(np.arange(60) == 0, 1, 0)

    assert copies_of(labels + 5, labels) == []


def test_a_part_is_not_told_beside_its_whole():
    columns = [*COLUMNS, LabelColumn(label=KEY, key="nodes/a.x", root="seed", part=0)]
    rows = np.concatenate([rows_of(LABELS, LABELS, 0), rows_of(LABELS * 7, LABELS, 1), rows_of(LABELS * 9, LABELS, 2)])
    counts = count_label_rows(reduce_label_rows(rows), 3)

    (whole,) = find_label_copies(columns, counts)
    counts[1].num_mixed = 1
    (part,) = find_label_copies(columns, counts)

    assert (whole.about, whole.num_seeds) == ("nodes/a.x", 60)
    assert (
        whole.detail
        == "one value for each label 'context/y' and one label for each value: 3 values, 3 labels, 60 seeds"
    )
    assert part.about == "nodes/a.x[0]"


def test_counts_of_buckets_add_up():
    rows = np.concatenate([rows_of(LABELS, LABELS, 0), rows_of(np.arange(60) % 4, LABELS, 1)])
    whole = count_label_rows(reduce_label_rows(rows), 2)

    parts = [count_label_rows(reduce_label_rows(rows[rows["value"] % 2 == rest]), 2) for rest in (0, 1)]

    assert merge_label_counts([[], *parts]) == merge_label_counts(reversed(parts)) == whole
