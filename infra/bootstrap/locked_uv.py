"""Installs the uv that uv.lock pins into a folder of the project."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

from setup_error import SetupError


class LockedUv(NamedTuple):
    """The entry of uv in uv.lock: its version, and the SHA-256 of each wheel by address."""

    version: str
    wheels: dict[str, str]


def install(root: Path, folder: Path, environ: dict[str, str]) -> Path:
    """Installs the uv that uv.lock pins as `folder`/bin/uv, unless it is already there.

    Args:
        root: the project's folder, which holds uv.lock.
        folder: where to install uv; replaced if it holds another version.
        environ: environment for pip.

    Returns:
        Path of the executable.

    Raises:
        SetupError: if no way to install it works.
    """
    locked = read_lock(root / "uv.lock")
    uv = folder / "bin" / "uv"
    if _version_of(uv) == locked.version:
        return uv
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"Installing uv {locked.version} into {folder.relative_to(root)} ...", flush=True)
    reasons = []
    for name, way in _WAYS.items():
        with tempfile.TemporaryDirectory(dir=str(folder.parent), prefix=".uv-") as scratch:
            try:
                made = way(locked, Path(scratch), environ)
            except (OSError, subprocess.SubprocessError, urllib.error.URLError, SetupError) as error:
                reasons.append(f"  {name}: {_reason(error)}")
                continue
            # uv is one native executable, so it can be moved.
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "bin").mkdir(parents=True)
            os.replace(made, uv)
        if _version_of(uv) == locked.version:
            return uv
        reasons.append(f"  {name}: what it brought does not run.")
    tried = "\n".join(reasons)
    raise SetupError(
        f"uv {locked.version} could not be installed. Tried:\n{tried}\n"
        "Check that package registries are reachable from this machine, and run the same command again."
    )


def read_lock(path: Path) -> LockedUv:
    """Reads uv's own entry of uv.lock with a regular expression: Python 3.10 and older have no TOML reader."""
    entry = re.search(r'\n\[\[package\]\]\nname = "uv"\n.*?(?=\n\[\[package\]\]|\Z)', path.read_text(), re.DOTALL)
    if not entry:
        raise SetupError(f"uv.lock must hold uv itself; {path} does not. Restore the file from git.")
    version = re.search(r'^version = "(.*)"', entry[0], re.MULTILINE)
    wheels = dict(re.findall(r'url = "([^"]*\.whl)", hash = "sha256:([0-9a-f]{64})"', entry[0]))
    assert version is not None
    return LockedUv(version[1], wheels)


def _from_pip(locked: LockedUv, scratch: Path, environ: dict[str, str]) -> Path:
    return _pip_install(sys.executable, locked, scratch, environ)


def _from_new_pip(locked: LockedUv, scratch: Path, environ: dict[str, str]) -> Path:
    _run([sys.executable, "-m", "venv", str(scratch / "venv")], environ)
    return _pip_install(str(scratch / "venv" / "bin" / "python"), locked, scratch, environ)


def _from_address(locked: LockedUv, scratch: Path, environ: dict[str, str]) -> Path:
    del environ
    ending = f"manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}.whl"
    address = next((address for address in locked.wheels if address.endswith(ending)), None)
    if address is None:
        raise SetupError(f"there is no wheel for {platform.machine()}.")
    with urllib.request.urlopen(address, timeout=60) as response:
        content = response.read()
    if hashlib.sha256(content).hexdigest() != locked.wheels[address]:
        raise SetupError("what was downloaded does not match its hash.")
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        member = next(name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
        made = scratch / "uv"
        made.write_bytes(wheel.read(member))
    made.chmod(0o755)
    return made


def _pip_install(python: str, locked: LockedUv, scratch: Path, environ: dict[str, str]) -> Path:
    hashes = " ".join(f"--hash=sha256:{value}" for value in locked.wheels.values())
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"uv=={locked.version} {hashes}\n")
    target = scratch / "target"
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    _run(
        [*command, "--only-binary", ":all:", "--require-hashes", "--target", str(target), "-r", str(requirements)],
        environ,
    )
    return target / "bin" / "uv"


_WAYS = {
    "pip of this Python": _from_pip,
    "pip of a new virtual environment": _from_new_pip,
    "the address in uv.lock": _from_address,
}


def _run(command: list[str], environ: dict[str, str]) -> None:
    subprocess.run(
        command, env=environ, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in error.output.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {error.returncode}"
    return str(error)


def _version_of(uv: Path) -> str | None:
    try:
        done = subprocess.run([str(uv), "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.decode().split()
    return words[1] if done.returncode == 0 and len(words) > 1 else None
