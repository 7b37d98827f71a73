import pytest
import tensorflow as tf

from tfx_gnn.records.example_batches import BYTES, FLOATS, INTS, BrokenRuleError, num_values, set_size, values_of
from tfx_gnn.records.graph_layout import FeatureColumn, SetLayout

NODES = SetLayout(
    set_type="nodes", name="a", features=(FeatureColumn(key="nodes/a.x", name="x", dtype=tf.float32, shape=(2,)),)
)
CONTEXT = SetLayout(set_type="context", name="")


@pytest.fixture
def parse(make_record):
    return lambda content: tf.train.Example.FromString(make_record(content)).features.feature


@pytest.mark.parametrize(("values", "kind"), [([1, 2], INTS), ([0.5], FLOATS), (["p"], BYTES)])
def test_values_are_read_by_key_and_kind(parse, values, kind):
    features = parse({"k": values})

    assert values_of(features, "k", kind) == [v.encode() if isinstance(v, str) else v for v in values]
    assert num_values(features["k"]) == len(values)


def test_an_absent_or_empty_key_has_no_values_of_any_kind(parse):
    features = parse({"empty": []})

    assert values_of(features, "empty", INTS) == values_of(features, "absent", FLOATS) == []
    assert num_values(features["empty"]) == 0


def test_values_of_another_kind_are_refused(parse):
    with pytest.raises(BrokenRuleError) as error:
        values_of(parse({"nodes/a.x": [1, 2]}), "nodes/a.x", FLOATS)

    assert error.value.message("record 7 of f.gz") == (
        "`examples_dir` must hold examples in which 'nodes/a.x' is a float_list; got a int64_list in "
        "record 7 of f.gz. Write the values in the declared dtype."
    )


@pytest.mark.parametrize(
    ("content", "size"),
    [({"nodes/a.#size": [2]}, 2), ({}, 0), ({"nodes/a.#size": [], "nodes/a.x": []}, 0), ({"nodes/a.#size": [0]}, 0)],
)
def test_a_set_has_the_size_that_is_written_and_without_one_is_empty(parse, content, size):
    assert set_size(parse(content), NODES) == size
    assert set_size(parse(content), CONTEXT) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nodes/a.x": [1.0, 2.0, 3.0]}, "'nodes/a.#size' counts the items of node set 'a'; got none beside 3 values"),
        ({"nodes/a.#size": [1, 1]}, "'nodes/a.#size' is one number, at least 0; got [1, 1] in record 7"),
        ({"nodes/a.#size": [-1]}, "'nodes/a.#size' is one number, at least 0; got [-1] in record 7"),
        ({"nodes/a.#size": [1.0]}, "'nodes/a.#size' is a int64_list; got a float_list in record 7"),
    ],
)
def test_a_size_that_is_none_is_refused(parse, content, message):
    with pytest.raises(BrokenRuleError) as error:
        set_size(parse(content), NODES)

    assert message in error.value.message("record 7 of f.gz")
