"""What the examples say of the tables that they were made of."""

import json

import pytest

from tfx_gnn.records.example_gen_report import (
    EXAMPLE_GEN_REPORT_FILE,
    find_same_span,
    read_num_seeds,
    read_table_rows,
    read_tables_span,
)
from tfx_gnn.tables.spans import TablesSpan


@pytest.fixture
def write_report(tmp_path):
    """Writes a part of a report, and returns its folder."""

    def write(content):
        (tmp_path / EXAMPLE_GEN_REPORT_FILE).write_text(json.dumps(content))
        return str(tmp_path)

    return write


def test_the_span_of_examples_may_be_a_date_before_1970(write_report, tmp_path):
    (tmp_path / "1969-12-30").mkdir()
    span = {"folder": "elsewhere", "span": -2, "version": None, "name": "1969-12-30"}

    found = find_same_span(f"{tmp_path}/{{DATE}}", write_report({"tables_span": span}))

    assert found == TablesSpan(folder=f"{tmp_path}/1969-12-30", span=-2, name="1969-12-30")


def test_the_version_is_that_of_the_examples_and_the_span_must_be(write_report, tmp_path):
    for name in ("7/1", "7/2", "8/1"):
        (tmp_path / name).mkdir(parents=True)
    pattern = f"{tmp_path}/{{SPAN}}/{{VERSION}}"
    examples_dir = write_report({"tables_span": {"folder": "elsewhere", "span": 7, "version": 1, "name": "7"}})

    assert find_same_span(pattern, examples_dir).folder == f"{tmp_path}/7/1"
    assert find_same_span(pattern, examples_dir, "007").version == 1
    with pytest.raises(ValueError, match=r"`span` must be that of the examples .*, 7; got '8'. Leave it out."):
        find_same_span(pattern, examples_dir, "8")


@pytest.mark.parametrize("content", [{}, {"tables_span": None}])
def test_examples_of_no_span_cannot_name_the_folder_of_a_pattern(write_report, content):
    with pytest.raises(ValueError, match="`tables_dir` must be a folder for examples that were not made of a span"):
        find_same_span("spans/{SPAN}", write_report(content))


def test_examples_of_another_tool_have_no_report(tmp_path):
    assert (read_num_seeds(str(tmp_path)), read_table_rows(str(tmp_path)), read_tables_span(str(tmp_path))) == (
        None,
        None,
        None,
    )


def test_a_damaged_report_is_named(write_report):
    with pytest.raises(ValueError, match=r"`tables.nodes/a.rows_used` must be an integer; got null in .*statistics"):
        read_table_rows(write_report({"tables": {"nodes/a": {"rows_used": None}}}))
