"""Task: predict what a user is interested in from what the user bought."""

import os

from tfx_gnn.models import NodeClassification
from tfx_gnn_pipelines.task import PipelineTask

from my_graph.plan import PLAN

# `python -m tfx_gnn_pipelines my_graph:TASK` finds everything from here.
TASK = PipelineTask(
    name="my_graph",
    description="interest of a user, from what the user and users like that one bought",
    # The tables lie inside the package, so that they are there wherever it is installed.
    tables_dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data"),
    plan=PLAN,
    # By name, "package.module:function": processes of their own, elsewhere perhaps, import them.
    preprocessing_fn="my_graph.preprocessing:preprocessing_fn",
    model_fn="my_graph.model:model_fn",
    # The label, and the vocabulary that `preprocessing_fn` makes of its classes.
    prediction=NodeClassification(label_feature="interest", class_vocabulary="interest"),
    num_epochs=20,
    batch_size=32,
    # After so many epochs without a lower validation loss training stops; the best epoch is exported.
    early_stopping_patience=5,
)

__all__ = ["TASK"]
