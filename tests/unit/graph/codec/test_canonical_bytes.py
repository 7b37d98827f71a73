import functools
import importlib.util
import resource
from pathlib import Path
from unittest import mock

import pytest
import tensorflow as tf

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec import canonical_bytes
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


@functools.cache
def traced(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)])


PARSERS = {
    "parse_example": lambda batch: parse_example(SPEC, batch),
    "parse_example, traced": traced(lambda batch: parse_example(SPEC, batch)),
    "parse_single_example": lambda batch: parse_single_example(SPEC, batch[0]),
    "parse_and_merge": lambda batch: parse_and_merge(SPEC, batch),
    "parse_and_merge, traced": traced(lambda batch: parse_and_merge(SPEC, batch)),
    "parse_merge_and_pad": lambda batch: parse_merge_and_pad(SPEC, batch, BUDGET)[0],
    "parse_merge_and_pad, traced": traced(lambda batch: parse_merge_and_pad(SPEC, batch, BUDGET)[0]),
}


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
@pytest.mark.parametrize("key", ["context/y", "nodes/a.fixed"])
def test_unpacked_floats_that_are_too_many_are_refused(parse, key):
    # A thousand end the process, if TensorFlow reads them as a feature of fixed size.
    longer = example(**{key.replace("/", "_").replace(".", "_"): list_of(FLOATS, unpacked(*[1.0] * 5000))})

    with pytest.raises(tf.errors.InvalidArgumentError, match=key):
        parse(tf.constant([longer]))


@pytest.mark.parametrize("parse", PARSERS.values(), ids=PARSERS)
@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_lists_that_claim_to_be_longer_are_refused(parse, length):
    # Of ragged features, too: two gigabytes end the process.
    liar = example(nodes_b_x=list_of(FLOATS, encoder.delimited(1, packed(1.0), length=length)))

    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError), match=r"binary protobuf|tf\.Example"):
        parse(tf.constant([liar]))


def test_unpacked_floats_are_read():
    unpacked_all = example(
        context_y=list_of(FLOATS, unpacked(1.0, 2.0)),
        nodes_a_fixed=list_of(FLOATS, unpacked(3.0, 4.0)),
        nodes_b_x=list_of(FLOATS, unpacked(6.0, 7.0)),
    )

    graph = parse_and_merge(SPEC, tf.constant([unpacked_all, example()]))

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
        (with_value(list_of(FLOATS, packed())), []),
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
    canonical = canonical_examples(tf.constant([encoded] * 4))

    parsed = tf.io.parse_example(canonical, {"k": tf.io.RaggedFeature(tf.float32)})["k"]
    assert parsed.to_list() == [values] * 4
    assert list(tf.train.Example.FromString(encoded).features.feature["k"].float_list.value) == values


def record(kind, values, key="k"):
    message = tf.train.Example()
    getattr(message.features.feature[key], kind).value.extend(values)
    return message.SerializeToString()


def is_canonical(*encoded):
    """Returns whether examples are taken as they are, instead of being encoded anew."""
    anew = []
    with mock.patch.object(canonical_bytes, "_encode_anew", lambda serialized: anew.append(serialized) or serialized):
        # Few examples are always encoded anew.
        canonical_bytes._canonical(tf.constant([*encoded, b"", b"", b""]))
    return not anew


def test_what_protobuf_writes_is_taken_as_it_is():
    # Lengths at which each of the varints of an entry becomes longer, and all that are near.
    sizes = [size + offset for size in (128, 2**14, 2**21 - 40) for offset in range(-24, 20)]
    of_lists = [
        record(kind, values)
        for size in [*range(24), *sizes]
        for kind, values in [(FLOATS, [0.5] * (size // 4)), (INTEGERS, [1] * size), (STRINGS, [b"x" * size])]
        if size < 2**16 or kind == STRINGS
    ]
    several = [record(STRINGS, [b"x" * size] * number) for number in range(4) for size in (0, 1, 126, 127, 128, 5500)]
    keys = [record(FLOATS, [1.0], "k" * length) for length in range(128)]

    assert is_canonical(b"", tf.train.Example().SerializeToString(), example(), *keys)
    assert is_canonical(with_value(b""), example(), with_value(list_of(FLOATS)))
    assert is_canonical(*several, *keys)
    assert is_canonical(*of_lists)


#: With what protobuf reads; None if it refuses to.
ODD = {
    "unpacked": (list_of(FLOATS, unpacked(1.0)), [1.0]),
    "two pieces": (list_of(FLOATS, packed(1.0), packed(2.0)), [1.0, 2.0]),
    "packed, then unpacked": (list_of(FLOATS, packed(1.0), unpacked(2.0)), [1.0, 2.0]),
    "an empty piece": (list_of(FLOATS, packed(), packed(2.0)), [2.0]),
    "two lists": (list_of(FLOATS, packed(1.0)) + list_of(FLOATS, packed(2.0)), [1.0, 2.0]),
    "two kinds": (list_of(INTEGERS, encoder.packed(INTEGERS, [1])) + list_of(FLOATS, packed(2.0)), [2.0]),
    "a long length of values": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?", spare_bytes=1)), [1.0]),
    "a long length of the list": (encoder.delimited(2, packed(1.0), spare_bytes=2), [1.0]),
    "no whole float": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?\0")), None),
    "values longer than the list": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?", length=8)), None),
    "values of 2 GB": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?", length=2**31)), None),
    "values of more floats than it holds": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?" * 50, length=204)), None),
    "long values of no whole float": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?" * 50 + b"\0\0")), None),
    "one byte behind the values": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?") + b"\xff"), None),
    "three bytes behind the values": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?" * 50) + b"\xff" * 3), None),
    "bytes behind no values": (list_of(FLOATS, packed() + b"\xff"), None),
    "an empty piece behind the values": (list_of(FLOATS, packed(1.0), packed()), [1.0]),
    "values shorter than the list": (list_of(FLOATS, encoder.delimited(1, b"\0\0\x80?" * 2, length=4)), None),
}


@pytest.mark.parametrize(("value", "read"), ODD.values(), ids=ODD)
def test_other_encodings_are_noticed(value, read):
    batch = [record(FLOATS, [9.0]), with_value(value)]

    assert not is_canonical(*batch)
    if read is None:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.Example|Could not parse"):
            canonical_examples(tf.constant(batch))
    else:
        parsed = tf.io.parse_example(canonical_examples(tf.constant(batch)), {"k": tf.io.RaggedFeature(tf.float32)})
        assert parsed["k"].to_list() == [[9.0], read]


@pytest.mark.parametrize("size", [30, 40, 200, 5000, 20_000])
def test_other_encodings_are_noticed_in_lists_of_any_length(size):
    halves = packed(*[1.0] * (size // 2))

    assert not is_canonical(with_value(list_of(FLOATS, unpacked(*[1.0] * size))))
    assert not is_canonical(with_value(list_of(FLOATS, halves, halves)))
    assert not is_canonical(with_value(list_of(INTEGERS, encoder.unpacked(INTEGERS, [1] * size))))
    assert not is_canonical(with_value(list_of(STRINGS, encoder.unpacked(STRINGS, [b"x"] * size)) * 2))
    assert not is_canonical(with_value(list_of(FLOATS, encoder.delimited(1, halves, length=len(halves) + 4))))


def outer(*tags_and_payloads):
    """Encodes fields with tags of one byte or two, which both mean field 1 or 2."""
    return b"".join(tag + encoder.delimited(1, payload)[1:] for tag, payload in tags_and_payloads)


FIRST, FIRST_IN_TWO_BYTES, SECOND, SECOND_IN_TWO_BYTES = b"\x0a", b"\x8a\0", b"\x12", b"\x92\0"
ENTRY = encoder.delimited(1, b"k") + encoder.delimited(2, list_of(FLOATS, packed(5.0)))


@pytest.mark.parametrize("spare_bytes", [1, 2])
def test_long_lengths_around_the_feature_are_noticed(spare_bytes):
    value = list_of(FLOATS, packed(1.0))
    long_key = encoder.delimited(1, b"k", spare_bytes=spare_bytes) + encoder.delimited(2, value)
    long_value = encoder.delimited(1, b"k") + encoder.delimited(2, value, spare_bytes=spare_bytes)

    for entry in (long_key, long_value):
        assert not is_canonical(encoder.example(encoder.delimited(1, entry)))
    assert not is_canonical(encoder.example(encoder.delimited(1, ENTRY, spare_bytes=spare_bytes)))
    assert not is_canonical(encoder.delimited(1, encoder.delimited(1, ENTRY), spare_bytes=spare_bytes))


@pytest.mark.parametrize(
    "odd",
    {
        "tag of the features": outer((FIRST_IN_TWO_BYTES, outer((FIRST, ENTRY)))),
        "tag of a key": outer(
            (FIRST, outer((FIRST, outer((FIRST_IN_TWO_BYTES, b"k"), (SECOND, list_of(FLOATS, packed(5.0)))))))
        ),
        "tag of a value": outer(
            (FIRST, outer((FIRST, outer((FIRST, b"k"), (SECOND_IN_TWO_BYTES, list_of(FLOATS, packed(5.0)))))))
        ),
        "features in two pieces": encoder.example(encoder.delimited(1, ENTRY)) * 2,
        "unknown field of the example": encoder.example(encoder.delimited(1, ENTRY)) + encoder.delimited(7, b"x"),
    }.items(),
    ids=lambda item: item[0],
)
def test_other_encodings_around_the_lists_are_noticed(odd):
    encoded = odd[1]
    batch = [record(FLOATS, [9.0]), encoded, record(FLOATS, [8.0]), record(FLOATS, [7.0])]

    assert not is_canonical(*batch)
    parsed = tf.io.parse_example(canonical_examples(tf.constant(batch)), {"k": tf.io.RaggedFeature(tf.float32)})["k"]
    assert parsed.to_list() == [[9.0], [5.0], [8.0], [7.0]]


LIAR = encoder.delimited(1, b"abcd", length=2**31)


@pytest.mark.parametrize(
    "damaged",
    [
        with_value(list_of(STRINGS, LIAR)),
        with_value(list_of(STRINGS, encoder.delimited(1, b"ab"), LIAR)),
        with_value(encoder.delimited(1, LIAR[1:], length=2**31)),
        encoder.example(encoder.delimited(1, encoder.delimited(1, b"k", length=2**31) + ENTRY)),
        encoder.example(encoder.delimited(1, encoder.delimited(1, b"k") + encoder.delimited(2, b"v", length=2**31))),
        encoder.example(encoder.delimited(1, ENTRY, length=2**31)),
        encoder.delimited(1, encoder.delimited(1, ENTRY), length=2**31),
        # Longer than what it is in, not than the batch.
        with_value(list_of(STRINGS, encoder.delimited(1, b"abcd", length=8))),
        encoder.example(encoder.delimited(1, ENTRY, length=len(ENTRY) + 4)),
        encoder.delimited(1, encoder.delimited(1, ENTRY), length=len(ENTRY) + 6),
    ],
)
@pytest.mark.parametrize("is_traced", [False, True])
def test_messages_longer_than_what_they_are_in_are_refused(damaged, is_traced):
    batch = [record(STRINGS, [b"a", b"b"]), damaged, damaged, *[record(STRINGS, [b"c"])] * 4]
    function = traced(canonical_examples) if is_traced else canonical_examples
    refusals = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, *([UnicodeDecodeError] if is_traced else []))

    # Also if the string behind takes up what is missing.
    for examples in (batch, [*batch[:3], damaged[4:], *batch[3:]]):
        with pytest.raises(refusals, match=r"protobuf|tf\.Example|parse|codec"):
            function(tf.constant(examples))


@pytest.mark.parametrize(("num_empty", "num_others"), [(1_000_000, 4095), (1_000_000, 7), (2000, 4000)])
def test_many_empty_entries_take_little_memory(num_empty, num_others):
    many = encoder.example(b"\x0a\x00" * num_empty)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.Example"):
        canonical_examples(tf.constant([many, *[record(FLOATS, [1.0])] * num_others]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000


@pytest.mark.parametrize("size", [100, 20_000, 100_000])
def test_batches_of_which_one_example_is_much_longer_are_taken_as_they_are(size):
    longer = record(FLOATS, [0.5] * (size * 4))

    assert is_canonical(longer, *[example()] * 300)
    assert not is_canonical(longer, *[example()] * 300, with_value(list_of(FLOATS, unpacked(1.0))))
    assert not is_canonical(longer, *[example()] * 300, encoder.example(b"\x0a\x00"))


@pytest.mark.parametrize("key", ["k" * 128, "k" * 300])
def test_long_keys_and_large_features_are_encoded_anew(key):
    long = record(FLOATS, [1.0], key)
    large = record(FLOATS, [0.5] * 2**19)

    assert not is_canonical(long)
    assert not is_canonical(large)
    assert canonical_examples(tf.constant([long, large])).numpy().tolist() == [long, large]


@pytest.mark.parametrize("key", [b"k\xff", b"\xc3", b"\xed\xa0\x80", b"k" * 100 + b"\x80"])
@pytest.mark.parametrize("is_traced", [False, True])
def test_keys_that_are_not_text_are_refused(key, is_traced):
    # A damaged key would hide its feature.
    entry = encoder.delimited(1, key) + encoder.delimited(2, list_of(FLOATS, packed(5.0)))
    # Together with the byte at the start of the next key, it would be text.
    follows = encoder.delimited(1, b"\xa9") + encoder.delimited(2, list_of(FLOATS, packed(5.0)))
    function = traced(canonical_examples) if is_traced else canonical_examples

    for entries in ([entry], [entry, follows]):
        batch = [encoder.example(*(encoder.delimited(1, one) for one in entries))] * 4
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError), match=r"protobuf|tf\.Example"):
            function(tf.constant(batch))


def test_keys_may_be_any_text():
    batch = [record(FLOATS, [1.0], key) for key in ("Größe", "顧客.年齢", "\U0001f600", "\0", "")]

    assert is_canonical(*batch)
    assert canonical_examples(tf.constant(batch)).numpy().tolist() == batch


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
        encoder.delimited(1, ENTRY) + encoder.delimited(7, b"unknown"),
        outer((FIRST_IN_TWO_BYTES, ENTRY)),
    ],
    ids=["no value", "no key", "unknown field of the entry", "unknown field of the map", "tag of an entry"],
)
def test_map_entries_that_are_not_read_are_refused(odd):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.Example|Could not parse"):
        canonical_examples(tf.constant([encoder.example(odd)] * 4))


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
