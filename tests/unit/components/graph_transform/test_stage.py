import os

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.keras.feature_encoders.category_values import category_count
from tfx_gnn.records import examples_folder
from tfx_gnn.records.size_constraints_file import fingerprint_examples
from tfx_gnn.records.split_statistics import read_statistics
from tfx_gnn.tables.csv_table import CsvFormat
from tfx_gnn.transform.application import check_transformed_by, read_transform_record


@pytest.fixture(scope="module")
def train(transformed_star, read_examples):
    return read_examples(transformed_star.transformed_examples_dir, "train")


@pytest.fixture(scope="module")
def val(transformed_star, read_examples):
    return read_examples(transformed_star.transformed_examples_dir, "val")


@pytest.fixture(scope="module")
def tft_output(transformed_star):
    return tft.TFTransformOutput(transformed_star.transform_graph_dir)


@pytest.fixture(scope="module")
def with_statistics(transform_star, tmp_path_factory):
    """Another transform of the same examples, which writes statistics, and where they are."""
    folder = tmp_path_factory.mktemp("with_statistics")
    other = transform_star(
        folder,
        preprocessing_fn="star_graph:statistics_of_each_set",
        pre_transform_stats_dir=str(folder / "pre"),
        post_transform_stats_dir=str(folder / "post"),
    )
    return other, folder


def test_a_hub_in_every_subgraph_counts_once(train):
    assert train[0]["nodes/item.mean"] == [10.0] * 10
    assert train[0]["nodes/item.offset"] == [90.0] + [-10.0] * 9


def test_an_edge_in_several_subgraphs_counts_once(train):
    assert train[0]["edges/link.mean"] == [10.0] * 9
    np.testing.assert_allclose(train[0]["edges/link.weight"], np.arange(1, 10) / 9, rtol=1e-6)


def test_elementwise_statistics_are_taken_per_dimension(train, star_graph):
    pairs = np.array(star_graph.PAIRS)
    expected = (pairs - pairs.mean(axis=0)) / pairs.std(axis=0)

    np.testing.assert_allclose(np.reshape(train[0]["nodes/item.pair"], [10, 2]), expected, rtol=1e-6)


def test_readouts_and_contexts_count_once_in_each_example(tft_output, train):
    assert tft_output.vocabulary_by_name("color") == [b"red", b"blue"]
    assert [content["nodes/_readout.color"] for content in train] == [[0]] * 9 + [[1]]
    assert [content["context/year"] for content in train] == [[0]] * 10


def test_words_of_a_hub_do_not_crowd_the_vocabulary(tft_output):
    # "leaf" is said by leaves 1, 2, 4, 5, 7 and 8; "hub" three times by the one hub, which is in all ten subgraphs.
    assert tft_output.vocabulary_by_name("words")[:2] == [b"leaf", b"hub"]


def test_unseen_values_are_left_to_the_users_policy(val, tft_output):
    assert val[0]["nodes/_readout.color"] == [-1]
    assert val[0]["nodes/item.id"] == [tft_output.vocabulary_size_by_name("ids")] == [10]
    assert val[0]["nodes/item.words"] == [1, tft_output.vocabulary_size_by_name("words")]
    assert val[0]["nodes/item.offset"] == [100.0]
    assert val[0]["context/year"] == [1]


def test_an_encoder_is_told_how_many_categories_there_are(tft_output):
    """Positions in a vocabulary, ragged ones too, and its buckets for what it lacks; not for other numbers."""
    names = ["nodes/_readout.color", "nodes/item.id", "nodes/item.words", "context/year", "nodes/item.offset"]
    num_words = tft_output.vocabulary_size_by_name("words")

    assert [category_count(tft_output, name) for name in names] == [2, 10 + 1, num_words + 1, 0, 0]
    assert category_count(tft_output, "nodes/item.id", "ids") == 10


def test_structure_and_order_are_kept(train, val, star_graph):
    originals = [content for shard in star_graph.SPLITS["train"] for content in shard]
    keys = [key for key in originals[0] if key.rpartition(".")[2] in {"#size", "#source", "#target"}]

    assert len(keys) == 8
    for original, transformed in zip(originals, train, strict=True):
        assert {key: transformed[key] for key in keys} == {key: original[key] for key in keys}
    assert [content["nodes/item.#size"] for content in val] == [[1], [10]]


def test_ragged_features_keep_their_rows(train, star_graph):
    assert train[0]["nodes/item.words.d1"] == [len(words) for words in star_graph.WORDS]
    assert train[0]["nodes/item.boxes.d1"] == [2] * 10
    assert train[0]["nodes/item.boxes.d2"] == [len(box) for node in star_graph.BOXES for box in node]
    assert train[0]["nodes/item.boxes"] == [number for node in star_graph.BOXES for box in node for number in box]


def test_neighbours_may_make_features(train, val):
    assert train[0]["nodes/item.degree"] == [9.0] + [0.0] * 9
    assert train[1]["nodes/item.degree"] == [0.0, 1.0]
    assert val[0]["nodes/item.degree"] == [0.0]


def test_empty_sets_stay_empty(val):
    assert val[0]["edges/link.weight"] == []
    assert val[0]["edges/link.#size"] == [0]


def test_files_match_those_of_the_input(transformed_star):
    def names(folder):
        return {
            split: [os.path.basename(path) for path in examples_folder.split_files(folder, split)]
            for split in examples_folder.split_names(folder)
        }

    assert names(transformed_star.transformed_examples_dir) == names(transformed_star.examples_dir)
    assert sorted(os.listdir(transformed_star.transformed_examples_dir)) == [
        "Split-train",
        "Split-val",
        "graph_schema.pbtxt",
        "graph_transform.json",
    ]


def test_the_transformed_schema_says_what_the_examples_hold(transformed_star):
    written = {
        folder: graph_schema_io.read_schema(examples_folder.graph_schema_path(folder))
        for folder in (transformed_star.transformed_examples_dir, transformed_star.transformed_graph_schema_dir)
    }

    expected = text_format.Parse(
        """
        context { features { key: "year" value { dtype: DT_INT64 } } }
        node_sets { key: "item" value {
            features { key: "mean" value { dtype: DT_FLOAT } }
            features { key: "offset" value { dtype: DT_FLOAT } }
            features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
            features { key: "words" value { dtype: DT_INT64 shape { dim { size: -1 } } } }
            features { key: "boxes" value { dtype: DT_INT64 shape { dim { size: -1 } dim { size: -1 } } } }
            features { key: "id" value { dtype: DT_INT64 } }
            features { key: "degree" value { dtype: DT_FLOAT } } } }
        node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_INT64 } } } }
        edge_sets { key: "link" value { source: "item" target: "item"
            features { key: "weight" value { dtype: DT_FLOAT } }
            features { key: "mean" value { dtype: DT_FLOAT } } } }
        edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
        """,
        graph_schema_pb2.GraphSchema(),
    )
    assert list(written.values()) == [expected, expected]


def test_transformed_examples_are_parsed_by_the_stock_metadata(transformed_star, tft_output):
    records = list(examples_folder.read_split(transformed_star.transformed_examples_dir, "val").as_numpy_iterator())

    parsed = tf.io.parse_example(records, tft_output.transformed_feature_spec())

    assert parsed["nodes/item.offset"].to_list() == [[100.0], [90.0] + [-10.0] * 9]
    assert parsed["nodes/item.pair"].shape.as_list() == [2, None, 2]
    assert parsed["nodes/item.boxes"].to_list()[0] == [[[], []]]
    assert tft_output.num_buckets_for_transformed_feature("nodes/item.id") == 11
    assert tft_output.raw_feature_spec()["nodes/item.value"].dtype == tf.float32


def test_nothing_but_the_standard_folders_is_left(transformed_star):
    assert sorted(os.listdir(transformed_star.transform_graph_dir)) == [
        "graph_transform.json",
        "metadata",
        "transform_fn",
        "transformed_metadata",
    ]


def test_another_run_writes_the_same_bytes(transform_star, with_statistics, tmp_path):
    first, _ = with_statistics

    again = transform_star(tmp_path, preprocessing_fn="star_graph:statistics_of_each_set")

    assert fingerprint_examples(again.transformed_examples_dir) == fingerprint_examples(first.transformed_examples_dir)
    record = read_transform_record(again.transform_graph_dir)
    assert record is not None
    assert record == read_transform_record(again.transformed_examples_dir)


def test_another_transform_of_the_same_examples_is_told_apart(with_statistics, transformed_star):
    other, _ = with_statistics

    with pytest.raises(ValueError, match="must hold the transform that made the examples"):
        check_transformed_by(transformed_star.transformed_examples_dir, other.transform_graph_dir)
    check_transformed_by(other.transformed_examples_dir, other.transform_graph_dir)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"preprocessing_fn": "star_graph:no_graph"}, TypeError, "must return a GraphView; got dict"),
        (
            {"preprocessing_fn": "star_graph:statistic_of_structure"},
            ValueError,
            r"of features of items only; got one that depends on \['nodes/item.#size'\]",
        ),
        (
            {"preprocessing_fn": "star_graph:half_the_rows"},
            ValueError,
            r"one row for each item; got \d+ rows of 'nodes/item.value' for \d+ items in graphs-",
        ),
        ({"preprocessing_fn": "star_graph:absent"}, ValueError, "'absent' is missing"),
        ({"analyze_splits": ("test",)}, ValueError, r"must be one of \['train', 'val'\]; got 'test'"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(transform_star, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        transform_star(tmp_path, **options)

    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def star_tables(tmp_path):
    """The table of the star's items, with the value alone."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "graph_schema.pbtxt").write_text(
        'node_sets { key: "item" value { features { key: "value" value { dtype: DT_FLOAT } } '
        'metadata { filename: "items.csv" } } }'
    )
    (folder / "items.csv").write_text("id,value\nn0,100\nn1,0\n")
    return folder


def test_tables_that_change_while_they_are_read_are_refused(transform_star, star_tables, tmp_path, monkeypatch):
    read = CsvFormat.read_raw_blocks

    def read_and_change(*arguments):
        yield from read(*arguments)
        (star_tables / "items.csv").write_text("id,value\nn0,7\n")

    monkeypatch.setattr(CsvFormat, "read_raw_blocks", read_and_change)
    options = {"preprocessing_fn": "star_graph:mean_value", "analyze": "tables"}

    with pytest.raises(ValueError, match=r"items.csv` must stay as it is while the tables are read"):
        transform_star(tmp_path, tables_dir=str(star_tables), **options)

    assert list(tmp_path.iterdir()) == [star_tables]


def test_other_tables_than_those_that_are_meant_are_refused(star_examples, star_tables, tmp_path):
    from tfx_gnn.components.graph_transform.stage import transform_graphs

    with pytest.raises(ValueError, match="`tables_dir` must hold the tables that the pipeline was built with"):
        transform_graphs(
            examples_dir=star_examples,
            graph_schema_dir=star_examples,
            transform_graph_dir=str(tmp_path / "transform_graph"),
            transformed_examples_dir=str(tmp_path / "transformed"),
            transformed_graph_schema_dir=str(tmp_path / "schema"),
            options=GraphTransformOptions(preprocessing_fn="star_graph:mean_value", analyze="tables"),
            tables_dir=str(star_tables),
            tables_contents="0" * 64,
        )


def test_a_context_may_be_made_where_there_was_none(write_examples, read_examples, star_graph, tmp_path):
    from tfx_gnn.components.graph_transform.stage import transform_graphs

    examples = [{"nodes/a.#size": [2], "nodes/a.x": [1.0, 2.0]}, {"nodes/a.#size": [1], "nodes/a.x": [7.0]}]
    schema = 'node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } } }'
    examples_dir = write_examples(str(tmp_path / "examples"), {"train": [examples]}, schema)
    made = transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=str(tmp_path / "transform_graph"),
        transformed_examples_dir=str(tmp_path / "transformed"),
        transformed_graph_schema_dir=str(tmp_path / "schema"),
        options=GraphTransformOptions(preprocessing_fn=f"{star_graph.__name__}:sizes_as_context"),
    )

    assert [content["context/num_items"] for content in read_examples(str(tmp_path / "transformed"), "train")] == [
        [2],
        [1],
    ]
    assert list(made.context.features) == ["num_items"]


def test_a_split_without_examples_gives_no_statistics(write_examples, star_graph, tmp_path):
    from tfx_gnn.components.graph_transform.stage import transform_graphs

    examples_dir = write_examples(str(tmp_path / "examples"), {"train": [[]]}, star_graph.SCHEMA)
    with pytest.raises(ValueError, match=r"at least one example each; got none in \['train'\]"):
        transform_graphs(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            transform_graph_dir=str(tmp_path / "transform_graph"),
            transformed_examples_dir=str(tmp_path / "transformed"),
            transformed_graph_schema_dir=str(tmp_path / "schema"),
            options=GraphTransformOptions(preprocessing_fn="star_graph:half_the_rows"),
        )


def test_no_split_to_analyze_is_refused():
    with pytest.raises(ValueError, match="`analyze_splits` must name at least one split"):
        GraphTransformOptions(preprocessing_fn="star_graph:preprocessing_fn", analyze_splits=())


def test_statistics_are_written_as_the_analyzers_count(with_statistics):
    _, folder = with_statistics

    means = {}
    for name in ("pre", "post"):
        dataset = read_statistics(str(folder / name), "train")
        means[name] = {feature.path.step[0]: feature.num_stats.mean for feature in dataset.features}
    assert means["pre"]["nodes/item.value"] == 10.0
    np.testing.assert_allclose(means["post"]["nodes/item.value"], 0.0, atol=1e-6)
    np.testing.assert_allclose(means["post"]["nodes/item.pair"], 0.0, atol=1e-6)
    assert os.listdir(folder / "pre") == os.listdir(folder / "post") == ["Split-train"]
