import hashlib

import pyarrow as pa
import pytest

from tfx_gnn.sampling.seed_splits import check_split_weights, split_seeds_by_column, split_seeds_by_hash
from tfx_gnn.tables.graph_tables import NodeTable


def _table(ids, **columns):
    extra = {name: pa.array(values, pa.large_string()) for name, values in columns.items()}
    return NodeTable(path="users.csv", ids=ids, features={}, extra_columns=extra)


def test_a_column_names_the_split_of_each_seed():
    table = _table(pa.array(["a", "b", "c", "d"], pa.large_string()), part=["val", "train", "val", "2024-01"])

    splits = split_seeds_by_column(table, "part")

    assert {name: rows.tolist() for name, rows in splits.items()} == {"2024-01": [3], "train": [1], "val": [0, 2]}
    assert list(splits) == ["2024-01", "train", "val"]


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "two words"])
def test_a_split_that_cannot_be_a_folder_is_refused(name):
    table = _table(pa.array([5, 6]), part=["train", name])

    with pytest.raises(ValueError, match=r"`part` must name splits .* in the record with id 6 of users.csv"):
        split_seeds_by_column(table, "part")


def test_a_hash_of_the_id_decides_by_the_weights():
    ids = [f"node-{i}" for i in range(1000)]
    table = _table(pa.array(ids, pa.large_string()))

    splits = split_seeds_by_hash(table, {"train": 8, "val": 1, "test": 1})

    def split_of(node_id):
        bucket = int(hashlib.sha256(node_id.encode()).hexdigest()[:8], 16) % 10
        return "train" if bucket < 8 else "val" if bucket == 8 else "test"

    expected = {
        name: [row for row, node_id in enumerate(ids) if split_of(node_id) == name] for name in ("train", "val", "test")
    }
    assert {name: rows.tolist() for name, rows in splits.items()} == expected
    assert [len(rows) for rows in expected.values()] == pytest.approx([800, 100, 100], abs=30)


def test_integer_ids_are_hashed_as_they_are_written_and_empty_splits_left_out():
    table = _table(pa.array([1]))

    splits = split_seeds_by_hash(table, {"train": 1, "val": 1})

    assert sum(len(rows) for rows in splits.values()) == 1
    assert len(splits) == 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "`split_weights` must name at least one split; got none"),
        ({"a/b": 1}, "`split_weights` must name splits by letters, digits and '_.-'; got 'a/b'"),
        ({"train": 0}, "`split_weights` must be positive integers; got 0 for 'train'"),
        ({"train": 0.8}, "`split_weights` must be positive integers; got 0.8 for 'train'"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        check_split_weights(weights)
