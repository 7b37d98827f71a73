"""The verb `report`: renders the page of a training or a search again from its figures."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tfx_gnn.cli import arguments


def report(
    folder: Annotated[
        str,
        typer.Argument(help="A model run of `train`, or an output of `tune`.", show_default=False),
    ],
    *,
    output: Annotated[
        str,
        typer.Option(
            help="Where to write the page instead of into the folder; a file that is there is replaced.",
            metavar="FILE",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write the report of a training or of a search again, and say where it is."""
    import tensorflow as tf

    from tfx_gnn.components.graph_trainer.training_report import training_notes, write_training_report
    from tfx_gnn.components.graph_tuner.trials import TRIALS_FILE, read_tuning_summary
    from tfx_gnn.components.graph_tuner.tuning_report import write_tuning_report
    from tfx_gnn.reports.report_page import REPORT_FILE
    from tfx_gnn.training.loop.summary import read_training_summary

    page = output or os.path.join(folder, REPORT_FILE)
    if tf.io.gfile.exists(os.path.join(folder, TRIALS_FILE)):
        write_tuning_report(read_tuning_summary(folder), page)
    else:
        summary = read_training_summary(folder)
        write_training_report(summary, page)
        for note in training_notes(summary):
            arguments.console.print(note, markup=False, soft_wrap=True)
    arguments.say_written(report=page)
