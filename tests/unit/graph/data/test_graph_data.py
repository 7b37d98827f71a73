from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn import GraphData


class GrowingData(GraphData):
    def __inc__(self, key, value, *args, **kwargs):
        return super().__inc__(key, value, *args, **kwargs)


def test_values_are_attributes_and_items():
    data = GraphData(x=tf.ones([2, 3]), name="a")
    data.z = [1, 2]
    data["w"] = 5

    assert data.keys() == ["x", "name", "z", "w"]
    assert isinstance(data.x, np.ndarray)
    assert (data["z"], data.w, data.num_nodes, data.num_edges, len(data)) == ([1, 2], 5, 2, 0, 4)
    assert data.y is None
    assert repr(data) == "GraphData(x=[2, 3], name='a', z=[2], w=5)"
    data.w = None
    del data.z
    assert "w" not in data
    assert [key for key, _ in data] == ["x", "name"]
    with pytest.raises(AttributeError, match=r"`q` must be a key of GraphData.*Its keys are"):
        _ = data.q


def test_tensors_without_values_are_refused():
    with pytest.raises(TypeError, match="`x` must be an array or an eager dense tensor; got RaggedTensor"):
        GraphData(x=tf.ragged.constant([[1], []]))


def test_arrays_that_overridden_methods_see_have_the_size_of_tensors():
    data = GrowingData(x_s=np.zeros([5, 16]))

    assert (data.x_s.size(0), data.x_s.size(-1), data.x_s.size(), data.x_s.size) == (5, 16, (5, 16), 80)
    assert type(GraphData(x=np.zeros([1])).x) is np.ndarray


@pytest.mark.parametrize("num_nodes", [-1, "3", 1.5, [3]])
def test_a_number_of_nodes_is_a_number(num_nodes):
    with pytest.raises(ValueError, match="`num_nodes` must be an integer of at least 0"):
        GraphData(num_nodes=num_nodes)


def test_rows_of_a_list_have_one_length():
    with pytest.raises(ValueError, match="`x` must have rows of one length"):
        GraphData(x=[[1], [1, 2]])
