"""Installs the project from its lock into `.venv`; needs only a Python 3 and package registries.

    infra/bootstrap.sh uv          installs uv into .tools/uv/bin
    infra/bootstrap.sh quickstart  also installs what the quickstart pipeline needs
    infra/bootstrap.sh test        also installs everything else: all extras, development tools

uv is installed by pip, by the pip of a new virtual environment, or from the address in uv.lock,
whichever works first; each way checks the hashes of uv.lock. interpreters.py chooses the
interpreter, compiler.py the C++ compiler. Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import compiler
import interpreters
import locked_uv
from setup_error import SetupError

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".tools"
VENV = ROOT / ".venv"

# Profiles and the arguments of `uv sync` that install them; a later profile includes the earlier ones.
PROFILES = {
    # Inexact: keeps packages that `test` installed before.
    "quickstart": ["--extra", "tfx", "--no-default-groups", "--inexact"],
    "test": ["--all-extras", "--group", "dev", "--group", "docs", "--group", "oracle"],
}

# uv settings for reaching registries and storing files; all other settings could change what is installed.
UV_SETTINGS_KEPT = (
    "UV_CACHE_DIR",
    "UV_CONCURRENT_",
    "UV_CONFIG_FILE",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_HTTP_",
    "UV_INDEX",
    "UV_INSECURE_HOST",
    "UV_KEYRING_PROVIDER",
    "UV_LINK_MODE",
    "UV_NATIVE_TLS",
    "UV_OFFLINE",
    "UV_PYTHON_DOWNLOADS",
    "UV_PYTHON_INSTALL_",
    "UV_SYSTEM_CERTS",
)
OTHER_SETTINGS_DROPPED = (
    "CONDA_PREFIX",
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_TARGET",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
)


def main(arguments: list[str]) -> None:
    """Installs the profile that the single argument names."""
    if len(arguments) != 1 or arguments[0] not in ("uv", *PROFILES):
        raise SetupError(f"the argument must be one of uv, {', '.join(PROFILES)}; got {' '.join(arguments) or 'none'}.")
    environ = clean_environment(dict(os.environ))
    with only_one_at_a_time():
        if arguments[0] == "uv":
            locked_uv.install(ROOT, TOOLS / "uv", environ)
        elif not is_installed(arguments[0], environ):
            check_platform()
            install(arguments[0], environ)


def install(profile: str, environ: dict[str, str]) -> None:
    """Installs a profile into `.venv` and records it."""
    uv = locked_uv.install(ROOT, TOOLS / "uv", environ)
    interpreter = interpreters.choose(ROOT, uv, environ)
    compiler_settings = compiler.settings(ROOT, TOOLS / "zig", uv, interpreter, environ)
    print(f"Installing from uv.lock into .venv ({interpreter.describe()}) ...", flush=True)
    start = time.monotonic()
    for stamp in VENV.glob(".installed-*"):
        stamp.unlink()
    command = [str(uv), "sync", "--frozen", "--python", interpreter.path, *PROFILES[profile]]
    if not sys.stderr.isatty():
        command.append("--quiet")
    settings = {"UV_PROJECT_ENVIRONMENT": str(VENV), **compiler_settings}
    if subprocess.run(command, cwd=str(ROOT), env={**environ, **settings}).returncode:
        raise SetupError(
            "uv could not install the packages of uv.lock; its message is above. Check that package registries "
            "are reachable and that the disk has 5 GB free, then run the same command again: it continues."
        )
    stamp_of(profile).write_text(fingerprint(profile))
    print(f"Installed in {time.monotonic() - start:.0f} s.", flush=True)


def is_installed(profile: str, environ: dict[str, str]) -> bool:
    """Tells whether `.venv` runs and matches the current uv.lock and pyproject.toml."""
    names = list(PROFILES)
    wide_enough = names[names.index(profile) :]
    if not any(stamp_of(name).is_file() and stamp_of(name).read_text() == fingerprint(name) for name in wide_enough):
        return False
    present = interpreters.probe(str(VENV / "bin" / "python"), environ)
    wanted = environ.get("TFX_GNN_PYTHON")
    if present is None or not wanted:
        return present is not None
    return present.base == interpreters.named_by_user(wanted, environ).base


def stamp_of(profile: str) -> Path:
    """File inside `.venv` that records an installed profile."""
    return VENV / f".installed-{profile}"


def fingerprint(profile: str) -> str:
    """Text that changes whenever an installed profile may be out of date, or the project folder was moved."""
    digest = hashlib.sha256(f"{ROOT}\0{PROFILES[profile]}\0".encode())
    for name in ("uv.lock", "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def check_platform() -> None:
    """Refuses, before any download, machines for which TFX publishes no wheels."""
    if platform.system() != "Linux" or platform.machine() != "x86_64" or not interpreters.glibc_version():
        raise SetupError(
            "the machine must be x86_64 Linux with glibc; got "
            f"{platform.machine()} {platform.system()} {platform.libc_ver()[0] or 'without glibc'}. "
            "TFX publishes wheels for nothing else: use such a machine or a container of one."
        )


def clean_environment(environ: dict[str, str]) -> dict[str, str]:
    """Drops settings that could make uv, pip or Python use packages other than the locked ones."""
    return {
        name: value
        for name, value in environ.items()
        if name not in OTHER_SETTINGS_DROPPED and not (name.startswith("UV_") and not name.startswith(UV_SETTINGS_KEPT))
    }


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[None]:
    """Makes a second run wait until the first has finished."""
    TOOLS.mkdir(exist_ok=True)
    with open(TOOLS / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SetupError as error:
        sys.exit(f"tfx_gnn: {error}")
