"""Finds or installs a C++ compiler, for the few dependencies that are published as source only.

The machine's own compiler is used if there is one. Otherwise `ziglang`, a compiler that is published
as a wheel, is installed into the project's folder, at the version that uv.lock pins.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from interpreters import Interpreter
from setup_error import SetupError

_WRAPPER = """#!/bin/sh
# Debian's Python passes a linker flag that zig does not know and that only orders look-ups.
for argument; do
    shift
    [ "$argument" = -Wl,-Bsymbolic-functions ] || set -- "$@" "$argument"
done
# -mcpu=baseline: what is built stays in uv's cache, which other machines may share.
exec "{zig}" {name} -mcpu=baseline "$@"
"""


def settings(root: Path, folder: Path, uv: Path, interpreter: Interpreter, environ: dict[str, str]) -> dict[str, str]:
    """Environment variables that make builds use a C and C++ compiler.

    Args:
        root: the project's folder.
        folder: where to install a compiler if the machine has none.
        uv: a uv that runs.
        interpreter: the Python to build packages for.
        environ: environment of the builds.

    Returns:
        Empty if the machine has compilers, otherwise `CC`, `CXX` and `PATH`.

    Raises:
        SetupError: if there is no compiler and none can be installed.
    """
    if environ.get("CXX") or all(shutil.which(name, path=environ.get("PATH")) for name in ("cc", "c++")):
        return {}
    binaries = folder / "bin"
    found = {"CC": "cc", "CXX": "c++", "PATH": f"{binaries}:{environ.get('PATH', '')}"}
    if not (binaries / "c++").is_file():
        print("No C++ compiler found; installing one into .tools/zig ...", flush=True)
        install = [str(uv), "sync", "--quiet", "--frozen", "--only-group", "compiler", "--python", interpreter.path]
        done = subprocess.run(install, cwd=str(root), env={**environ, "UV_PROJECT_ENVIRONMENT": str(folder / "venv")})
        zigs = list(folder.glob("venv/lib/python*/site-packages/ziglang/zig"))
        if done.returncode or not zigs:
            raise SetupError(
                "there is no C++ compiler and none could be installed from a registry; uv's message is above. "
                "Install one (Debian, Ubuntu: apt-get install g++) and run the same command again."
            )
        binaries.mkdir(exist_ok=True)
        for name in ("cc", "c++"):
            (binaries / name).write_text(_WRAPPER.format(zig=zigs[0], name=name))
            (binaries / name).chmod(0o755)
    return found
