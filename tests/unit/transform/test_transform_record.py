from __future__ import annotations

from pathlib import Path

import pytest

from tfx_gnn.transform.transform_record import (
    TRANSFORM_RECORD_FILE,
    TransformRecord,
    check_transformed_by,
    read_transform_record,
)


def test_note_is_read_back(tmp_path: Path) -> None:
    record = TransformRecord(transform="1", raw_examples="2", nonfinite_features=("nodes/item.x",))

    record.write(str(tmp_path))

    assert read_transform_record(str(tmp_path)) == record


@pytest.mark.parametrize("text", ["[]", "{}", '{"transform": "1", "raw_examples": "2", "nonfinite_features": 3}'])
def test_another_file_of_the_name_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / TRANSFORM_RECORD_FILE).write_text(text)

    with pytest.raises(ValueError, match=r"graph_transform.json` must be a note of GraphTransform; got something else"):
        read_transform_record(str(tmp_path))


def test_outputs_of_releases_without_notes_are_taken(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "graph").mkdir()
    TransformRecord(transform="1", raw_examples="2").write(str(tmp_path / "graph"))

    check_transformed_by(str(tmp_path / "examples"), str(tmp_path / "graph"))

    assert read_transform_record(str(tmp_path / "examples")) is None
