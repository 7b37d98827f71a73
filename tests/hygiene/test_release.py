"""What a release refuses and writes, on a repository of a few small files."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import tfx_gnn

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

## [Unreleased]

See upgrading.md.

### Added

- One thing.

## [0.2.0] - 2026-11-23

- Old.
"""


@pytest.fixture(scope="module")
def files():
    return _script("release_files")


@pytest.fixture(scope="module")
def release(files):
    return _script("release")


def _script(name):
    """Imports one of infra/ci/, which is first on the path where a script of it runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "infra" / "ci"))
        return importlib.import_module(name)


@pytest.fixture
def repo(tmp_path):
    for name, text in {
        "components/tfx_gnn/__init__.py": '"""Doc."""\n\n__version__ = "0.3.0.dev0"\n',
        "CHANGELOG.md": CHANGELOG,
        "CITATION.cff": "title: t\nversion: 0.3.0.dev0\n",
        ".dockerignore": "*\n!LICENSE\n!components\n**/runs\n",
        "infra/docker/Dockerfile": "FROM scratch\n",
        "LICENSE": "x\n",
        "README.md": "x\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "user.name", "n")
    git(tmp_path, "config", "user.email", "n@example.org")
    git(tmp_path, "config", "commit.gpgsign", "false")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=first")
    return tmp_path


def git(repo, *arguments):
    return subprocess.run(["git", *arguments], cwd=repo, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("written", ["0.3.0", "0.3.0.dev0", "0.3.0.dev12"])
def test_a_release_has_the_version_of_the_tree_without_dev(files, written):
    assert files.next_release(f'x = 1\n__version__ = "{written}"\n') == "0.3.0"


@pytest.mark.parametrize("text", ['__version__ = "0.3"\n', '__version__ = "0.3.0rc1"\n', ""])
def test_other_versions_are_refused(files, text):
    with pytest.raises(files.CannotReleaseError, match=r"`__version__` must be three numbers, with \.dev0 .*; got"):
        files.next_release(text)


def test_notes_are_the_section_of_what_is_unreleased(files):
    assert files.release_notes(CHANGELOG, "0.3.0") == "See upgrading.md.\n\n### Added\n\n- One thing.\n"


def test_changelog_gets_the_version_and_an_empty_section_above_it(files):
    released = files.released_changelog(CHANGELOG, "0.3.0", "2026-12-01")

    assert released == CHANGELOG.replace("## [Unreleased]\n", "## [Unreleased]\n\n## [0.3.0] - 2026-12-01\n")
    with pytest.raises(
        files.CannotReleaseError, match=r"a version that is not in CHANGELOG\.md; got 0\.3\.0, which is"
    ):
        files.released_changelog(released, "0.3.0", "2026-12-01")
    with pytest.raises(files.CannotReleaseError, match=r"CHANGELOG\.md must have entries, .*; got none"):
        files.released_changelog(released, "0.4.0", "2026-12-01")


def test_changelog_without_a_section_of_what_is_unreleased_is_refused(files):
    with pytest.raises(files.CannotReleaseError, match="must have entries"):
        files.release_notes("# Changelog\n\n## [0.2.0] - 2026-11-23\n\n- Old.\n", "0.3.0")


def test_citation_names_the_version_and_its_date_once(files):
    cited = files.released_citation("title: t\nversion: 0.3.0.dev0\nlicense: x\n", "0.3.0", "2026-12-01")

    assert cited == "title: t\nversion: 0.3.0\ndate-released: 2026-12-01\nlicense: x\n"
    assert files.released_citation(cited, "0.3.1", "2026-12-02").count("date-released") == 1
    with pytest.raises(files.CannotReleaseError, match=r"must have a line 'version: \.\.\.'; got none"):
        files.released_citation("title: t\n", "0.3.0", "2026-12-01")


def test_a_clean_tree_of_the_branch_is_accepted(release, repo):
    release.check_tree(repo, "main", "0.3.0")


def test_other_branches_are_refused(release, repo):
    git(repo, "switch", "--quiet", "--create", "topic")
    with pytest.raises(release.CannotReleaseError, match="must be made on the branch 'main'; got 'topic'"):
        release.check_tree(repo, "main", "0.3.0")

    git(repo, "switch", "--quiet", "--detach")
    with pytest.raises(release.CannotReleaseError, match="got 'no branch'"):
        release.check_tree(repo, "main", "0.3.0")


@pytest.mark.parametrize(("name", "status"), [("README.md", "M README.md"), ("new.txt", r"\?\? new.txt")])
def test_changes_that_are_not_committed_are_refused(release, repo, name, status):
    (repo / name).write_text("edited\n")

    with pytest.raises(release.CannotReleaseError, match=f"must have no changes .*; got 1, such as '{status}'"):
        release.check_tree(repo, "main", "0.3.0")


def test_a_version_with_a_tag_is_refused(release, repo):
    git(repo, "tag", "v0.3.0")

    with pytest.raises(release.CannotReleaseError, match=r"a version without a tag; got 0\.3\.0 and a tag v0\.3\.0"):
        release.check_tree(repo, "main", "0.3.0")


def test_a_rehearsal_leaves_the_repository_as_it_was(release, repo, monkeypatch):
    monkeypatch.setattr(release.subprocess, "run", _without_packages(release, repo))
    before = git(repo, "for-each-ref") + git(repo, "worktree", "list")

    release.make_release(repo, branch="main", commits=False)

    assert git(repo, "for-each-ref") + git(repo, "worktree", "list") == before
    assert git(repo, "status", "--porcelain") == ""
    assert (repo / "build/release/release-notes.md").read_text().endswith("- One thing.\n")


def test_a_release_becomes_the_head_of_the_branch_with_a_tag(release, repo, monkeypatch, capsys):
    monkeypatch.setattr(release.subprocess, "run", _without_packages(release, repo))

    release.make_release(repo, branch="main", commits=True)

    assert git(repo, "log", "-1", "--format=%s", "main") == "Release 0.3.0\n"
    assert git(repo, "rev-parse", "v0.3.0^{commit}") == git(repo, "rev-parse", "main")
    assert '__version__ = "0.3.0"\n' in (repo / "components/tfx_gnn/__init__.py").read_text()
    assert re.search(r"^## \[0\.3\.0\] - \d{4}-\d\d-\d\d$", (repo / "CHANGELOG.md").read_text(), re.MULTILINE)
    printed = capsys.readouterr().out
    assert "NO IMAGE was built" in printed
    assert "SHA256SUMS is NOT SIGNED" in printed


def _without_packages(release, repo):
    """`subprocess.run`, with a wheel of five bytes, no lane 2 and no container engine."""
    (repo / ".git/info/exclude").write_text("/build/\n")
    original = subprocess.run

    def run(command, **options):
        name = Path(str(command[0])).name
        if name == "package.sh":
            (repo / "build/release").mkdir(parents=True)
            (repo / "build/release/tfx_gnn-0.3.0-py3-none-any.whl").write_bytes(b"wheel")
            return subprocess.CompletedProcess(command, 0)
        if name in ("newest.sh", "docker", "podman"):
            return subprocess.CompletedProcess(command, int(name != "newest.sh"))
        return original(command, **options)

    return run


def test_checksums_are_those_of_all_other_files(release, tmp_path):
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tar.gz").write_bytes(b"a")

    written = release.write_checksums(tmp_path).read_text()

    sums = [hashlib.sha256(content).hexdigest() for content in (b"a", b"b")]
    assert written == f"{sums[0]}  a.tar.gz\n{sums[1]}  b.whl\n"
    assert release.write_checksums(tmp_path).read_text() == written


def test_signature_is_one_that_ssh_accepts(release, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (tmp_path / "SHA256SUMS").write_text("sums")
    (tmp_path / "signers").write_text(f"me {key.with_suffix('.pub').read_text()}")

    signature = release.sign(tmp_path / "SHA256SUMS", str(key), "ssh")

    verify = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "signers", "-I", "me", "-n", "file", "-s", signature]
    assert subprocess.run(verify, input=b"sums", capture_output=True, check=False).returncode == 0
    assert subprocess.run(verify, input=b"other", capture_output=True, check=False).returncode != 0


def test_image_context_has_what_the_dockerfile_copies_and_the_same_bytes_each_time(release, repo):
    first, second = repo / "build-1.tar.gz", repo / "build-2.tar.gz"
    release.write_image_context(repo, first)
    release.write_image_context(repo, second)

    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(first.read_bytes()))) as archive:
        names = {member.name for member in archive if member.isfile()}
    assert names == {"infra/docker/Dockerfile", "LICENSE", "components/tfx_gnn/__init__.py"}
    assert first.read_bytes() == second.read_bytes()


def test_all_that_the_dockerfile_of_this_project_copies_is_in_the_context(files):
    dockerfile = (ROOT / "infra/docker/Dockerfile").read_text()
    copied = {
        word for words in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE) for word in words.split()
    }

    assert copied - set(files.image_paths((ROOT / ".dockerignore").read_text())) == set()
    assert "components" in copied


def test_citation_file_of_this_project_is_complete_and_has_its_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())

    assert citation["version"] == tfx_gnn.__version__
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == "Apache-2.0"
    # What the format requires of every file.
    assert {"authors", "message", "title"} <= citation.keys()
    assert all("name" in author or "family-names" in author for author in citation["authors"])


def test_version_of_this_project_is_the_last_release_or_comes_after_it(files):
    version = files.next_release((ROOT / files.VERSION_FILE).read_text())
    last = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / files.CHANGELOG).read_text(), re.MULTILINE)[1]

    assert [int(part) for part in version.split(".")] >= [int(part) for part in last.split(".")]
    assert (version == last) == (".dev" not in tfx_gnn.__version__)


def test_script_says_what_a_release_lacks(release, repo, monkeypatch, capsys):
    git(repo, "switch", "--quiet", "--create", "topic")
    monkeypatch.setattr(release, "ROOT", repo)
    monkeypatch.setattr(sys, "argv", ["release.py"])

    assert release.main() == 1
    assert "release: A release must be made on the branch 'main'; got 'topic'." in capsys.readouterr().err
