"""The index of the shop graph, and the transform of its examples, which changes nothing."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def shop_index(shop_graph: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The index."""
    tables = tmp_path_factory.mktemp("shop")
    shop_graph.write_tables(str(tables))
    return shop_graph.index_of(str(tables), str(tmp_path_factory.mktemp("index")))


@pytest.fixture(scope="session")
def shop_transform_dir(
    shop_graph: ModuleType, task_graphs: ModuleType, shop_index: Any, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The transform."""
    text = shop_graph.schema_text(shop_index, shop_graph.PLAN)
    folder: str = task_graphs.write_identity_transform(str(tmp_path_factory.mktemp("shop") / "transform"), text)
    return folder
