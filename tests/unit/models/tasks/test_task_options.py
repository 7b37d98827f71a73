from __future__ import annotations

from typing import Any

import pytest

from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.stages.files import options_json


def test_task_travels_as_json() -> None:
    task = NodeClassification(label_feature="section", class_vocabulary="sections")

    assert options_json.from_json(options_json.to_json(task), NodeClassification) == task


@pytest.mark.parametrize("value", ["", "#size", None])
@pytest.mark.parametrize("name", ["label_feature", "class_vocabulary"])
def test_name_that_is_no_feature_is_refused(name: str, value: Any) -> None:
    arguments = {"label_feature": "section", "class_vocabulary": "sections", name: value}

    with pytest.raises(ValueError, match=f"`{name}` must be a name that does not begin with '#'"):
        NodeClassification(**arguments)
