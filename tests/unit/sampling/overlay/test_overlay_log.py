"""What was appended is read again; what was not finished is cut off; and damage is told from it."""

import pytest

from tfx_gnn.sampling.overlay.overlay_log import OverlayLog

CONTENTS = [b"one", b"", b"three" * 100]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log"
    log = OverlayLog(str(path))
    for content in CONTENTS:
        log.append(content)
    log.close()
    return path


def test_entries_are_read_in_order(path):
    log = OverlayLog(str(path))

    assert list(log.entries()) == CONTENTS
    assert (log.num_bytes, log.num_cut) == (path.stat().st_size, 0)
    log.close()


@pytest.mark.parametrize("num_left", [1, 19, 20, 21, 400])
def test_an_unfinished_entry_is_cut_off_and_counted(path, num_left):
    whole = path.read_bytes()
    begin = len(whole) - len(CONTENTS[-1]) - 20
    path.write_bytes(whole[: begin + num_left])

    log = OverlayLog(str(path))

    assert list(log.entries()) == CONTENTS[:2]
    assert log.num_cut == num_left
    log.append(CONTENTS[-1])
    log.close()
    assert path.read_bytes() == whole


def test_zeros_after_the_last_entry_are_cut_off(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 1000)

    log = OverlayLog(str(path))

    assert (list(log.entries()), log.num_cut) == (CONTENTS, 1000)
    log.close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("place", [0, 9, 21])
def test_damage_before_the_last_entry_is_refused(path, place):
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(ValueError, match="must hold whole entries but for the last one; got damage at byte 0 of"):
        OverlayLog(str(path))


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt("No space left on device")]
)
def test_an_entry_that_cannot_be_written_is_as_if_it_was_never_tried(path, monkeypatch, error):
    log = OverlayLog(str(path))
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
