"""Task: predict a user's interest from the user's purchases."""

import os

from tfx_gnn.models import NodeClassification
from tfx_gnn_pipelines.task import PipelineTask

from my_graph.plan import PLAN

# `python -m tfx_gnn_pipelines my_graph:TASK` finds everything from here.
TASK = PipelineTask(
    name="my_graph",
    description="interest of a user, from what the user and users like that one bought",
    # The tables are inside the package, so they are available wherever it is installed.
    tables_dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data"),
    plan=PLAN,
    # By name, "package.module:function": other processes, possibly on other machines, import them.
    preprocessing_fn="my_graph.preprocessing:preprocessing_fn",
    model_fn="my_graph.model:model_fn",
    # The label, and the vocabulary of its classes that `preprocessing_fn` makes.
    prediction=NodeClassification(label_feature="interest", class_vocabulary="interest"),
    num_epochs=20,
    batch_size=32,
    # Training stops after this many epochs without a lower validation loss; the best epoch is exported.
    early_stopping_patience=5,
)

__all__ = ["TASK"]
