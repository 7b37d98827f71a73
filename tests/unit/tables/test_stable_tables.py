import pytest

from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.tables.stable_tables import StableTables


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "a").write_text("2"), "a` must stay as it is .*; got a file that has changed since"),
        (lambda folder: (folder / "a").unlink(), "a` must stay as it is .*; got a file that is gone since"),
        (lambda folder: (folder / "c").touch(), "c` must stay as it is .*; got a file that was added since"),
    ],
    ids=["changed", "removed", "added"],
)
def test_file_that_does_not_stay_as_it_is_is_named(tmp_path, change, message):
    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    tables = StableTables(lambda: map(str, tmp_path.iterdir()))

    tables.check()
    change(tmp_path)

    with pytest.raises(ValueError, match=message):
        tables.check()


def test_files_with_other_contents_than_expected_are_refused(tmp_path):
    (tmp_path / "a").write_text("1")
    expected = fingerprint_files([str(tmp_path / "a")])

    StableTables(lambda: [str(tmp_path / "a")], contents=expected).check()
    (tmp_path / "a").write_text("2")

    with pytest.raises(ValueError, match=rf"must hold the tables .* fingerprint {expected[:12]}; got .*/a'\]"):
        StableTables(lambda: [str(tmp_path / "a")], contents=expected)
