from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.models.tasks import GraphRegression
from tfx_gnn.models.tasks.output_layers import shape_in_words


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([None, 2], "[rows, 2]"),
        ([None], "[rows]"),
        ([3, 2], "[3, 2]"),
        ([None, None], "[rows, any]"),
        ([], "[]"),
        (None, "[any]"),
    ],
)
def test_unknown_sizes_are_words(shape, text):
    assert shape_in_words(tf.TensorShape(shape)) == text


def test_label_of_any_number_of_graphs_has_rows(seeds):
    spec = seeds.spec.relax(num_components=True)

    with pytest.raises(ValueError, match=r"got float32 of shape \[rows, 2\] in 'energy'"):
        GraphRegression(label_feature="energy", num_outputs=3).objective().check_spec(spec)
