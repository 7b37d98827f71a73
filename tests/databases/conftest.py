"""A PostgreSQL server that runs on this machine, on a socket in a temporary folder; see infra/ci/databases.sh."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as postgresql
import pytest

PASSWORD = "hush/hush"
"""Holds a character that URLs escape."""
# Debian keeps the server's programs apart from PATH.
_PLACES = os.pathsep.join([os.environ["PATH"], *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server:
    """A server with an administrator named admin."""

    folder: str

    def address(self, database: str, user: str = "admin") -> str:
        return f"postgresql:///{database}?host={self.folder}&user={user}"

    def run(self, database: str, *statements: str) -> None:
        with self.connected(database) as cursor:
            for statement in statements:
                cursor.execute(statement)

    @contextlib.contextmanager
    def connected(self, database: str) -> Iterator[Any]:
        """Yields a cursor, each statement of which is committed at once."""
        with (
            postgresql.connect(self.address(database), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Makes a cluster with passwords, and stops it at the end."""
    programs = {name: shutil.which(name, path=_PLACES) for name in ("initdb", "pg_ctl")}
    missing = sorted(name for name, path in programs.items() if path is None)
    if missing:
        pytest.fail(f"tests/databases needs a PostgreSQL server; {missing} not found. Run: apt-get install postgresql")
    # The server refuses to run as root. pytest's own temporary folders are closed to other users.
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    (folder / "password").write_text(PASSWORD)
    if user:
        for path in (folder, folder / "password"):
            shutil.chown(path, "nobody", "nogroup")

    def run(*command: str) -> None:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder)}
        done = subprocess.run(
            [*user, *command], env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout

    try:
        secrets = ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
        run(str(programs["initdb"]), f"--pgdata={folder / 'data'}", "--username=admin", "--no-sync", *secrets)
        settings = f"-k {folder} -c listen_addresses= -c fsync=off"
        log = ["--log", str(folder / "log")]
        run(str(programs["pg_ctl"]), "start", "--wait", f"--pgdata={folder / 'data'}", *log, "--options", settings)
        yield Server(folder=str(folder))
        run(str(programs["pg_ctl"]), "stop", "--mode=immediate", f"--pgdata={folder / 'data'}")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def database(server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """Makes an empty database for a test; its password is in the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    name = f"db_{abs(hash(request.node.nodeid))}"
    server.run("postgres", f"CREATE DATABASE {name}")
    yield name
    server.run("postgres", f"DROP DATABASE {name} WITH (FORCE)")
