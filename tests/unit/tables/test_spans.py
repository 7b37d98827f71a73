import pytest

from tfx_gnn.tables.spans import TablesSpan, check_span_pattern, find_span, find_window, folder_of_spans, has_span

DAYS_TO_2026_01_31 = 20484  # 56 years, 14 of them leap years, and 30 days


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("number/3", "number/12", "number/x", "width/007", "width/12", "date/2026-01-31", "date/2026-02-31"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("parts/2025/12/31/tables", "parts/2026/01/02/tables", "parts/2026/03/01"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("version/7/v2", "version/7/v10", "version/8/v1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "number" / "99").write_text("no folder")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "span", "expected"),
    [
        ("number/{SPAN}", "", TablesSpan(folder="number/12", span=12, name="12")),
        ("number/{SPAN}/", "3", TablesSpan(folder="number/3", span=3, name="3")),
        ("width/{SPAN:3}", "", TablesSpan(folder="width/007", span=7, name="007")),
        ("date/{DATE}", "", TablesSpan(folder="date/2026-01-31", span=DAYS_TO_2026_01_31, name="2026-01-31")),
        ("date/{YYYY}-{MM}-{DD}", "20484", TablesSpan(folder="date/2026-01-31", span=20484, name="2026-01-31")),
        (
            "parts/{YYYY}/{MM}/{DD}/tables",
            "",
            TablesSpan(folder="parts/2026/01/02/tables", span=20455, name="2026-01-02"),
        ),
        (
            "parts/{YYYY}/{MM}/{DD}/tables",
            "2025-12-31",
            TablesSpan(folder="parts/2025/12/31/tables", span=20453, name="2025-12-31"),
        ),
        ("version/{SPAN}/v{VERSION}", "", TablesSpan(folder="version/8/v1", span=8, version=1, name="8")),
        ("version/{SPAN}/v{VERSION}", "7", TablesSpan(folder="version/7/v10", span=7, version=10, name="7")),
        ("number", "", TablesSpan(folder="number")),
    ],
)
def test_span_is_the_newest_or_the_one_that_is_named(here, pattern, span, expected):
    assert find_span(pattern, span) == expected


def test_places_of_all_file_systems_are_searched(here):
    assert find_span(f"{here}/number/{{SPAN}}").folder == f"{here}/number/12"
    assert find_span(f"file://{here}/number/{{SPAN}}").folder == f"file://{here}/number/12"


def test_a_span_that_arrives_later_is_the_newest_then(here):
    (here / "number" / "13").mkdir()

    assert find_span("number/{SPAN}").span == 13


def test_an_earlier_version_is_found_by_its_number(here):
    assert find_span("version/{SPAN}/v{VERSION}", "7", version=2).folder == "version/7/v2"
    with pytest.raises(ValueError, match=r"`version` must be a version of span 7 of .* has \[2, 10\]; got 3"):
        find_span("version/{SPAN}/v{VERSION}", "7", version=3)


@pytest.mark.parametrize(
    ("pattern", "span", "num_spans", "folders"),
    [
        ("number/{SPAN}", "", 2, ["number/3", "number/12"]),
        ("number/{SPAN}", "", 5, ["number/3", "number/12"]),
        ("number/{SPAN}", "3", 2, ["number/3"]),
        ("version/{SPAN}/v{VERSION}", "", 2, ["version/7/v10", "version/8/v1"]),
        ("number/{SPAN}", "", 1, ["number/12"]),
        ("number", "", 1, ["number"]),
    ],
)
def test_window_ends_with_the_newest_span_and_has_those_that_there_are(here, pattern, span, num_spans, folders):
    assert [one.folder for one in find_window(pattern, span, num_spans=num_spans).spans] == folders


@pytest.mark.parametrize(
    ("days", "gaps"),
    [
        (["01-01", "01-02", "01-04"], (("2026-01-02", "2026-01-04"),)),
        (["01-01", "01-08", "01-15"], ()),
        (["01-31", "02-28", "03-31"], ()),
        (["01-31", "02-28", "04-30"], (("2026-02-28", "2026-04-30"),)),
    ],
    ids=["day missing", "weekly", "monthly", "month missing"],
)
def test_window_says_where_a_span_seems_to_be_missing(tmp_path, days, gaps):
    for day in days:
        (tmp_path / f"2026-{day}").mkdir()

    assert find_window(f"{tmp_path}/{{DATE}}", num_spans=3).gaps == gaps


def test_window_of_a_plain_folder_is_refused(here):
    with pytest.raises(ValueError, match=r"`num_spans` must be 1, unless `tables_dir` .*; got 2 for 'numb"):
        find_window("number", num_spans=2)


@pytest.mark.parametrize(
    ("pattern", "span", "message"),
    [
        ("number/{SPAN}", "4", r"`span` must be a span of 'number/\{SPAN\}', which has 3, 12; got '4'"),
        ("number/{SPAN}", "last", r"`span` must be a number for .*; got 'last'"),
        ("date/{DATE}", "2026-02-31", r"`span` must be a number, or a date such as 2026-01-31, for .*'2026-02-31'"),
        ("number", "3", r"`span` must be left out, unless `tables_dir` is a pattern of spans; got '3' for 'number'"),
        ("date/{SPAN}", "", r"got 'date/\{SPAN\}', and 'date/' has \['2026-01-31', '2026-02-31'\] in it.*date/1\."),
        ("gone/{DATE}", "", r"'gone/' has nothing in it.*such as gone/2026-01-31\."),
        ("width/{SPAN:4}", "", r"such as width/0001\."),
    ],
)
def test_span_that_is_not_there_is_refused_with_what_is(here, pattern, span, message):
    with pytest.raises(ValueError, match=message):
        find_span(pattern, span)


def test_two_folders_of_one_span_are_refused(here):
    (here / "width" / "7").mkdir()

    with pytest.raises(ValueError, match=r"one folder for a span and version; got \['width/007', 'width/7'\]"):
        find_span("width/{SPAN}", "7")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("data/{SPANS}", r"placeholders among \{SPAN\}.*; got \{SPANS\} in 'data/\{SPANS\}'"),
        ("data/{YYYY}/{MM}", "each of {YYYY}, {MM} and {DD} once"),
        ("data/{SPAN}/{DATE}", "must have {SPAN} once, or"),
        ("data/{SPAN}/{SPAN}", "must have {SPAN} once, or"),
        ("data/{VERSION}", "must have {SPAN} once, or"),
        ("data/{SPAN}/{VERSION}/{VERSION}", "{VERSION} at most once"),
        ("data/{SPAN:x}", r"whole number of digits.*; got \{SPAN:x\}"),
        ("data/{YYYY:4}/{MM}/{DD}", r"nothing behind the parts of a date; got \{YYYY:4\}"),
    ],
)
def test_pattern_from_which_no_span_can_be_told_is_refused(pattern, message):
    assert has_span(pattern)
    with pytest.raises(ValueError, match=message):
        check_span_pattern(pattern)


@pytest.mark.parametrize(
    ("tables_dir", "expected"), [("a/b{SPAN}/c", "a/"), ("{SPAN}", "."), ("/{SPAN}", "/"), ("a/b", "a/b")]
)
def test_all_spans_lie_below_one_folder(tables_dir, expected):
    assert folder_of_spans(tables_dir) == expected
