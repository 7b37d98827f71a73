from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfx_gnn.datasets.debian_index_files import IndexFiles, find_index_files

ENTRY = "/etc/apt/sources.list.d/example.sources:1"


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Programs of apt's names that say what a test tells them to."""
    lists = tmp_path / "lists"
    lists.mkdir()
    programs = tmp_path / "bin"
    programs.mkdir()

    def tell(*targets: tuple[str, str, str, str, str], exit_code: int = 0) -> Path:
        rows = []
        for kind, codename, component, architecture, name in targets:
            if not name.startswith("absent"):
                (lists / name).write_text("")
            entry = "/etc/apt/sources.list:3" if codename == "old" else ENTRY
            rows.append("\t".join([kind, codename, component, architecture, entry, str(lists / name)]))
        (tmp_path / "rows").write_text("".join(f"{row}\n" for row in rows))
        for program, body in (
            (
                "apt-get",
                f'while read -r line; do echo "$line"; done < {tmp_path}/rows\necho broken >&2\nexit {exit_code}',
            ),
            ("dpkg", "echo amd64"),
        ):
            (programs / program).write_text(f"#!/bin/sh\n{body}\n")
            (programs / program).chmod(0o755)
        monkeypatch.setenv("PATH", str(programs))
        return lists

    return tell


def test_lists_of_one_release_and_architecture_are_taken(apt):
    lists = apt(
        ("Packages", "bookworm-updates", "main", "amd64", "p0"),
        ("Packages", "bookworm", "main", "arm64", "p1"),
        ("Packages", "bookworm", "main", "amd64", "p2.lz4"),
        ("Packages", "bookworm", "contrib", "amd64", "p3"),
        ("Translations", "bookworm", "main", "$(ARCHITECTURE)", "t"),
        ("Sources", "bookworm", "main", "$(ARCHITECTURE)", "s2"),
        ("Sources", "bookworm", "contrib", "$(ARCHITECTURE)", "s3"),
        ("Sources", "bookworm-updates", "main", "$(ARCHITECTURE)", "s0"),
    )

    assert find_index_files(codename="bookworm") == IndexFiles(
        packages=(str(lists / "p2.lz4"),), sources=(str(lists / "s2"),)
    )
    assert find_index_files(codename="bookworm", components=("main", "contrib")) == IndexFiles(
        packages=(str(lists / "p2.lz4"), str(lists / "p3")), sources=(str(lists / "s2"), str(lists / "s3"))
    )


def test_the_release_is_that_of_the_machine_unless_it_is_named(apt):
    settings = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    codename = settings["VERSION_CODENAME"].strip('"')
    lists = apt(("Packages", codename, "main", "amd64", "p"), ("Sources", codename, "main", "", "s"))

    assert find_index_files().packages == (str(lists / "p"),)


@pytest.mark.parametrize(
    ("codename", "command"),
    [
        (
            "bookworm",
            "sed -i 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/example.sources && apt-get update",
        ),
        ("old", "sed -i 's/^deb \\(.*\\)/&\\ndeb-src \\1/' /etc/apt/sources.list && apt-get update"),
    ],
    ids=["deb822", "one-line"],
)
def test_without_sources_the_error_says_which_command_enables_them(apt, codename, command):
    apt(("Packages", codename, "main", "amd64", "p"), ("Sources", codename, "main", "", "absent"))

    with pytest.raises(ValueError, match="apt has none of") as error:
        find_index_files(codename=codename)

    assert command in str(error.value)


def test_without_packages_the_error_says_what_there_is(apt):
    apt(("Packages", "bookworm", "main", "amd64", "p"))

    with pytest.raises(
        ValueError,
        match=r"'trixie', component 'main', .* 'amd64', among \['bookworm/main amd64'\]. Run 'apt-get update'",
    ):
        find_index_files(codename="trixie")


def test_a_failure_of_apt_is_told(apt):
    apt(exit_code=3)

    with pytest.raises(ValueError, match="`apt-get indextargets` must succeed; got exit code 3: broken"):
        find_index_files(codename="bookworm")


def test_without_apt_paths_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ValueError, match="must be given on a machine without apt; got none, and no apt-get"):
        find_index_files(codename="bookworm")
    assert os.environ["PATH"] == str(tmp_path)
