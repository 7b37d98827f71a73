"""Files of tokens: what they allow, and which are refused."""

import os

import pytest

from tfx_gnn.serving.server.token_file import TokenFile

READER, WRITER, BOTH = (
    "r0-abcdefghijklmnopqrstuvwxyz~=",
    "w0.ABCDEFGHIJKLMNOPQRSTUVWXYZ+/",
    "b" * 8 + "0123456789abcdef" * 2,
)
READER, WRITER = READER + "=", WRITER + "=="
TEXT = f"# who asks\nread {READER}\n\n  write\t{WRITER}\nread {BOTH}\nadmin {BOTH}\n"


@pytest.fixture
def write(tmp_path):
    """Writes a file of tokens with a mode, and returns its path."""

    def to_file(text, mode=0o600, name="tokens"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return str(path)

    return to_file


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        (f"Bearer {READER}", {"read"}),
        (f"bearer   {WRITER} ", {"write"}),
        (f"BEARER {BOTH}", {"read", "admin"}),
        (f"Bearer {READER[:-1]}", set()),
        (f"Bearer {READER}{READER}", set()),
        (f"Bearer {READER.upper()}", set()),
        (f"Basic {READER}", set()),
        (READER, set()),
        ("Bearer ", set()),
        ("", set()),
        (f"Bearer {READER}, Bearer {WRITER}", set()),
        (f"Bearer {'a' * 100_000}", set()),
        ("Bearer \xff", set()),
        (None, set()),
    ],
)
def test_token_allows_what_its_lines_say(write, header, roles):
    tokens = TokenFile(write(TEXT))

    assert tokens.roles_of(None if header is None else header.encode("latin-1")) == roles


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold a token; got none in '.*tokens'. Write a line such as 'read <token>'"),
        ("# read\n\n", "must hold a token"),
        ("read\n", "got 1 words in line 1"),
        (f"{READER}\n", "got 1 words in line 1 of '.*tokens', the first of which is no role"),
        (f"# x\nreader {READER}\n", "got 2 words in line 2 of '.*tokens', the first of which is no role"),
        (f"read {READER} {WRITER}\n", "got 3 words in line 1"),
        ("read secret\n", "of 32 to 4096 characters; got 6 in line 1"),
        (f"read {'ab' * 2100}\n", "of 32 to 4096 characters; got 4200 in line 1"),
        (f"read {READER}%\n", "of letters, digits .* got another character in line 1"),
        (f"read {'ab' * 16}\n", "random tokens; got one of 2 different characters in line 1"),
        (f"read {READER}é\n", "must be ASCII text; got other bytes"),
        (f"read {READER}\n".encode("utf-16"), "must be ASCII text"),
    ],
)
def test_file_is_refused_by_a_message_without_its_content(write, text, message):
    with pytest.raises(ValueError, match=message) as refusal:
        TokenFile(write(text))

    assert READER[:8] not in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602, 0o777, 0o610])
def test_file_that_others_may_use_is_refused(write, mode):
    with pytest.raises(ValueError, match=rf"its group may only read; got the mode 0{mode:o} of .* chmod 600"):
        TokenFile(write(TEXT, mode))


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o640])
def test_group_may_read_the_file_as_on_kubernetes(write, mode):
    assert TokenFile(write(TEXT, mode)).roles_of(f"Bearer {READER}".encode()) == {"read"}


def test_file_of_another_user_is_refused(write, monkeypatch):
    path = write(TEXT)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)  # Files of root are taken.
    monkeypatch.setattr("os.geteuid", lambda: 10_001)

    with pytest.raises(ValueError, match=r"must belong to the user of the server, or to root; got user \d+ of"):
        TokenFile(path)


@pytest.mark.parametrize(("name", "message"), [("none", "No such file"), (".", "Is a directory|regular file")])
def test_what_is_no_file_is_refused(tmp_path, name, message):
    with pytest.raises(ValueError, match=f"`token_file` must be a .*({message})"):
        TokenFile(str(tmp_path / name))


def test_tokens_change_with_the_file_and_stay_if_it_is_damaged(write, tmp_path, caplog):
    path = write(f"read {READER}\n")
    tokens = TokenFile(path)
    seen = [tokens.roles_of(f"Bearer {WRITER}".encode())]
    # As Kubernetes replaces files of a Secret: another file under the same name.
    os.replace(write(f"write {WRITER}\n", name="next"), path)
    tokens.refresh()
    seen += [tokens.roles_of(f"Bearer {one}".encode()) for one in (WRITER, READER)]
    for damage in (lambda: write("write short\n"), lambda: os.remove(path)):
        damage()
        tokens.refresh()
        tokens.refresh()
        seen.append(tokens.roles_of(f"Bearer {WRITER}".encode()))
    write(f"read {READER}\n")
    tokens.refresh()
    seen.append(tokens.roles_of(f"Bearer {READER}".encode()))

    assert [set(one) for one in seen] == [set(), {"write"}, set(), {"write"}, {"write"}, {"read"}]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2
    assert all(WRITER not in record.getMessage() for record in caplog.records)
