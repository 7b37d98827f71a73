import pytest
import tensorflow as tf

from tfx_gnn.records.example_batches import BYTES, FLOATS, INTS, BrokenRuleError, num_values, values_of


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
