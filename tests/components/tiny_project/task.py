"""The task as `python -m tfx_gnn_pipelines tiny_project.task:TASK` finds it."""

import os

from tfx_gnn.models import NodeClassification
from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan
from tfx_gnn_pipelines.task import PipelineTask

TASK = PipelineTask(
    name="tiny",
    description="topic of a paper",
    tables_dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables"),
    plan=SamplingPlan(
        seed_node_set="paper",
        hops=(
            Hop(edge_set="cites", fan_out=2),
            Hop(edge_set="writes", fan_out=1, direction="backward", inputs=("seed", "cites")),
        ),
        label_features=("topic",),
        splits=SplitPlan(column="split"),
    ),
    preprocessing_fn="tiny_project.preprocessing:preprocessing_fn",
    model_fn="tiny_project.model:model_fn",
    prediction=NodeClassification(label_feature="topic", class_vocabulary="topic"),
    num_epochs=8,
    batch_size=5,
)
