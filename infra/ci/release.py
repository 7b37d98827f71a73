#!/usr/bin/env python3
"""Makes a release of the commit that is checked out: packages, image context, notes and checksums in build/release.

    make release                            rehearses: changes no file and no branch, and can be repeated
    make release RELEASE_ARGUMENTS=--commit puts the release on the branch as a commit with a tag, if all checks passed

The commit of the release takes `.dev0` off the version and gives "Unreleased" in the changelog its name. It is made in
a work tree of its own, from which everything is built. Nothing is pushed or published: release.yml does that when the
tag arrives. The checksums are signed with the key that git signs with (`user.signingkey`, `gpg.format`).
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# This folder is first on the path where this file is run.
from release_files import (
    CHANGELOG,
    CITATION,
    VERSION_FILE,
    CannotReleaseError,
    image_paths,
    next_release,
    release_notes,
    released_changelog,
    released_citation,
    released_version_file,
)

ROOT = Path(__file__).resolve().parents[2]
CHECKSUMS = "SHA256SUMS"
_ENGINES = ("docker", "podman")


def check_tree(repo: Path, branch: str, version: str) -> None:
    """Refuses to release anything but a commit of the branch, or a version twice."""
    current = _git(repo, "branch", "--show-current")
    if current != branch:
        raise CannotReleaseError(
            f"A release must be made on the branch {branch!r}; got {current or 'no branch'!r}. Check that one out."
        )
    changed = _git(repo, "status", "--porcelain").splitlines()
    if changed:
        raise CannotReleaseError(
            f"The work tree must have no changes that are not committed; got {len(changed)}, such as {changed[0]!r}. "
            "Commit or remove them."
        )
    if _git(repo, "tag", "--list", f"v{version}"):
        raise CannotReleaseError(f"`__version__` must be a version without a tag; got {version} and a tag v{version}.")


def write_release(tree: Path, version: str, date: str) -> None:
    """Edits the files of a tree as the commit of a release does."""
    for name, edited in (
        (VERSION_FILE, lambda text: released_version_file(text, version)),
        (CHANGELOG, lambda text: released_changelog(text, version, date)),
        (CITATION, lambda text: released_citation(text, version, date)),
    ):
        path = tree / name
        path.write_text(edited(path.read_text(encoding="utf-8")), encoding="utf-8")


def write_image_context(tree: Path, path: Path) -> None:
    """Packs what an image is built of, with the same bytes from the same commit."""
    names = image_paths((tree / ".dockerignore").read_text(encoding="utf-8"))
    archive = subprocess.run(["git", "archive", "HEAD", *names], cwd=tree, stdout=subprocess.PIPE, check=True).stdout
    path.write_bytes(gzip.compress(archive, mtime=0))


def write_checksums(folder: Path) -> Path:
    """Writes the SHA-256 sums of a folder's files, for `sha256sum --check`."""
    path = folder / CHECKSUMS
    files = sorted(file for file in folder.iterdir() if file.is_file() and file != path)
    path.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
    return path


def sign(path: Path, key: str, key_format: str) -> Path:
    """Signs a file with the key by which git signs, and returns where the signature is."""
    if key_format == "ssh":
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "file", path], check=True)
        return path.with_name(f"{path.name}.sig")
    subprocess.run(["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", path], check=True)
    return path.with_name(f"{path.name}.asc")


def make_release(repo: Path, *, branch: str, commits: bool) -> None:
    """Checks, builds and tries a release; with `commits`, it then becomes the head of the branch, with a tag."""
    version = next_release((repo / VERSION_FILE).read_text(encoding="utf-8"))
    notes = release_notes((repo / CHANGELOG).read_text(encoding="utf-8"), version)
    check_tree(repo, branch, version)
    date = f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}"
    folder = repo / "build" / "release"
    with _work_tree(repo) as tree:
        write_release(tree, version, date)
        _git(tree, "commit", "--quiet", "--all", f"--message=Release {version}")
        commit = _git(tree, "rev-parse", "HEAD")
        _say(f"{version} of {commit[:12]}" + ("" if commits else ", a rehearsal"))

        subprocess.run([repo / "infra/ci/package.sh", tree, folder], check=True)
        (wheel,) = folder.glob(f"tfx_gnn-{version}-*.whl")
        _say("tried the wheel on lane 1")
        _try_on_lane_2(repo, wheel)
        _say("tried the wheel on lane 2")
        (folder / "release-notes.md").write_text(notes, encoding="utf-8")
        context = folder / f"tfx_gnn-{version}-image-context.tar.gz"
        write_image_context(tree, context)
        _build_image(context, version, commit)
    _write_signed_checksums(repo, folder)
    if commits:
        _git(repo, "merge", "--quiet", "--ff-only", commit)
        _git(repo, "tag", "--sign" if _signing_key(repo) else "--annotate", f"--message={version}", f"v{version}")
        _say(f"committed and tagged. To publish it: git push origin {branch} v{version}")
    else:
        _say("no branch was changed. To release it: make release RELEASE_ARGUMENTS=--commit")
    print("\n".join(f"  {file.stat().st_size:>12,} B  build/release/{file.name}" for file in sorted(folder.iterdir())))


@contextmanager
def _work_tree(repo: Path) -> Iterator[Path]:
    """A work tree of the commit that is checked out, on no branch."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        _git(repo, "worktree", "add", "--quiet", "--detach", str(tree))
        try:
            yield tree
        finally:
            _git(repo, "worktree", "remove", "--force", str(tree))


def _try_on_lane_2(repo: Path, wheel: Path) -> None:
    command = f"cat >/tmp/{wheel.name} && infra/ci/try_wheel.sh /tmp/{wheel.name} /usr/bin/python3.13"
    with wheel.open("rb") as packed:
        subprocess.run([repo / "infra/ci/newest.sh", "--bare", command], stdin=packed, check=True)


def _build_image(context: Path, version: str, commit: str) -> None:
    engine = next((one for one in _ENGINES if _answers([one, "info"])), None)
    names = ["--file", "infra/docker/Dockerfile", "--tag", f"tfx-gnn:{version}", "--build-arg", f"REVISION={commit}"]
    if engine is None:
        _say(
            f"NO IMAGE was built, since no container engine answers here ({', '.join(_ENGINES)}). Where one does: "
            f"mkdir context && tar -xzf {context.name} -C context && docker build {' '.join(names)} context"
        )
        return
    with tempfile.TemporaryDirectory() as unpacked:
        shutil.unpack_archive(context, unpacked)
        subprocess.run([engine, "build", "--quiet", *names, "."], cwd=unpacked, check=True)
    _say(f"built the image tfx-gnn:{version} with {engine}")


def _write_signed_checksums(repo: Path, folder: Path) -> None:
    checksums, key = write_checksums(folder), _signing_key(repo)
    if key:
        signature = sign(checksums, key, _setting(repo, "gpg.format"))
        _say(f"signed {CHECKSUMS} with {key}: {signature.name}")
    else:
        _say(
            f"{CHECKSUMS} is NOT SIGNED, since git has no signing key here. Name one by 'git config "
            "user.signingkey KEY', with 'git config gpg.format ssh' for a key file of ssh; it signs the tag, too"
        )


def _signing_key(repo: Path) -> str:
    return os.path.expanduser(_setting(repo, "user.signingkey"))


def _setting(repo: Path, name: str) -> str:
    return _git(repo, "config", "--default", "", "--get", name)


def _answers(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def _git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repo, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


_START = time.monotonic()


def _say(text: str) -> None:
    print(f"release: {text} ({time.monotonic() - _START:.0f} s)", flush=True)


def main() -> int:
    """Returns 1 if a rule of releases is broken, or the exit code of a check that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", action="store_true", help="put the release on the branch, and tag it")
    parser.add_argument("--branch", default="main", help="the branch that releases are made from")
    arguments = parser.parse_args()
    try:
        make_release(ROOT, branch=arguments.branch, commits=arguments.commit)
    except CannotReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"release: failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return error.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
