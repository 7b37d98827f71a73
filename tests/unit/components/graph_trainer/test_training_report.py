from __future__ import annotations

import dataclasses
import math

import pytest
import tf_keras

from tfx_gnn.components.graph_trainer.training_report import (
    render_training_report,
    training_notes,
    write_training_report,
)
from tfx_gnn.reports.report_page import REPORT_FILE
from tfx_gnn.training.data.input_pipeline import EpochInput
from tfx_gnn.training.loop.summary import (
    LayerSummary,
    TrainingSummary,
    WeightSummary,
    describe_layers,
    read_training_summary,
    write_training_summary,
)

ODD_NAME = '<script>alert("x")</script>& {{ x }} $\\frac{'
INPUT = EpochInput(
    num_steps=4,
    num_batches=4,
    num_graphs=1200,
    num_removed_batches=0,
    num_removed_graphs=0,
    graphs_per_batch=300.0,
    fill=0.75,
    removed_share=0.0,
    graphs_per_second=512.0,
    input_bound_share=0.1,
)


WATCHED = {"num_epochs": 9, "early_stopping_patience": 1, "monitor": "val_accuracy"}


def made_summary(val_losses=(0.5, 0.25, 0.75), *, inputs=INPUT, metric="accuracy", **fields):
    epochs = tuple(
        {"loss": loss / 2, metric: 0.5, "val_loss": loss, f"val_{metric}": 0.25 * epoch}
        for epoch, loss in enumerate(val_losses)
    )
    defaults = {
        "model_fn": "my.model:model_fn",
        "num_parameters": 12,
        "num_classes": 2,
        "num_train_examples": 1200,
        "num_eval_examples": 40,
        "num_eval_examples_of_unknown_class": 0,
        "batching": "packed",
        "budget": {"kind": "packing", "batch_size": 300},
        "eval_budget": {},
        "strategy": "default",
        "num_replicas": 1,
        "num_steps": 4 * len(epochs),
        "epochs": epochs,
        "epoch_inputs": (inputs,) * len(epochs),
        "exported_epoch": 2,
        "stopped_early": True,
        "seconds": 61.0,
        "layers": (
            LayerSummary(
                name="logits",
                kind="Dense",
                num_parameters=12,
                weights=(
                    WeightSummary(name="logits/kernel", shape=(5, 2), is_trained=True),
                    WeightSummary(name="logits/scale", shape=(), is_trained=False),
                ),
            ),
        ),
        "options": {"num_epochs": 9, "hyperparameters": {"units": 8}},
    }
    return TrainingSummary(**{**defaults, **fields})


def test_the_page_shows_figures_layers_and_where_training_stopped(read_page):
    page = render_training_report(made_summary())

    read = read_page(page)
    text = " ".join(read.text.split())
    result, epochs, layers = read.tables
    assert result == [
        ["epoch 2", "training", "validation"],
        ["loss", "0.1250", "0.2500"],
        ["accuracy", "0.5000", "0.2500"],
    ]
    assert epochs[1:3] == [
        ["1", "0.2500", "0.5000", "0.5000", "0.000", "4", "1,200", "512", "10.0%", "25.0%", "0%"],
        ["2 (exported)", "0.1250", "0.2500", "0.5000", "0.2500", "4", "1,200", "512", "10.0%", "25.0%", "0%"],
    ]
    assert layers[1] == ["logits", "Dense 2 variables logits/kernel [5, 2] logits/scale [], not trained", "12"]
    assert "Training stopped after epoch 3 of 9, because the validation loss no longer fell." in text
    assert "my.model:model_fn: 12 parameters, 3 epochs on 1,200 graphs, 1 min 1 s." in text
    assert "hyperparameters{'units': 8}" in text
    assert page.count("<svg") == page.count('role="img"') == 6
    assert "Worth a thought" not in text
    assert not {"script", "link", "img"} & read.tags
    assert len(read.ids) == len(set(read.ids))
    assert render_training_report(made_summary()) == page


def test_odd_names_and_figures_are_shown_as_they_are(read_page):
    summary = made_summary((math.nan,), metric=ODD_NAME, exported_epoch=1, stopped_early=False, model_fn=ODD_NAME)

    read = read_page(render_training_report(summary))

    assert "script" not in read.tags
    assert read.text.count(ODD_NAME) >= 5
    assert read.tables[0][1] == ["loss", "nan", "nan"]
    assert "Training ran all of its 9 epochs." in read.text


def test_what_was_watched_is_named(read_page):
    text = " ".join(read_page(render_training_report(made_summary(options=WATCHED))).text.split())

    assert "after epoch 3 of 9, because val_accuracy no longer improved." in text
    assert "The weights of epoch 2 were exported: its val_accuracy, 0.2500, was the best." in text


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        (made_summary((3.0, 2.0)), "lowest in the last epoch"),
        (made_summary((1.0, 2.0), options=WATCHED), "`val_accuracy` was best in the last epoch"),
        (made_summary((1.0, 2.0, 3.0)), "lowest in epoch 1, but epoch 2 was exported: `early_stopping_patience`"),
        (
            made_summary(inputs=dataclasses.replace(INPUT, num_removed_graphs=100)),
            "never saw 300 of 3,900 graphs, because their batches did not fit",
        ),
        (
            made_summary(inputs=dataclasses.replace(INPUT, input_bound_share=0.5, graphs_per_second=10.0)),
            "waited for their input 50%",
        ),
        (made_summary(warnings=("The network is no better than a constant.",)), "no better than a constant"),
        (made_summary(num_eval_examples_of_unknown_class=3), "3 labels of the evaluation split"),
    ],
)
def test_what_might_be_done_better_is_said(summary, words):
    (note,) = training_notes(summary)

    assert words in note


def test_a_summary_comes_back_from_its_file_and_gives_the_same_page(tmp_path):
    summary = made_summary()

    write_training_summary(summary, str(tmp_path))
    write_training_report(summary, str(tmp_path / REPORT_FILE))

    assert read_training_summary(str(tmp_path)) == summary
    assert (tmp_path / REPORT_FILE).read_text(encoding="utf-8") == render_training_report(summary)
    with pytest.raises(ValueError, match=r"`model_run_dir` must hold training_summary.json; got .*nothing"):
        read_training_summary(str(tmp_path / "nothing"))


def test_layers_are_those_of_the_model():
    inputs = tf_keras.Input([3])
    normalized = tf_keras.layers.BatchNormalization(name="norm")(inputs)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(2, name="logits")(normalized))

    layers = {layer.name: layer for layer in describe_layers(model)}

    assert layers["logits"].num_parameters == 8
    assert [weight.shape for weight in layers["logits"].weights] == [(3, 2), (2,)]
    assert [weight.is_trained for weight in layers["norm"].weights] == [True, True, False, False]
    assert sum(layer.num_parameters for layer in layers.values()) == model.count_params()
