"""Finds a Python interpreter that one of the two lanes of uv.lock can use.

A lane is one set of dependency versions. Lane 1, Python 3.10, runs everywhere. Lane 2, Python 3.11 to 3.13,
needs wheels that are built for glibc 2.39 (Debian 13, Ubuntu 24.04), so it is not considered elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from setup_error import SetupError

LANE_1 = ("3.10",)
LANE_2 = ("3.13", "3.12", "3.11")
LANE_2_GLIBC = (2, 39)

_PROBE = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "path": sys.executable,
    "base": os.path.realpath(sys.base_prefix),
    "version": platform.python_version(),
    "usable": platform.python_implementation() == "CPython" and sys.maxsize > 2**32,
    "headers": os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
"""


class Interpreter(NamedTuple):
    """Properties of a Python interpreter, reported by itself."""

    path: str
    base: str
    version: str
    usable: bool
    headers: bool

    @property
    def minor(self) -> str:
        """Version without its last part, such as "3.10"."""
        return ".".join(self.version.split(".")[:2])

    def describe(self) -> str:
        """Version and lane, for messages."""
        return f"Python {self.version}, lane {1 if self.minor in LANE_1 else 2}"


def choose(root: Path, uv: Path, environ: dict[str, str]) -> Interpreter:
    """Picks the interpreter for `.venv`.

    The order: `TFX_GNN_PYTHON`; a Python 3.10 on PATH, in pyenv or installed by uv; if glibc allows it, a newer
    Python from the same places that has its C headers; a Python 3.10 that uv downloads.

    Args:
        root: the project's folder.
        uv: a uv that runs.
        environ: environment to search in and to run candidates with.

    Returns:
        An interpreter that was run successfully.

    Raises:
        SetupError: if none is found.
    """
    wanted = environ.get("TFX_GNN_PYTHON")
    if wanted:
        return named_by_user(wanted, environ)
    for path in _candidates(LANE_1, uv, environ):
        found = probe(path, environ)
        if found and found.usable and found.minor in LANE_1:
            return found
    without_headers = []
    if glibc_version() >= LANE_2_GLIBC:
        for path in _candidates(LANE_2, uv, environ):
            found = probe(path, environ)
            if found and found.usable and found.minor in LANE_2:
                if found.headers:
                    return found
                without_headers.append(found)
    print("No Python 3.10 found; asking uv to download one ...", flush=True)
    subprocess.run([str(uv), "python", "install", "--quiet", "3.10"], cwd=str(root), env=environ)
    for path in _managed_by_uv("3.10", uv, environ):
        found = probe(path, environ)
        if found:
            return found
    raise SetupError(_advice(without_headers))


def named_by_user(path: str, environ: dict[str, str]) -> Interpreter:
    """Checks the interpreter that `TFX_GNN_PYTHON` names; if it does not fit, no other one is tried."""
    found = probe(path, environ)
    supported = LANE_1 + (LANE_2 if glibc_version() >= LANE_2_GLIBC else ())
    if found is None or not found.usable or found.minor not in supported:
        version = f"Python {found.version}" if found else "nothing that runs"
        raise SetupError(
            f"`TFX_GNN_PYTHON` must name a 64-bit CPython {' or '.join(supported)} on this machine; got {path!r}, "
            f"which is {version}. Name another one, or unset it to have one found."
        )
    return found


def probe(path: str, environ: dict[str, str]) -> Interpreter | None:
    """Runs a candidate; returns None if it does not run, for example a pyenv shim without an installed version."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            timeout=60,
        )
        return Interpreter(**json.loads(done.stdout)) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def glibc_version() -> tuple[int, ...]:
    """Version of the C library, such as (2, 36); empty if it is not glibc."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return ()
    return tuple(int(part) for part in version.split(".")) if name == "glibc" else ()


def _candidates(minors: Iterable[str], uv: Path, environ: dict[str, str]) -> Iterator[str]:
    for minor in minors:
        for name in (f"python{minor}", "python3", "python"):
            for folder in environ.get("PATH", "").split(os.pathsep):
                path = os.path.join(folder, name)
                if folder and os.access(path, os.X_OK):
                    yield path
        yield from _in_pyenv(minor, environ)
        yield from _managed_by_uv(minor, uv, environ)


def _in_pyenv(minor: str, environ: dict[str, str]) -> list[str]:
    root = environ.get("PYENV_ROOT") or os.path.join(environ.get("HOME", "/"), ".pyenv")
    versions = Path(root, "versions").glob(f"{minor}.*")
    newest_first = sorted(versions, key=lambda folder: [int(n) for n in re.findall(r"\d+", folder.name)], reverse=True)
    return [str(folder / "bin" / f"python{minor}") for folder in newest_first]


def _managed_by_uv(minor: str, uv: Path, environ: dict[str, str]) -> list[str]:
    command = [str(uv), "python", "find", "--managed-python", "--no-python-downloads", "--no-project", minor]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, cwd="/")
    return done.stdout.decode().split("\n")[:1] if done.returncode == 0 else []


def _advice(without_headers: list[Interpreter]) -> str:
    newer = ""
    if without_headers:
        found = without_headers[0]
        newer = (
            f" The Python {found.version} that is here would do as well once it has its C headers "
            f"(Debian, Ubuntu: apt-get install python{found.minor}-dev)."
        )
    elif glibc_version() >= LANE_2_GLIBC:
        newer = " Python 3.11 to 3.13 with C headers would do as well (Debian, Ubuntu: apt-get install python3-dev)."
    return (
        "no usable Python: no Python 3.10 that runs is on PATH or in pyenv, and uv could not download one. "
        "Install Python 3.10 (for example `pyenv install 3.10`) or set TFX_GNN_PYTHON to one."
        f"{newer} Then run the same command again."
    )
