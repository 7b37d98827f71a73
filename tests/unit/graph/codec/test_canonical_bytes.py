import importlib.util
from pathlib import Path

import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec.canonical_bytes import canonical_examples
from tfx_gnn.graph.codec.example_parsing import (
    parse_and_merge,
    parse_example,
    parse_merge_and_pad,
    parse_single_example,
)
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, NodeSetSpec

_SPEC = importlib.util.spec_from_file_location("example_encoder", Path(__file__).with_name("example_encoder.py"))
encoder = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(encoder)

FLOATS, INTEGERS, STRINGS = "float_list", "int64_list", "bytes_list"
ONE = tf.TensorSpec([1], tf.int32)
SPEC = GraphTensorSpec.from_piece_specs(
    ContextSpec.from_field_specs(features_spec={"y": tf.TensorSpec([1, 2])}, sizes_spec=ONE),
    {
        "a": NodeSetSpec.from_field_specs(
            features_spec={"fixed": tf.TensorSpec([1, 2]), "n": tf.TensorSpec([1], tf.int32)}, sizes_spec=ONE
        ),
        "b": NodeSetSpec.from_field_specs(
            features_spec={"x": tf.TensorSpec([None]), "h": tf.TensorSpec([None], tf.float16)}, sizes_spec=ONE
        ),
    },
)
BUDGET = SizeConstraints(3, {"a": 8, "b": 8}, {})


def list_of(kind, *pieces):
    return encoder.feature(kind, b"".join(pieces))


def packed(*values):
    return encoder.packed(FLOATS, values)


def unpacked(*values):
    return encoder.unpacked(FLOATS, values)


def example(**changed):
    """Encodes a graph of `SPEC`; by key in place of "/" and "." with "_", the Features that are others."""
    features = {
        "context/y": list_of(FLOATS, packed(1.0, 2.0)),
        "nodes/a.#size": list_of(INTEGERS, encoder.packed(INTEGERS, [1])),
        "nodes/a.fixed": list_of(FLOATS, packed(3.0, 4.0)),
        "nodes/a.n": list_of(INTEGERS, encoder.packed(INTEGERS, [5])),
        "nodes/b.#size": list_of(INTEGERS, encoder.packed(INTEGERS, [2])),
        "nodes/b.x": list_of(FLOATS, packed(6.0, 7.0)),
        "nodes/b.h": list_of(FLOATS, packed(0.5, 1.5)),
    }
    features.update(
        {key: changed.get(key.replace("/", "_").replace(".", "_"), value) for key, value in features.items()}
    )
    return encoder.example(*(encoder.entry(key, value) for key, value in features.items()))


def traced(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)])


PARSERS = {
    "parse_example": lambda batch: parse_example(SPEC, batch),
    "parse_example, traced": traced(lambda batch: parse_example(SPEC, batch)),
    "parse_single_example": lambda batch: parse_single_example(SPEC, batch[0]),
    "parse_and_merge": lambda batch: parse_and_merge(SPEC, batch),
    "parse_and_merge, traced": traced(lambda batch: parse_and_merge(SPEC, batch)),
    "parse_and_merge, trusted": lambda batch: parse_and_merge(SPEC, batch, trusted=True),
    "parse_merge_and_pad": lambda batch: parse_merge_and_pad(SPEC, batch, BUDGET)[0],
    "parse_merge_and_pad, traced": traced(lambda batch: parse_merge_and_pad(SPEC, batch, BUDGET)[0]),
    "parse_merge_and_pad, trusted": traced(lambda batch: parse_merge_and_pad(SPEC, batch, BUDGET, trusted=True)[0]),
}


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
@pytest.mark.parametrize("key", ["context/y", "nodes/a.fixed"])
def test_unpacked_floats_that_are_too_many_are_refused(parse, key):
    # A thousand end the process, if TensorFlow reads them as a feature of fixed size.
    longer = example(**{key.replace("/", "_").replace(".", "_"): list_of(FLOATS, unpacked(*[1.0] * 5000))})

    with pytest.raises(tf.errors.InvalidArgumentError, match=key):
        parse(tf.constant([longer]))


@pytest.mark.parametrize("parse", [parse for name, parse in PARSERS.items() if "trusted" not in name])
@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_lists_that_claim_to_be_longer_are_refused(parse, length):
    # Of ragged features, too: two gigabytes end the process.
    liar = example(nodes_b_x=list_of(FLOATS, encoder.delimited(1, packed(1.0), length=length)))

    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError), match=r"binary protobuf|tf\.Example"):
        parse(tf.constant([liar]))


@pytest.mark.parametrize("trusted", [False, True])
def test_unpacked_floats_are_read(trusted):
    unpacked_all = example(
        context_y=list_of(FLOATS, unpacked(1.0, 2.0)),
        nodes_a_fixed=list_of(FLOATS, unpacked(3.0, 4.0)),
        nodes_b_x=list_of(FLOATS, unpacked(6.0, 7.0)),
    )

    graph = parse_and_merge(SPEC, tf.constant([unpacked_all, example()]), trusted=trusted)

    assert graph.context["y"].numpy().tolist() == [[1.0, 2.0]] * 2
    assert graph.context["y"].shape == [2, 2]
    assert graph.node_sets["a"]["fixed"].numpy().tolist() == [[3.0, 4.0]] * 2
    assert graph.node_sets["b"]["x"].numpy().tolist() == [6.0, 7.0] * 2


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
def test_values_that_do_not_fit_their_dtype_are_refused(parse):
    wide = example(nodes_a_n=list_of(INTEGERS, encoder.packed(INTEGERS, [2**40])))
    large = example(nodes_b_h=list_of(FLOATS, packed(0.5, 1e6)))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"fit the dtypes.*nodes/a\.n.*int32"):
        parse(tf.constant([wide]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"fit the dtypes.*nodes/b\.h.*float16"):
        parse(tf.constant([large]))


def test_infinity_is_a_value_of_narrow_floats():
    infinite = example(nodes_b_h=list_of(FLOATS, packed(0.5, float("inf"))))

    assert parse_and_merge(SPEC, tf.constant([infinite])).node_sets["b"]["h"].numpy().tolist() == [0.5, float("inf")]


def with_value(*parts):
    return encoder.example(encoder.entry("k", b"".join(parts)))


@pytest.mark.parametrize(
    ("encoded", "values"),
    [
        (with_value(list_of(FLOATS, packed(1.0), packed(2.0))), [1.0, 2.0]),
        (with_value(list_of(FLOATS, packed(), packed(2.0))), [2.0]),
        (with_value(list_of(FLOATS, packed(1.0), unpacked(2.0))), [1.0, 2.0]),
        (with_value(list_of(FLOATS, unpacked(1.0), packed(2.0))), [1.0, 2.0]),
        (with_value(list_of(FLOATS, packed(1.0)), list_of(FLOATS, packed(2.0))), [1.0, 2.0]),
        (with_value(list_of(INTEGERS, b"\x0a\x01\x05"), list_of(FLOATS, packed(2.0))), [2.0]),
        (with_value(list_of(FLOATS, packed(9.0))) + with_value(list_of(FLOATS, packed(1.0))), [1.0]),
        (with_value(list_of(FLOATS, packed(9.0))) + with_value(b""), []),
        (with_value(list_of(FLOATS)), []),
        (b"", []),
    ],
)
def test_all_that_protobuf_allows_is_read_as_it_means_it(encoded, values):
    canonical = canonical_examples(tf.constant([encoded]))

    parsed = tf.io.parse_example(canonical, {"k": tf.io.RaggedFeature(tf.float32)})["k"]
    assert parsed.to_list() == [values]
    assert list(tf.train.Example.FromString(encoded).features.feature["k"].float_list.value) == values


def test_no_examples_are_no_examples():
    assert canonical_examples(tf.constant([], tf.string)).shape == [0]
    assert traced(canonical_examples)(tf.constant([], tf.string)).shape == [0]


@pytest.mark.parametrize("damaged", [b"garbage", b"\x0a\xff\xbf", with_value(list_of(FLOATS, b"\x0a\x05abcde"))])
def test_what_is_no_example_is_refused(damaged):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.Example|Could not parse"):
        canonical_examples(tf.constant([b"", damaged]))


@pytest.mark.parametrize(
    "odd",
    [
        encoder.delimited(1, encoder.delimited(1, b"k")),
        encoder.delimited(1, encoder.delimited(2, list_of(FLOATS, packed(1.0)))),
        encoder.delimited(
            1,
            encoder.delimited(1, b"k")
            + encoder.delimited(2, list_of(FLOATS, packed(1.0)))
            + encoder.delimited(5, b"unknown"),
        ),
    ],
    ids=["no value", "no key", "unknown field"],
)
def test_map_entries_that_are_not_read_are_refused(odd):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.Example|Could not parse"):
        canonical_examples(tf.constant([encoder.example(odd)]))


def test_last_entry_with_a_list_counts_where_a_key_comes_twice():
    entries = [encoder.entry("k", list_of(FLOATS, packed(value))) for value in (1.0, 2.0)]
    twice = encoder.example(*entries, encoder.delimited(1, encoder.delimited(1, b"k") + encoder.delimited(2, b"")))

    parsed = tf.io.parse_example(canonical_examples(tf.constant([twice])), {"k": tf.io.FixedLenFeature([], tf.float32)})

    assert parsed["k"].numpy().tolist() == [2.0]


def test_exported_parsers_refuse_what_ends_others(tmp_path):
    module = tf.Module()
    module.serve = tf.function(
        lambda examples: parse_and_merge(SPEC, examples).context["y"],
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path))
    serve = tf.saved_model.load(str(tmp_path)).serve

    with pytest.raises(tf.errors.InvalidArgumentError, match="context/y"):
        serve(tf.constant([example(context_y=list_of(FLOATS, unpacked(*[1.0] * 5000)))]))
    with pytest.raises(tf.errors.DataLossError, match="binary protobuf"):
        serve(tf.constant([example(context_y=list_of(FLOATS, encoder.delimited(1, packed(1.0), length=2**32 - 1)))]))
    assert serve(tf.constant([example()])).numpy().tolist() == [[1.0, 2.0]]
