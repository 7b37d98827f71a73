"""Link examples: each is about a pair of a user and an item, and holds other purchases.

Split i is about the pairs (u<i>, i<i>) and (u<i>, i<i+1>); each user has also bought "old", an item of no pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions
from tfx_gnn.components.graph_example_validator.stage import validate_graph_examples
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.records.value_hashes import RowCollector, first_of_equal, fold_rows, group_equal, num_buckets_for

SCHEMA = """
node_sets { key: "user" value { features { key: "#id" value { dtype: DT_INT64 } } } }
node_sets { key: "item" value { features { key: "#id" value { dtype: DT_STRING } } } }
node_sets { key: "_readout" value { features { key: "label" value { dtype: DT_INT64 } } } }
edge_sets { key: "buys" value { source: "user" target: "item" } }
edge_sets { key: "bought_by" value { source: "item" target: "user" } }
edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
"""
SPLITS = ("train", "val", "test")
PROMISES: dict[str, Any] = {
    "seed_edge_set": "buys",
    "reverse_edge_sets": ("bought_by",),
    "pair_label_feature": "label",
    "max_jensen_shannon_skew": 1.0,
    "max_l_infinity_skew": 1.0,
}


def example(user: int, item: str, buys: list[tuple[int, str]] = (), reverse: list[tuple[int, str]] = ()):
    """A pair, with a negative one (user, "never"), and purchases: (user, "old") and others, forward or backward."""
    users = sorted({user, *(one for one, _ in (*buys, *reverse))})
    items = sorted({item, "old", "never", *(one for _, one in (*buys, *reverse))})
    forward = [(user, "old"), *buys]
    return {
        "nodes/user.#size": [len(users)],
        "nodes/user.#id": users,
        "nodes/item.#size": [len(items)],
        "nodes/item.#id": items,
        "nodes/_readout.#size": [2],
        "nodes/_readout.label": [1, 0],
        "edges/buys.#size": [len(forward)],
        "edges/buys.#source": [users.index(one) for one, _ in forward],
        "edges/buys.#target": [items.index(one) for _, one in forward],
        "edges/bought_by.#size": [1 + len(reverse)],
        "edges/bought_by.#source": [items.index("old"), *(items.index(one) for _, one in reverse)],
        "edges/bought_by.#target": [users.index(user), *(users.index(one) for one, _ in reverse)],
        "edges/_readout/source.#size": [2],
        "edges/_readout/source.#source": [users.index(user)] * 2,
        "edges/_readout/source.#target": [0, 1],
        "edges/_readout/target.#size": [2],
        "edges/_readout/target.#source": [items.index(item), items.index("never")],
        "edges/_readout/target.#target": [0, 1],
    }


def splits():
    # Later splits see the pairs of earlier ones.
    seen: list[tuple[int, str]] = []
    data = {}
    for number, split in enumerate(SPLITS):
        pairs = [(number, f"i{number}"), (number, f"i{number + 1}")]
        data[split] = [[example(user, item, list(seen), list(seen)) for user, item in pairs]]
        seen += pairs
    return data


@pytest.fixture
def validate(tmp_path, write_examples):
    def run(plant=None, schema=SCHEMA, **options):
        data = splits()
        if plant is not None:
            plant(data)
        examples_dir = write_examples(str(tmp_path / "examples"), data, schema)
        validation = validate_graph_examples(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            statistics_dir=str(tmp_path / "statistics"),
            anomalies_dir=str(tmp_path / "anomalies"),
            blessing_dir=str(tmp_path / "blessing"),
            options=GraphExampleValidatorOptions(**{**PROMISES, **options}),
        )
        return [(a.check, a.split, a.about, a.num_examples, *a.places[:1]) for a in validation.anomalies]

    return run


FILE = "graphs-00000-of-00001.gz"


def test_pairs_that_are_hidden_from_their_own_and_from_earlier_splits_pass(validate):
    assert validate() == []


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        (
            ("train", 0, example(0, "i0", buys=[(0, "i0")])),
            ("supervision_edge_in_example", "train", "edges/buys", 1, "record 0 of {}: its pair is an edge of 'buys'"),
        ),
        (
            ("val", 1, example(1, "i2", reverse=[(1, "i2")])),
            (
                "supervision_edge_in_example",
                "val",
                "edges/bought_by",
                1,
                "record 1 of {}: its pair is an edge of 'bought_by', the other way round",
            ),
        ),
        (
            ("train", 1, example(0, "i1", buys=[(1, "i2")])),
            (
                "supervision_edge_shown",
                "train",
                "edges/buys of split 'val'",
                1,
                "record 1 of {}: contains the seed of record 1 of {} (split 'val')",
            ),
        ),
        (
            ("val", 0, example(1, "i1", reverse=[(2, "i3")])),
            (
                "supervision_edge_shown",
                "val",
                "edges/buys of split 'test'",
                1,
                "record 0 of {}: contains the seed of record 1 of {} (split 'test')",
            ),
        ),
        (
            ("val", 0, example(0, "i1")),
            (
                "seed_in_two_splits",
                "train",
                "seeds of split 'val'",
                1,
                "record 1 of {}: contains the seed of record 0 of {} (split 'val')",
            ),
        ),
    ],
    ids=["in-its-example", "reverse-in-its-example", "in-train", "reverse-in-val", "same-pair"],
)
def test_pairs_that_show_are_found(validate, planted, expected):
    split, number, content = planted

    found = validate(lambda data: data[split][0].__setitem__(number, content))

    *rest, place = expected
    assert found == [(*rest, place.replace("{}", FILE))]


def test_nothing_is_promised_about_negative_pairs(validate):
    def plant(data):
        data["train"][0][0] = example(0, "i0", buys=[(0, "never")])

    assert validate(plant) == []


def test_without_their_label_negative_pairs_are_pairs_like_others(validate):
    def plant(data):
        data["train"][0][0] = example(0, "i0", buys=[(0, "never")])

    found = validate(plant, pair_label_feature="")

    assert [item[:4] for item in found] == [("supervision_edge_in_example", "train", "edges/buys", 1)]


def test_reverses_alone_give_pairs_away_too(validate):
    def plant(data):
        data["val"][0][1] = example(1, "i2", reverse=[(1, "i2")])
        data["train"][0][1] = example(0, "i1", reverse=[(2, "i3")])

    found = validate(plant, seed_edge_set="")

    assert [item[:3] for item in found] == [
        ("supervision_edge_shown", "train", "edges/bought_by of split 'test'"),
        ("supervision_edge_in_example", "val", "edges/bought_by"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed_edge_set": "bought_by"}, r"`seed_edge_set` must join the node sets of the pairs, \('user', 'item'\)"),
        ({"reverse_edge_sets": ("buys",)}, r"`reverse_edge_sets` must join .* got 'buys' from 'user' to 'item'"),
        ({"inductive": True}, "`inductive` must be False unless each example has a seed node"),
    ],
)
def test_promises_that_do_not_fit_pairs_are_refused(validate, options, message):
    with pytest.raises(ValueError, match=message):
        validate(**options)


SHADOW_SCHEMA = SCHEMA.replace(
    'edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }\n'
    'edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }\n',
    'node_sets { key: "_shadow/buys" value {} }\n'
    'edge_sets { key: "_readout/seed" value { source: "_shadow/buys" target: "_readout" } }\n',
)


def example_of_edge(user: int, item: str, label: int = 1):
    """Edge classification: the readout reads from a shadow of the edges, of which the second is the seed."""
    content = {key: value for key, value in example(user, item, buys=[(user, item)]).items() if "_readout" not in key}
    return {
        **content,
        "nodes/_readout.#size": [1],
        "nodes/_readout.label": [label],
        "nodes/_shadow/buys.#size": [2],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [1],
        "edges/_readout/seed.#target": [0],
    }


NO_PAIRS: dict[str, Any] = {"seed_edge_set": "", "reverse_edge_sets": (), "pair_label_feature": ""}


def test_a_seed_edge_in_its_example_is_known_by_its_ends(validate):
    def plant(data):
        for number, split in enumerate(SPLITS):
            data[split] = [[example_of_edge(number, "x"), example_of_edge(number, "y")]]
        data["test"][0][1] = data["val"][0][0]

    found = validate(plant, SHADOW_SCHEMA, **NO_PAIRS)

    place = f"record 0 of {FILE}: contains the seed of record 1 of {FILE} (split 'test')"
    assert found == [("seed_in_two_splits", "val", "seeds of split 'test'", 1, place)]


@pytest.mark.parametrize("copied", [True, False])
def test_a_label_in_a_feature_of_the_seed_edge_is_found(validate, copied):
    schema = SHADOW_SCHEMA.replace(
        'source: "user" target: "item"',
        'source: "user" target: "item" features { key: "stars" value { dtype: DT_INT64 } }',
    )

    def plant(data):
        for number, split in enumerate(SPLITS):
            contents = [example_of_edge(10 * number + user, "x", user % 2) for user in range(8)]
            for user, content in enumerate(contents):
                content["edges/buys.stars"] = [user // 2 % 2, user % 2 if copied else user // 4]
            data[split] = [contents]

    found = validate(plant, schema, **{**NO_PAIRS, "label_features": ("label",)}, split_order=SPLITS)

    assert [item[:4] for item in found] == [("label_copied_into_feature", "train", "edges/buys.stars", 24)] * copied


@pytest.mark.parametrize("readout", [True, False], ids=["with-readout", "without-readout"])
def test_examples_without_ids_are_known_by_their_bytes(validate, readout):
    schema = 'context { features { key: "year" value { dtype: DT_INT64 } } } node_sets { key: "atom" value {} }'
    content: dict[str, list[int]] = {"nodes/atom.#size": [2]}
    if readout:
        schema += ' node_sets { key: "_readout" value { } }'
        content["nodes/_readout.#size"] = [1]

    def plant(data):
        data.clear()
        data["train"] = [[{**content, "context/year": [year]} for year in (1, 2, 3)]]
        data["test"] = [[{**content, "context/year": [year]} for year in (4, 3)]]

    found = validate(plant, schema, seed_edge_set="", reverse_edge_sets=(), pair_label_feature="")

    place = f"record 2 of {FILE}: contains the seed of record 1 of {FILE} (split 'test')"
    assert found == [("seed_in_two_splits", "train", "seeds of split 'test'", 1, place)]


def test_whole_graphs_are_known_by_their_id_and_have_their_label_in_the_context(validate):
    schema = """
    context {
        features { key: "#id" value { dtype: DT_STRING } }
        features { key: "label" value { dtype: DT_INT64 } }
        features { key: "code" value { dtype: DT_INT64 } } }
    node_sets { key: "atom" value {} }
    """

    def plant(data):
        data.clear()
        for split, count in (("train", 40), ("test", 10)):
            data[split] = [
                [
                    {
                        "nodes/atom.#size": [1 + number],
                        "context/#id": [f"{split}-{number}"],
                        "context/label": [number % 2],
                        "context/code": [8 - number % 2],
                    }
                    for number in range(count)
                ]
            ]
        data["test"][0][7]["context/#id"] = ["train-5"]

    found = validate(plant, schema, **{**NO_PAIRS, "label_features": ("label",)})

    place = f"record 5 of {FILE}: contains the seed of record 7 of {FILE} (split 'test')"
    assert found == [
        ("seed_in_two_splits", "train", "seeds of split 'test'", 1, place),
        ("label_copied_into_feature", "train", "context/code", 50),
    ]


ROW = np.dtype([("key", "<u8"), ("value", "<i8")])


def rows_of(*pairs):
    return np.array(list(pairs), ROW)


def reduce_rows(rows):
    return first_of_equal(rows, ("key",), ("value",))


def test_equal_keys_meet_in_one_bucket_whatever_chunk_they_come_from():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**63, 500).astype(np.uint64) * np.uint64(2)
    chunks = [rows_of(*((key, number) for number, key in enumerate(rng.permutation(keys)))) for _ in range(3)]
    buckets: dict[int, list[Any]] = {}
    for chunk in chunks:
        collector = RowCollector(lambda rows: rows["key"], reduce_rows, 8)
        for bucket, rows in (*collector.add(chunk), *collector.flush()):
            buckets.setdefault(bucket, []).append(rows)

    folded = {bucket: fold_rows(parts, reduce_rows, ROW) for bucket, parts in buckets.items()}

    assert sorted(folded) == list(range(8))
    assert sorted(key for rows in folded.values() for key in rows["key"].tolist()) == sorted(set(keys.tolist()))
    for bucket, rows in folded.items():
        assert (rows["key"] >> np.uint64(61) == bucket).all()


def test_of_equal_rows_the_first_by_the_order_is_kept():
    rows = rows_of((5, 3), (1, 9), (5, 2), (1, 4))

    assert first_of_equal(rows, ("key",), ("value",)).tolist() == [(1, 4), (5, 2)]
    assert group_equal(rows, ("key",), ("value",))[1].tolist() == [0, 2]
    assert first_of_equal(rows[:0], ("key",)).tolist() == []
    assert list(RowCollector(lambda rows: rows["key"], reduce_rows, 4).flush()) == []


def test_there_are_more_buckets_of_more_data(tmp_path):
    paths = []
    for number, size in enumerate((10, 3 << 22, 1 << 26)):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(b"")
        with open(paths[-1], "r+b") as file:
            file.truncate(size)
    files = [RecordFile(split="train", shard=0, num_shards=1, path=str(path)) for path in paths]

    assert [num_buckets_for([file]) for file in files] == [1, 4, 32]
