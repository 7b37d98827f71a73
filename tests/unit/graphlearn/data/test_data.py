"""`Data`: attributes by name, in numpy and in TensorFlow."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graphlearn.data.data import Data, flat_rows


def _data():
    return Data(
        ids=np.array([3, 4]),
        ints=np.array([[1], [2]]),
        floats=np.array([[0.5], [1.5]], np.float32),
        strings=np.array([["a"], ["b"]]),
        labels=np.array([0, 1], np.int32),
        weights=np.array([0.1, 0.2], np.float32),
        timestamps=np.array([7, 8]),
        degrees=np.array([5, 6]),
    )


def test_what_is_missing_is_none_and_further_arrays_become_attributes():
    data = Data(ids=np.array([3, 4]), degrees=np.array([5, 6]))
    data["hidden"] = np.zeros([2, 3])

    assert data.int_attrs is None
    assert data.timestamps is None
    assert data["unknown"] is None
    assert data["apply"] is None
    assert data.degrees.tolist() == data["degrees"].tolist() == [5, 6]
    assert data.keys == ["ids", "degrees", "hidden"]


def test_lists_become_arrays():
    data = Data([3, 4], floats=[[0.5], [1.5]], degrees=(1, 2))

    assert data.num_items == 2
    assert data.float_attrs.shape == (2, 1)
    assert data["degrees"].tolist() == [1, 2]


def test_apply_changes_every_array_in_place_and_nothing_else():
    data = Data(ids=np.array([3, 4]), degrees=np.array([5, 6]))
    data._handler_dict = {}
    seen = []

    result = data.apply(lambda array: seen.append(array) or array + 1)

    assert result is data
    assert len(seen) == 2
    assert data.ids.tolist() == [4, 5]
    assert data.degrees.tolist() == [6, 7]
    assert data._handler_dict == {}


def test_flat_order_is_that_of_graphlearn_and_from_tensors_is_its_inverse():
    data = _data()

    again = Data.from_tensors(data.flatten(), data.keys)

    assert data.keys == [
        "int_attrs",
        "float_attrs",
        "string_attrs",
        "labels",
        "weights",
        "timestamps",
        "ids",
        "degrees",
    ]
    assert again.keys == data.keys
    assert all(again[key] is data[key] for key in data.keys)
    with pytest.raises(ValueError, match="`tensors` must hold one tensor per key; got 1"):
        Data.from_tensors(data.flatten()[:1], data.keys)


def test_names_that_are_taken_are_refused():
    with pytest.raises(ValueError, match="`flatten` must be a free name"):
        Data(flatten=np.zeros([1]))
    with pytest.raises(ValueError, match="`_spec` must be a free name"):
        Data()["_spec"] = np.zeros([1])
    with pytest.raises(ValueError, match="must hold an array to tell its number"):
        _ = Data().num_items


def test_it_is_a_value_of_functions_and_datasets():
    traces = []

    @tf.function
    def double(data):
        traces.append(data)
        return Data(data.ids * 2, strings=data.string_attrs, degrees=data.degrees), data.num_items

    dataset = tf.data.Dataset.from_generator(lambda: iter([_data()] * 2), output_signature=_data().spec.relax())
    batches = list(dataset.map(double).prefetch(1))
    double(_data())
    doubled, num_items = double(_data())

    assert doubled.ids.numpy().tolist() == [6, 8]
    assert doubled.string_attrs.numpy().tolist() == [[b"a"], [b"b"]]
    assert doubled.labels is None
    assert int(num_items) == 2
    assert [batch[0].degrees.numpy().tolist() for batch in batches] == [[5, 6], [5, 6]]
    assert int(batches[0][1]) == 2
    assert len(traces) <= 2


def test_neighbors_get_one_row_each():
    values = types.SimpleNamespace(
        ids=np.array([[1, 2, 3], [4, 5, 6]]),
        int_attrs=np.arange(12).reshape(2, 3, 2),
        float_attrs=None,
        labels=np.array([[0, 1, 0], [1, 0, 1]]),
        weights=np.ones([2, 3]),
    )

    rows = flat_rows(values)

    assert rows["int_attrs"].shape == (6, 2)
    assert rows["int_attrs"][3].tolist() == [6, 7]
    assert rows["labels"].tolist() == [0, 1, 0, 1, 0, 1]
    assert rows["weights"].shape == (6,)
    assert rows["ids"].tolist() == [1, 2, 3, 4, 5, 6]
    assert "float_attrs" not in rows
