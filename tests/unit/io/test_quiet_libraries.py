from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def run_python(tmp_path):
    """Runs code in a new process that can import the modules given; gives what it printed."""

    def run(code: str, **modules: str):
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_native_messages_of_an_import_are_hidden_and_later_ones_are_not(run_python):
    done = run_python(
        """
        import os, sys
        from tfx_gnn.io.quiet_libraries import QuietImport
        sys.meta_path.insert(0, QuietImport("chatty"))
        import chatty
        assert chatty.VALUE == 1
        os.write(2, b"after")
        """,
        chatty='import os\nos.write(2, b"I0000 oneDNN custom operations are on")\nVALUE = 1',
    )

    assert done.returncode == 0
    assert done.stderr == "after"


def test_messages_of_an_import_that_fails_are_shown(run_python):
    done = run_python(
        """
        import sys
        from tfx_gnn.io.quiet_libraries import QuietImport
        sys.meta_path.insert(0, QuietImport("broken"))
        import broken
        """,
        broken='import os\nos.write(2, b"cannot open libcuda")\nraise ImportError("no cuda")',
    )

    assert done.returncode == 1
    assert done.stderr.startswith("cannot open libcuda")
    assert done.stderr.endswith("ImportError: no cuda\n")


def test_module_that_is_missing_is_missing(run_python):
    done = run_python(
        """
        import sys
        from tfx_gnn.io.quiet_libraries import QuietImport
        sys.meta_path.insert(0, QuietImport("absent"))
        import absent
        """
    )

    assert done.stderr.endswith("ModuleNotFoundError: No module named 'absent'\n")


def test_xla_has_nothing_left_to_say_after_the_first_compilation(run_python):
    done = run_python(
        """
        from tfx_gnn.io.quiet_libraries import quiet_first_compilation, quiet_start
        quiet_start()
        quiet_first_compilation()
        import tensorflow as tf
        print(tf.function(lambda x: 2 * x, jit_compile=True)(tf.constant(3)).numpy())
        """
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "6\n", "")


def test_what_the_user_set_stays(run_python):
    done = run_python(
        """
        import os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
        from tfx_gnn.io.quiet_libraries import quiet_start
        quiet_start()
        print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
        """
    )

    assert done.stdout == "0\n"


def test_only_named_warnings_are_silenced(run_python):
    done = run_python(
        """
        import warnings
        from tfx_gnn.io.quiet_libraries import quiet_start
        quiet_start()
        warnings.warn("You are using a non-supported Python version (3.10.13).", FutureWarning)
        warnings.warn("your own warning", FutureWarning)
        """
    )

    assert "non-supported" not in done.stderr
    assert "your own warning" in done.stderr


def test_processes_that_are_started_later_are_quiet_too(run_python):
    done = run_python(
        """
        import subprocess, sys
        from tfx_gnn.io.quiet_libraries import quiet_start
        quiet_start()
        warn = "import warnings; warnings.warn('{}', FutureWarning)"
        for text in ("You are using a non-supported Python version (3.10.13).", "grpcio < 1.83.0", "your own warning"):
            subprocess.run([sys.executable, "-c", warn.format(text)], check=True)
        """
    )

    assert "non-supported" not in done.stderr
    assert "grpcio" not in done.stderr
    assert "your own warning" in done.stderr


def test_quiet_start_imports_nothing_heavy(run_python):
    done = run_python(
        """
        import sys
        import tfx_gnn_pipelines.command
        print(sorted({"tensorflow", "tfx", "apache_beam", "numpy"} & set(sys.modules)))
        """
    )

    assert done.stdout == "[]\n"
