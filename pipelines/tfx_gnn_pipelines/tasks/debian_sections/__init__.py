"""Task: predict the archive section of a Debian package from its neighbourhood."""

import os

from tfx_gnn.models import NodeClassification
from tfx_gnn_pipelines.task import PipelineTask
from tfx_gnn_pipelines.tasks.debian_sections.plan import PLAN

TASK = PipelineTask(
    name="debian_sections",
    description="section of a Debian package, from its relations to packages, sources, maintainers and tags",
    tables_dir=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data"),
    plan=PLAN,
    preprocessing_fn="tfx_gnn_pipelines.tasks.debian_sections.preprocessing:preprocessing_fn",
    model_fn="tfx_gnn_pipelines.tasks.debian_sections.model:model_fn",
    prediction=NodeClassification(label_feature="section", class_vocabulary="section"),
    num_epochs=16,
)

__all__ = ["TASK"]
