import pytest

from tfx_gnn.tables.table_paths import format_of_name, resolve_files, resolve_table_files


def _resolve(tmp_path, name):
    return [path.removeprefix(f"{tmp_path}/") for path in resolve_files(str(tmp_path / name))]


@pytest.fixture
def folder(tmp_path):
    for name in [
        *(f"x-{i:05d}-of-00003.csv" for i in range(3)),
        *(f"y.tfrecord-{i:05d}-of-00002" for i in range(2)),
        "nodes-b.csv",
        "nodes-a.csv",
        "one.csv",
        "what?.csv",
        "nodes-folder.csv/inner.csv",
        "z-00001-of-00002.csv",
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one.csv", ["one.csv"]),
        ("what?.csv", ["what?.csv"]),
        ("nodes-*.csv", ["nodes-a.csv", "nodes-b.csv"]),
        ("x@3.csv", [f"x-{i:05d}-of-00003.csv" for i in range(3)]),
        ("x@*.csv", [f"x-{i:05d}-of-00003.csv" for i in range(3)]),
        ("x-?????-of-00003.csv", [f"x-{i:05d}-of-00003.csv" for i in range(3)]),
        ("y.tfrecord@2", ["y.tfrecord-00000-of-00002", "y.tfrecord-00001-of-00002"]),
        ("y.tfrecord-?????-of-?????", ["y.tfrecord-00000-of-00002", "y.tfrecord-00001-of-00002"]),
        ("z-00001-of-00002.csv", ["z-00001-of-00002.csv"]),
        ("[xz]-00001*.csv", []),
        ("absent.csv", []),
        ("absent@3.csv", []),
        ("absent-*.csv", []),
        ("nodes-folder.csv", []),
    ],
)
def test_a_name_stands_for_files_in_order(folder, name, expected):
    if name.startswith("["):
        with pytest.raises(ValueError, match=r"must name shards of one number; got shards of \[2, 3\]"):
            _resolve(folder, name)
    else:
        assert _resolve(folder, name) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x@2.csv", None),
        ("x@4.csv", None),
        ("z@2.csv", r"got 1 of 2 files for .*z@2.csv', without \[0\]"),
        ("z-*.csv", r"got 1 of 2 files for .*z-\*.csv', without \[0\]"),
        ("x-0000[01]*.csv", r"got 2 of 3 files for .*, without \[2\]"),
    ],
)
def test_every_shard_must_be_there(folder, name, message):
    if message is None:
        assert _resolve(folder, name) == []
    else:
        with pytest.raises(ValueError, match=message):
            _resolve(folder, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.csv", ("csv", ",")),
        ("b.csv.gz", ("csv", ",")),
        ("b.tsv", ("csv", "\t")),
        ("b@4.tsv.gz", ("csv", "\t")),
        ("b-?????-of-00004.parquet", ("parquet", "")),
        ("b-00001-of-00004.csv", ("csv", ",")),
        ("b.csv@*", ("csv", ",")),
        ("nodes-*.parquet", ("parquet", "")),
        ("nodes.parquet*", ("parquet", "")),
        ("b.tfrecord", ("tfrecord", "")),
        ("b.tfrecords.gz-?????-of-?????", ("tfrecord", "")),
        ("b-?????-of-?????", ("tfrecord", "")),
        ("b@4", ("tfrecord", "")),
        ("b.csv.zip", None),
        ("b-*", None),
        ("b.xlsx@4", None),
        ("", None),
    ],
)
def test_the_format_is_told_by_the_name(name, expected):
    assert format_of_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one.csv,nodes-*.csv", ["one.csv", "nodes-a.csv", "nodes-b.csv"]),
        ("nodes-b.csv,nodes-a.csv", ["nodes-b.csv", "nodes-a.csv"]),
        ("x@3.csv,one.csv", [*(f"x-{i:05d}-of-00003.csv" for i in range(3)), "one.csv"]),
        ("with,comma.csv", ["with,comma.csv"]),
        ("absent.csv", []),
    ],
)
def test_names_between_commas_stand_for_files_in_their_order(folder, name, expected):
    (folder / "with,comma.csv").write_text("")

    assert [path.removeprefix(f"{folder}/") for path in resolve_table_files(str(folder), name)] == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one.csv,absent.csv", "got 'absent.csv', which names no file, in 'one.csv,absent.csv'"),
        ("one.csv,", "got '', which names no file, in 'one.csv,'"),
        ("nodes-a.csv,nodes-*.csv", r"got 'nodes-\*.csv', which names a file again"),
    ],
)
def test_each_of_several_names_stands_for_files_of_its_own(folder, name, message):
    with pytest.raises(ValueError, match=message):
        resolve_table_files(str(folder), name)


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize("name", ["link.csv", "there/x.csv", "there/absent.csv", "there/x@2.csv", "there/*.csv"])
def test_a_link_that_leads_out_is_refused_before_anything_is_told_of_what_is_there(tmp_path, scheme, name):
    outside, tables = tmp_path / "outside", tmp_path / "tables"
    for path in (outside, tables):
        path.mkdir()
    for file in ("x.csv", "x-00000-of-00002.csv"):
        (outside / file).write_text("")
    (tables / "there").symlink_to(outside)
    (tables / "link.csv").symlink_to(outside / "x.csv")

    with pytest.raises(ValueError, match=r"must name a file inside of the tables folder; .* by a symbolic link"):
        resolve_table_files(f"{scheme}{tables}", name, allow_outside_files=False)


def test_files_of_a_folder_by_its_address_are_found(tmp_path):
    (tmp_path / "x.csv").write_text("")

    files = resolve_table_files(f"file://{tmp_path}", "x.csv", allow_outside_files=False)

    assert files == (f"file://{tmp_path}/x.csv",)
