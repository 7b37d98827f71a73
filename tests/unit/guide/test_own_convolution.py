"""docs/how_to/own_convolution.md: its layer is the formula, learns, is saved, and is chosen by name in a project."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn
from tfx_gnn.cli.project_verbs import create_project
from tfx_gnn.io.user_code import load_function
from tfx_gnn.models import NodeClassification
from tfx_gnn_pipelines.project import read_project

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how_to" / "own_convolution.md").read_text()
MODULE, TRIAL = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The starter with the module and the change of the page."""
    folder, _ = create_project(str(tmp_path_factory.mktemp("projects") / "web-shop"))
    folder = Path(folder)
    (folder / "web_shop" / "gated.py").write_text(MODULE)
    (change,) = re.findall(r"^```diff\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    removed, *added = change.splitlines()
    text = (folder / "project.yaml").read_text()
    assert text.count(removed[1:] + "\n") == 1
    lines = [line[1:] for line in added]
    (folder / "project.yaml").write_text(text.replace(removed[1:], "\n".join(lines)))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", "")
        yield folder
    for module in [name for name in sys.modules if name.partition(".")[0] == "web_shop"]:
        del sys.modules[module]


def test_the_trial_prints_what_the_comments_below_say(project):
    printed = []

    exec(TRIAL, {"print": lambda *values: printed.append(" ".join(map(str, values)))})  # noqa: S102 - the page's code.

    assert printed == re.findall(r"^print\(.*\n# (.*)$", TRIAL, re.MULTILINE)
    assert len(printed) == 3


@pytest.fixture
def graph():
    """Two users, who bought the one product."""
    numbers = {"numbers": tf.constant([[1.0, 0.0], [0.0, 1.0]])}
    purchases = tfgnn.Adjacency.from_indices(("user", tf.constant([0, 1])), ("product", tf.constant([0, 0])))
    bare = tfgnn.GraphTensor.from_pieces(
        node_sets={
            "user": tfgnn.NodeSet.from_fields(features=numbers, sizes=[2]),
            "product": tfgnn.NodeSet.from_fields(features={"numbers": tf.constant([[0.5]])}, sizes=[1]),
        },
        edge_sets={"purchase": tfgnn.EdgeSet.from_fields(sizes=[2], adjacency=purchases)},
    )
    return tfgnn.add_readout_from_first_node(bare, "seed", node_set_name="user")


def test_the_project_names_the_network_which_learns_and_is_made_again(project, graph):
    config = read_project(str(project)).configure()
    network = load_function(config.graph_trainer.model_fn)
    task = NodeClassification(label_feature="interest", num_classes=3)

    # One layer, which is built in half the time.
    model = network(graph.spec, task.objective(), None, {**config.graph_trainer.hyperparameters, "num_layers": 1})
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(graph) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)

    assert config.graph_trainer.model_fn == "web_shop.gated:gated"
    assert model(graph).shape == (1, 3)
    convolutions = [weight.name for weight in model.trainable_variables if "gated_conv" in weight.name]
    # The product's last state is read by nobody.
    unread = [
        weight.name for weight, gradient in zip(model.trainable_variables, gradients, strict=True) if gradient is None
    ]
    assert len(convolutions) == 2 * 4
    assert len(unread) == 4 + 2
    again = tf_keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    tf.debugging.assert_near(again(graph), model(graph))


def test_a_wrong_hyperparameter_is_refused(project, graph):
    network = load_function("web_shop.gated:gated")

    with pytest.raises(ValueError, match=r"must be among \['num_layers', 'units'\]; got \['unit'\]"):
        network(graph.spec, NodeClassification(label_feature="x", num_classes=2).objective(), None, {"unit": 1})
