import itertools

import numpy as np
import pyarrow as pa

from tfx_gnn.transform import item_blocks
from tfx_gnn.transform.item_blocks import ItemBlock, SeenItems, by_bucket, keep_first


def hashes(*values):
    return np.array(values, np.uint64)


def block(origin, identities, contents, differing=()):
    items = {
        "x": pa.array(contents),
        "#identity": pa.array(hashes(*identities)),
        "#content": pa.array(hashes(*contents)),
        "#place": pa.array(np.arange(len(identities))),
    }
    return ItemBlock(
        origin=origin,
        items=pa.RecordBatch.from_arrays(list(items.values()), list(items)) if identities else None,
        identities=hashes(*differing),
    )


def test_the_first_of_each_identity_is_new():
    seen = SeenItems()

    rows, differing = seen.add(hashes(5, 3, 5, 9, 3), hashes(1, 1, 1, 1, 2))
    assert (rows.tolist(), differing.tolist()) == ([0, 1, 3], [3])

    rows, differing = seen.add(hashes(9, 4, 5), hashes(1, 1, 7))
    assert (rows.tolist(), differing.tolist()) == ([1], [5])

    rows, differing = seen.add(hashes(), hashes())
    assert (rows.tolist(), differing.tolist()) == ([], [])


def test_what_is_forgotten_is_new_again(monkeypatch):
    monkeypatch.setattr(item_blocks, "_MAX_REMEMBERED", 2)
    seen = SeenItems()

    seen.add(hashes(1, 2), hashes(0, 0))
    seen.add(hashes(3), hashes(0))

    assert seen.add(hashes(1, 3), hashes(0, 0))[0].tolist() == [0]


def test_the_order_of_blocks_does_not_matter():
    blocks = [
        block(("train", 0, 0), [7, 8], [70, 80]),
        block(("train", 0, 1), [7, 9], [70, 90]),
        block(("train", 1, 0), [8, 6], [81, 60]),
        block(("train", 2, 0), [], [], differing=[6]),
        ItemBlock(items=None, identities=hashes(9)),
    ]

    for order in itertools.permutations(blocks):
        kept = keep_first(order)

        assert kept.items.column(0).to_pylist() == [70, 80, 60]
        assert kept.identities.tolist() == [7, 8, 6]
        assert kept.places.tolist() == [0, 1, 1]
        assert [kept.files[owner] for owner in kept.owners] == [("train", 0), ("train", 0), ("train", 1)]
        assert (kept.num_differing, kept.differing_row) == (2, 1)


def test_nothing_is_kept_of_items_that_count_elsewhere():
    assert keep_first([ItemBlock(items=None, identities=hashes(9))]) is None
    assert keep_first([block(("a", 0, 0), [9], [1]), ItemBlock(items=None, identities=hashes(9))]).items.num_rows == 0


def test_buckets_are_the_highest_bits():
    values = hashes(1, 3 << 62, 2 << 62, (3 << 62) + 5)

    assert {key: rows.tolist() for key, rows in by_bucket(values, 4).items()} == {0: [0], 2: [2], 3: [1, 3]}
    assert {key: rows.tolist() for key, rows in by_bucket(values, 1).items()} == {0: [0, 1, 2, 3]}
    assert by_bucket(hashes(), 4) == {}
