"""Statistics of several spans, with and without what earlier runs kept of them.

The star graph in two spans: the subgraphs around even nodes, then those around odd ones. The hub is in
all of them; every leaf and its edge are in the hub's subgraph, so in the first span.
"""

import dataclasses
import os
import shutil
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from apache_beam.testing.util import assert_that, equal_to
from tfx_bsl.public.tfxio import TFExampleBeamRecord

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema.schema_io import parse_schema, read_schema
from tfx_gnn.records import examples_folder
from tfx_gnn.records.examples_folder import record_files
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.transform.analysis import CacheFolders, datasets_to_read, record_batches, span_keys, tables_key
from tfx_gnn.transform.application import read_transform_record
from tfx_gnn.transform.preprocessing import fingerprint_operations, tensor_preprocessing_fn
from tfx_gnn.transform.tables import plan_table_reading


@dataclasses.dataclass(frozen=True)
class Spans:
    """Folders of two spans of examples; the first has no hub's subgraph if `hub_is_late`."""

    first: str
    second: str


@pytest.fixture(scope="module")
def spans(star_graph, write_examples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spans")
    even, odd = star_graph.SPLITS["train"]
    # Leaves and edges that the first span lacks come with the hub's own subgraph in the second.
    shards = {"first": [even[1:3], even[3:]], "second": [odd, even[:1]]}
    return Spans(
        **{
            name: write_examples(
                str(folder / name), {"train": of_span, "val": star_graph.SPLITS["val"]}, star_graph.SCHEMA
            )
            for name, of_span in shards.items()
        }
    )


def run(folder, examples_dir, *, function="star_graph:statistics_of_each_set", keeps=False, **arguments):
    """Transforms into a folder, in which the statistics are kept on demand; gives it."""
    transform_graphs(
        examples_dir=examples_dir,
        graph_schema_dir=examples_dir,
        transform_graph_dir=str(folder / "transform_graph"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        updated_analyzer_cache_dir=str(folder / "cache") if keeps else "",
        options=GraphTransformOptions(preprocessing_fn=function),
        **arguments,
    )
    return folder


def unreadable(span, folder):
    """A copy of a span that looks the same by its sizes and checksums, and whose records cannot be read."""
    copy = shutil.copytree(span, folder)
    for split in examples_folder.split_names(copy):
        for path in map(Path, examples_folder.split_files(copy, split)):
            content = path.read_bytes()
            path.write_bytes(b"x" * (len(content) - 8) + content[-8:])
    return copy


@pytest.fixture(scope="module")
def first(spans, tmp_path_factory):
    """The first span alone, whose statistics are kept."""
    return run(tmp_path_factory.mktemp("first"), spans.first, keeps=True)


@pytest.fixture(scope="module")
def both(first, spans, tmp_path_factory):
    """Both spans, the first from the cache: its records cannot be read."""
    folder = tmp_path_factory.mktemp("both")
    earlier = unreadable(spans.first, folder / "earlier")
    return run(
        folder, spans.second, keeps=True, earlier_examples_dirs=[earlier], analyzer_cache_dir=str(first / "cache")
    )


@pytest.fixture(scope="module")
def without_cache(spans, tmp_path_factory):
    return run(tmp_path_factory.mktemp("without"), spans.second, earlier_examples_dirs=[spans.first])


def assert_equal(folder, other, read_examples):
    for split in ("train", "val"):
        found, expected = (read_examples(str(one / "transformed"), split) for one in (folder, other))
        assert len(found) == len(expected)
        for content, expected_content in zip(found, expected, strict=True):
            assert set(content) == set(expected_content)
            for key, values in expected_content.items():
                np.testing.assert_allclose(content[key], values, rtol=1e-6, err_msg=key)
    for name in ("words", "color"):
        outputs = [tft.TFTransformOutput(str(one / "transform_graph")) for one in (folder, other)]
        assert outputs[0].vocabulary_by_name(name) == outputs[1].vocabulary_by_name(name)


@pytest.fixture(scope="module")
def window(spans, tmp_path_factory):
    """Both spans as a window, in one folder: the first one's files have its name."""
    folder = shutil.copytree(spans.second, tmp_path_factory.mktemp("window") / "examples")
    for path in examples_folder.split_files(spans.first, "train"):
        moved = os.path.join(examples_folder.split_dir(str(folder), "train"), os.path.basename(path))
        shutil.copy(path, examples_folder.earlier_span_path(moved, "1"))
    return str(folder)


def test_an_item_counts_once_in_each_span_of_a_window_and_what_was_pushed_is_not_counted_again(
    first, window, tmp_path, read_examples
):
    run(tmp_path, window, keeps=True, blessed_model_dir=blessed(tmp_path, first / "cache"))

    # The hub and four leaves, then all ten nodes: the mean is 200 / 15.
    leaf_and_hub = read_examples(str(tmp_path / "transformed"), "train")[-1]["nodes/item.value"]
    np.testing.assert_allclose(leaf_and_hub, [-200 / 15, 100 - 200 / 15], rtol=1e-6)
    found = read_transform_record(str(tmp_path / "transform_graph"))
    assert (found.num_spans, found.num_spans_read) == (2, 1)
    assert len(os.listdir(tmp_path / "cache")) == 2
    # Identities are for spans that are parts of one graph; the first run kept them.
    assert len(list((tmp_path / "cache").glob("*/identities"))) == 1


def blessed(folder, cache):
    """What LatestBlessedModelResolver makes of a model that was pushed with a cache."""
    shutil.copytree(cache, folder / "blessed" / "Format-Serving" / "assets.extra" / "analyzer_cache")
    (folder / "blessed" / "latest_blessed_model.json").write_text('{"found": true, "description": "version 1"}')
    return str(folder / "blessed")


def test_one_cache_is_given_and_a_window_is_of_one_folder(spans, window, tmp_path):
    with pytest.raises(ValueError, match=r"`blessed_model_dir` must be left out with `analyzer_cache_dir`; got 'm'"):
        run(tmp_path, window, blessed_model_dir="m", analyzer_cache_dir="c")
    with pytest.raises(ValueError, match=r"`earlier_examples_dirs` must be left out, .* windows of \[1, 2\] spans"):
        run(tmp_path, window, earlier_examples_dirs=[spans.first])


def test_an_item_counts_in_the_first_span_that_has_it(first, without_cache, star_graph, read_examples):
    (one, *_) = read_examples(str(first / "transformed"), "train")
    *_, hub = read_examples(str(without_cache / "transformed"), "train")
    pairs = np.array(star_graph.PAIRS)

    # The leaf 2 and the hub, among the hub and four leaves; then among all ten nodes.
    assert one["nodes/item.value"] == [-20.0, 80.0]
    assert hub["nodes/item.value"] == [90.0] + [-10.0] * 9
    np.testing.assert_allclose(hub["edges/link.weight"], 2.0 * np.arange(1, 10) - 10, atol=1e-6)
    np.testing.assert_allclose(
        np.reshape(hub["nodes/item.pair"], [10, 2]), (pairs - pairs.mean(axis=0)) / pairs.std(axis=0), rtol=1e-6
    )


def test_a_span_that_is_cached_is_not_read(both, without_cache, read_examples):
    assert_equal(both, without_cache, read_examples)


def test_nothing_is_read_if_all_is_cached(both, without_cache, spans, read_examples, tmp_path):
    # The second run's cache holds what it took over from the first.
    folder = tmp_path / "again"
    options = {"earlier_examples_dirs": [unreadable(spans.first, tmp_path / "earlier")]}

    again = run(folder, spans.second, keeps=True, analyzer_cache_dir=str(both / "cache"), **options)

    assert_equal(again, without_cache, read_examples)
    assert sorted(os.listdir(again / "cache")) == sorted(os.listdir(both / "cache"))
    assert len(os.listdir(both / "cache")) == 2


def test_what_another_function_asks_is_not_in_the_cache(first, spans, star_graph):
    schema = read_schema(os.path.join(spans.first, "graph_schema.pbtxt"))
    layout = graph_layout(schema)
    source = TFExampleBeamRecord(physical_format="tfrecord", schema=make_tfmd_schema(layout))
    specs = source.TensorAdapter().OriginalTypeSpecs()
    files = [tuple(record_files(spans.first, ["train"]))]

    def missing(function):
        wrapped = tensor_preprocessing_fn(function, layout)
        more = f"unique_items {[]} {fingerprint_operations(wrapped, specs)}"
        keys = span_keys(files, schema, is_chain=True, more=more)
        return datasets_to_read(make_pipeline(), CacheFolders(read=str(first / "cache")), keys, wrapped, specs)[1]

    assert not missing(star_graph.statistics_of_each_set)
    assert len(missing(star_graph.features_of_several_sets)) == 1


def test_functions_that_differ_in_an_operation_or_a_file_have_other_keys(tmp_path):
    specs = {"text": tf.TensorSpec([None], tf.string), "other": tf.TensorSpec([None], tf.string)}
    terms = tmp_path / "terms.txt"
    terms.write_text("a\nb\n")

    def looked_up(text):
        rows = tf.lookup.TextFileInitializer(
            str(terms), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        return tf.strings.as_string(tf.lookup.StaticHashTable(rows, -1).lookup(text))

    def mapped(function):
        return lambda text: tf.map_fn(function, text)

    def key(of_text, of_other=tf.identity):
        def function(tensors):
            return {
                "text": tft.compute_and_apply_vocabulary(of_text(tensors["text"])),
                "other": tft.compute_and_apply_vocabulary(of_other(tensors["other"])),
            }

        return fingerprint_operations(function, specs)

    lower, upper = tf.strings.lower, tf.strings.upper
    changes = [(lower,), (upper,), (lower, upper), (upper, lower), (mapped(lower),), (mapped(upper),), (looked_up,)]
    keys = [key(*change) for change in changes]
    again = [key(*change) for change in changes]
    terms.write_text("b\na\n")

    assert keys == again
    assert len(set(keys)) == len(changes)
    assert key(looked_up) != keys[-1]


def test_only_unique_items_make_a_span_depend_on_earlier_ones(spans):
    schema = graph_schema_pb2.GraphSchema()
    files = [tuple(record_files(span, ["train"])) for span in (spans.first, spans.second)]

    chain = span_keys(files, schema, is_chain=True)
    alone = span_keys(files, schema, is_chain=False)

    assert span_keys(files[1:], schema, is_chain=True)[0] != chain[1]
    assert span_keys(files[1:], schema, is_chain=False)[0] == alone[1]
    assert span_keys(files[:1], schema, is_chain=True)[0] == chain[0]
    assert span_keys(files[:1], schema, is_chain=True, more="another mode")[0] != chain[0]


def test_equal_spans_count_each(spans):
    files = tuple(record_files(spans.first, ["train"]))

    keys = span_keys([files, files, files], graph_schema_pb2.GraphSchema(), is_chain=False)

    assert len(set(keys)) == 3
    assert span_keys([files], graph_schema_pb2.GraphSchema(), is_chain=False)[0] == keys[0]


def test_changed_data_has_another_key(spans, tmp_path):
    folder = shutil.copytree(spans.first, tmp_path / "span")
    schema = graph_schema_pb2.GraphSchema()

    def key():
        return span_keys([tuple(record_files(folder, ["train"]))], schema, is_chain=True)[0]

    before = key()
    path = Path(examples_folder.split_files(folder, "train")[0])
    os.utime(path, ns=(1, 1))
    assert key() == before
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes(8))
    assert key() != before


def test_tables_are_one_dataset_named_after_their_content(tmp_path):
    (tmp_path / "graph_schema.pbtxt").write_text(
        'node_sets { key: "a" value { features { key: "x" value { dtype: DT_INT64 } } '
        'metadata { filename: "a.csv" } } }'
    )
    (tmp_path / "a.csv").write_text("id,x\n1,1\n")
    schema = read_tables_schema(str(tmp_path))

    def key(**rules):
        return tables_key(
            plan_table_reading(str(tmp_path), graph_layout(schema), ["nodes/a.x"], RowRules(**rules)), schema
        )

    before = key()
    assert key() == before
    assert key(duplicate_nodes="keep_first") != before
    (tmp_path / "a.csv").write_text("id,x\n1,12\n")
    assert key() != before


def test_batches_do_not_depend_on_how_long_each_takes(star_graph):
    layout = graph_layout(parse_schema(star_graph.SCHEMA))
    source = TFExampleBeamRecord(physical_format="tfrecord", telemetry_descriptors=[], schema=make_tfmd_schema(layout))
    with make_pipeline() as pipeline:
        sizes = (
            pipeline
            | beam.Create([300])
            | beam.FlatMap(lambda number: [tf.train.Example().SerializeToString()] * number)
            | record_batches(source)
            | beam.Map(lambda batch: batch.num_rows)
        )
        assert_that(sizes, equal_to([128, 128, 44]))


def test_a_folder_is_named_once(spans, tmp_path):
    with pytest.raises(ValueError, match="`earlier_examples_dirs` must name each folder once"):
        run(tmp_path, spans.first, earlier_examples_dirs=[spans.first])


def test_an_absent_cache_is_refused(spans, tmp_path):
    with pytest.raises(ValueError, match=r"`analyzer_cache_dir` must be a folder .* got none at 'nowhere'"):
        run(tmp_path, spans.first, analyzer_cache_dir="nowhere")
