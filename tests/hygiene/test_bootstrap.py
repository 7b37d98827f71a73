"""The bootstrap chooses an interpreter that runs, whatever lies around on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOTSTRAP = ROOT / "infra" / "bootstrap"


@pytest.fixture
def interpreters(monkeypatch: pytest.MonkeyPatch):
    """The module as bootstrap.sh sees it: its folder first on the path."""
    monkeypatch.syspath_prepend(str(BOOTSTRAP))
    import interpreters

    return interpreters


def _executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _broken_shim(path: Path) -> Path:
    return _executable(path, "#!/bin/sh\necho 'pyenv: python3.10: command not found' >&2\nexit 127\n")


def _python(path: Path, version: str, *, headers: bool = True) -> Path:
    """Answers the probe as an interpreter of that version would."""
    answer = (
        f'{{"path": "{path}", "base": "{path.parent}", "version": "{version}", '
        f'"usable": true, "headers": {str(headers).lower()}}}'
    )
    return _executable(path, f"#!/bin/sh\necho '{answer}'\n")


def _uv(path: Path, *, managed: Path | None = None, downloaded: Path | None = None) -> Path:
    """A uv that has one managed Python, or gets one when asked to install."""
    found = managed or path.parent / "downloaded-python"
    install = f'ln -s "{downloaded}" "{found}"' if downloaded else "exit 1"
    script = f'#!/bin/sh\ncase "$2" in\nfind) [ -e "{found}" ] && echo "{found}" ;;\ninstall) {install} ;;\nesac\n'
    return _executable(path, script)


@pytest.fixture
def choose(tmp_path: Path, interpreters, monkeypatch: pytest.MonkeyPatch):
    """Chooses as on a machine that has nothing but what the test put into `shims`, `bin`, `pyenv` and `uv`."""
    for tool in ("sh", "ln"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / tool).symlink_to(shutil.which(tool))

    def choose(*, glibc: tuple[int, int] = (2, 36), **settings: str):
        monkeypatch.setattr(interpreters, "glibc_version", lambda: glibc)
        path = os.pathsep.join(str(tmp_path / folder) for folder in ("shims", "bin", "tools"))
        uv = tmp_path / "uv"
        return interpreters.choose(
            ROOT, uv if uv.exists() else _uv(uv), {"PATH": path, "PYENV_ROOT": str(tmp_path / "pyenv"), **settings}
        )

    return choose


def test_a_shim_that_fails_is_passed_over_for_a_python_that_runs(tmp_path, choose):
    _broken_shim(tmp_path / "shims" / "python3.10")
    working = _python(tmp_path / "bin" / "python3.10", "3.10.4")

    assert choose().path == str(working)


def test_pyenvs_newest_installed_version_is_used_when_only_its_shim_is_on_path(tmp_path, choose):
    _broken_shim(tmp_path / "shims" / "python3.10")
    _python(tmp_path / "pyenv" / "versions" / "3.10.9" / "bin" / "python3.10", "3.10.9")
    newest = _python(tmp_path / "pyenv" / "versions" / "3.10.13" / "bin" / "python3.10", "3.10.13")

    assert choose().path == str(newest)


def test_a_python3_of_another_version_is_not_taken_for_3_10(tmp_path, choose):
    _python(tmp_path / "bin" / "python3", "3.11.2")
    managed = _python(tmp_path / "managed" / "python3.10", "3.10.16")
    _uv(tmp_path / "uv", managed=managed)

    assert choose().path == str(managed)


def test_a_newer_python_is_used_where_glibc_allows_it(tmp_path, choose):
    _python(tmp_path / "bin" / "python3.12", "3.12.3", headers=False)
    newer = _python(tmp_path / "bin" / "python3.11", "3.11.9")

    assert choose(glibc=(2, 39)).path == str(newer)


def test_python_3_10_goes_before_a_newer_one(tmp_path, choose):
    _python(tmp_path / "bin" / "python3.13", "3.13.1")
    older = _python(tmp_path / "pyenv" / "versions" / "3.10.13" / "bin" / "python3.10", "3.10.13")

    assert choose(glibc=(2, 41)).path == str(older)


def test_uv_is_asked_to_download_when_nothing_else_is_there(tmp_path, choose):
    brought = _python(tmp_path / "elsewhere" / "python3.10", "3.10.18")
    _uv(tmp_path / "uv", downloaded=brought)

    assert choose().version == "3.10.18"


def test_no_interpreter_at_all_is_one_message_that_says_what_to_install(tmp_path, choose):
    _broken_shim(tmp_path / "shims" / "python3.10")
    _python(tmp_path / "bin" / "python3.13", "3.13.0")

    with pytest.raises(
        Exception, match=r"no usable Python: .*Install Python 3.10 \(for example `pyenv install 3.10`\)"
    ):
        choose()


def test_a_newer_python_without_headers_is_named_with_what_it_lacks(tmp_path, choose):
    _python(tmp_path / "bin" / "python3.13", "3.13.0", headers=False)

    with pytest.raises(Exception, match=r"Python 3.13.0 that is here .* C headers .*apt-get install python3.13-dev"):
        choose(glibc=(2, 41))


def test_the_interpreter_that_the_user_names_is_never_replaced_by_another(tmp_path, choose):
    _python(tmp_path / "bin" / "python3.10", "3.10.4")
    named = _python(tmp_path / "named" / "python", "3.9.2")

    with pytest.raises(Exception, match=r"`TFX_GNN_PYTHON` must name .* CPython 3.10 on this machine; got .*3.9.2"):
        choose(TFX_GNN_PYTHON=str(named))


def test_this_interpreter_answers_the_probe(interpreters):
    found = interpreters.probe(sys.executable, dict(os.environ))

    assert found.version.split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert found.usable


def test_the_script_refuses_an_unknown_argument_without_a_traceback():
    done = subprocess.run([ROOT / "infra" / "bootstrap.sh", "everything"], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines() == ["tfx_gnn: the argument must be one of uv, quickstart, test; got everything."]
