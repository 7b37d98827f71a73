import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.piece_parts import FrozenMapping


def test_items_keep_their_order_and_cannot_be_assigned():
    mapping = FrozenMapping({"b": 1, "a": 2})

    assert list(mapping) == ["b", "a"]
    assert mapping["a"] == 2
    assert len(mapping) == 2
    assert repr(mapping) == "{'b': 1, 'a': 2}"
    with pytest.raises(TypeError, match="does not support item assignment"):
        mapping["a"] = 3


def test_a_copy_is_a_dict_of_its_own():
    mapping = FrozenMapping([("a", 1)])

    copy = mapping.copy()
    copy["b"] = 2

    assert copy == {"a": 1, "b": 2}
    assert dict(mapping) == {"a": 1}


def test_nest_takes_it_apart_and_rebuilds_it():
    doubled = tf.nest.map_structure(lambda value: 2 * value, FrozenMapping({"b": 1, "a": FrozenMapping({"c": 3})}))

    assert isinstance(doubled, FrozenMapping)
    assert list(doubled) == ["b", "a"]
    assert doubled["b"] == 2
    assert dict(doubled["a"]) == {"c": 6}
