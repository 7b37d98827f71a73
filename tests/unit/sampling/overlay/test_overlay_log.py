"""What was appended is read again; what was not finished is cut off; and damage is told from it."""

import pytest

from tfx_gnn.sampling.overlay.overlay_log import OverlayLog

HEADER = b"the header"
NUM_HEADER = 20 + len(HEADER)
CONTENTS = [b"one", b"", b"three" * 100]


def _open(path):
    return OverlayLog(str(path), HEADER)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log"
    log = _open(path)
    for content in CONTENTS:
        log.append(content)
    log.close()
    return path


def test_entries_are_read_in_order(path):
    log = _open(path)

    assert list(log.entries()) == CONTENTS
    assert (log.num_bytes, log.num_cut) == (path.stat().st_size, 0)
    log.close()


@pytest.mark.parametrize("num_left", [1, 19, 20, 21, 400])
def test_an_unfinished_entry_is_cut_off_and_counted(path, num_left):
    whole = path.read_bytes()
    begin = len(whole) - len(CONTENTS[-1]) - 20
    path.write_bytes(whole[: begin + num_left])

    log = _open(path)

    assert list(log.entries()) == CONTENTS[:2]
    assert log.num_cut == num_left
    log.append(CONTENTS[-1])
    log.close()
    assert path.read_bytes() == whole


def test_zeros_after_the_last_entry_are_cut_off(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 1000)

    log = _open(path)

    assert (list(log.entries()), log.num_cut) == (CONTENTS, 1000)
    log.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("place", [0, 9, 21])
def test_damage_before_the_last_entry_is_refused(path, place):
    damaged = bytearray(path.read_bytes())
    damaged[NUM_HEADER + place] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(ValueError, match=r"must hold whole entries but for the last one; .*damage at byte 30 of"):
        _open(path)

    assert path.read_bytes() == damaged


@pytest.mark.parametrize("num_left", [0, 1, 19, 20, NUM_HEADER - 1])
@pytest.mark.parametrize("tail", [b"", b"\0"], ids=["cut", "zeros"])
def test_a_log_that_was_not_finished_when_it_was_created_is_begun_again(path, num_left, tail):
    whole = path.read_bytes()[:NUM_HEADER]
    path.write_bytes((whole[:num_left] + tail * NUM_HEADER)[: NUM_HEADER if tail else num_left])

    log = _open(path)

    assert (log.header, list(log.entries()), log.num_bytes) == (HEADER, [], NUM_HEADER)
    assert log.num_cut == (NUM_HEADER if tail else num_left)
    log.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [
        b"0123456789",
        b"x",
        b"id,x\na,1\nb,2\n",
        b"\x89PNG\r\n\x1a\n" + bytes(200),
        b"# " + b"notes " * 100,
        bytes(NUM_HEADER + 1),
        b'{"format_version": 1}',
    ],
    ids=["ten-bytes", "letter", "csv", "image", "text", "zeros", "json"],
)
def test_a_file_that_is_no_log_is_refused_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"must be an overlay .* got .*foreign', whose .* bytes begin with b"):
        _open(path)

    assert path.read_bytes() == content


@pytest.mark.parametrize("place", [0, 9, 21])
def test_a_log_whose_header_is_damaged_stays_as_it_is(path, place):
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(ValueError, match="if this was an overlay, restore a copy of it"):
        _open(path)

    assert path.read_bytes() == damaged


def test_a_log_keeps_the_header_that_it_has(path):
    log = OverlayLog(str(path), b"another one")

    assert (log.header, list(log.entries())) == (HEADER, CONTENTS)
    log.close()


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt("No space left on device")]
)
def test_an_entry_that_cannot_be_written_is_as_if_it_was_never_tried(path, monkeypatch, error):
    log = _open(path)
    whole = path.read_bytes()

    def fail(descriptor):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("tfx_gnn.sampling.overlay.overlay_log.os.fsync", fail)
        with pytest.raises(type(error), match="No space left on device"):
            log.append(b"lost")

    assert path.read_bytes() == whole
    log.append(b"kept")
    assert list(log.entries()) == [*CONTENTS, b"kept"]
    log.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_appended_while_the_file_is_elsewhere(path, is_replaced):
    log = _open(path)
    elsewhere = path.rename(path.with_name("rotated"))
    if is_replaced:
        path.write_bytes(b"")

    with pytest.raises(OSError, match=r"No such file|Stale file handle"):
        log.append(b"lost")

    elsewhere.replace(path)
    log.append(b"kept")
    assert list(log.entries()) == [*CONTENTS, b"kept"]
    log.close()
