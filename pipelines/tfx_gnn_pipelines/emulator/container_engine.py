"""Runs the containers of tasks with podman or docker, as isolated as a service would."""

from __future__ import annotations

import contextlib
import ctypes
import enum
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfx_gnn.tables.spans import folder_of_spans
from tfx_gnn_pipelines.emulator.launcher import TaskContainer, append
from tfx_gnn_pipelines.services import LAUNCHER_FOLDERS

_CLOSED = "/root"
_LABEL = "tfx_gnn.pods"
_ANSWER_FOLDER = "tmp/kfp_outputs"
_IDS = 65536
_SECONDS_TO_STOP = 30
_PR_SET_PDEATHSIG = 1


class EngineKind(str, enum.Enum):
    """A command line that runs containers."""

    PODMAN = "podman"
    DOCKER = "docker"


class ImageContainers:
    """Runs each task in a container of its image.

    A container has no network, no capability and nothing of this machine's environment. It runs as the image's user and
    sees the folders that stand for its root, and `folders` under their own paths; what it writes there belongs to the
    user who starts the run. With docker, which cannot map users, it runs as that user instead.

    Args:
        kind: the command line to use.
        folders: further folders that tasks write, such as the push destination; made if they are missing.
        read_only_folders: further folders that tasks only read, such as the tables.
    """

    def __init__(
        self, kind: EngineKind, *, folders: Sequence[Path] = (), read_only_folders: Sequence[Path] = ()
    ) -> None:
        if shutil.which(kind.value) is None:
            raise FileNotFoundError(
                f"`--container` must name an installed command; got {kind.value!r}, which is not on PATH. Install it, "
                "or leave the option out to run each task as a process."
            )
        if kind is EngineKind.DOCKER and os.geteuid() == 0:
            raise PermissionError(
                "`--container docker` must be used by a user other than root, as which the containers then run; got "
                "root. Start the run as a member of the group docker, or use podman."
            )
        self._kind = kind
        self._folders = folders
        self._read_only_folders = read_only_folders
        self._users: dict[str, Sequence[str]] = {}

    def root_inside(self, folder: Path) -> Path:
        """Returns the root of a container, whatever the folder."""
        del folder
        return Path("/")

    def remove_leftovers(self, pods: Path) -> None:
        """Removes the containers that a killed run left; `pods` is the folder of its containers' folders."""
        for name in self._containers(pods):
            self._remove(name)
        if left := self._containers(pods):
            raise OSError(
                f"`--container {self._kind.value}` must start without the containers of a killed run; got {left}, "
                f"which cannot be removed. Try {self._kind.value} rm --force {left[0]}"
            )

    def run(self, container: TaskContainer) -> int:
        """Runs a container to its end; returns the exit code, negative for a signal.

        The container ends with this process. If this process is killed, the container is interrupted, and
        `remove_leftovers` removes what did not end by that.
        """
        user_flags = self._user_flags(container)
        name = f"tfx-gnn-{uuid.uuid4().hex}"
        program, *arguments = container.command
        command = [
            *(self._kind.value, "run", "--rm", "--name", name, "--label", f"{_LABEL}={container.folder.parent}"),
            *("--network", "none", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
            # Mounted folders keep their SELinux labels.
            *("--security-opt", "label=disable", "--log-driver", "none"),
            *user_flags,
            *(word for mount in self._mounts(container.folder) for word in ("--mount", mount)),
            *(word for item in container.environment.items() for word in ("--env", "=".join(item))),
            # As Kubernetes does, the command replaces the image's own entrypoint.
            *("--entrypoint", program, container.image, *arguments),
        ]
        with container.log.open("ab") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                # Not in the terminal's group: this process decides when it ends.
                start_new_session=True,
                preexec_fn=_interrupt_with_parent,  # noqa: PLW1509 - a command line has one thread here
            )
            try:
                code = process.wait()
            except BaseException:
                self._remove(name)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_STOP)
                process.kill()
                process.wait()
                raise
        # Engines report a signal as a shell does.
        return 128 - code if code > 128 else code

    def _mounts(self, pod: Path) -> list[str]:
        inside = {f"/{folder}": pod / folder for folder in (*LAUNCHER_FOLDERS.values(), _ANSWER_FOLDER)}
        inside |= {str(folder): folder for folder in self._folders}
        for folder in (*inside.values(), *self._read_only_folders):
            if "," in str(folder):
                raise ValueError(
                    f"Folders must have no comma in their names with --container; got {str(folder)!r}. Choose another "
                    "folder, or leave --container out."
                )
        for folder in inside.values():
            folder.mkdir(parents=True, exist_ok=True)
        mounts = [f"type=bind,source={folder},target={target}" for target, folder in inside.items()]
        return mounts + [f"type=bind,source={folder},target={folder},readonly" for folder in self._read_only_folders]

    def _user_flags(self, container: TaskContainer) -> Sequence[str]:
        """Returns flags by which the image's user writes mounted folders as the user of this process."""
        image = container.image
        if image not in self._users:
            user = self._image_user(container)
            self._users[image] = (
                ("--user", f"{os.getuid()}:{os.getgid()}")
                if self._kind is EngineKind.DOCKER
                # Podman otherwise passes the proxies of this machine on.
                else (*_podman_user_flags(user, is_root=os.geteuid() == 0), "--http-proxy=false")
            )
        return self._users[image]

    def _image_user(self, container: TaskContainer) -> int:
        image = container.image
        inspect = ("image", "inspect", "--format", "{{.Config.User}}", image)
        found = self._ask(*inspect)
        if found.returncode:
            append(container.log, f"pulls the image {image}")
            pulled = self._ask("pull", image)
            if pulled.returncode:
                reason = " ".join(pulled.stderr.split()[-60:])
                raise OSError(
                    f"`image` must be one that {self._kind.value} can pull; got {image!r}: {reason}. Build and push "
                    "it, or name another one with --image."
                )
            found = self._ask(*inspect)
        user = found.stdout.strip().partition(":")[0]
        if user in ("", "root"):
            return 0
        if not user.isdecimal():
            raise ValueError(
                f"`image` must name its user by a number, as Kubernetes needs it to see that it is not root; got "
                f"{user!r} in {image!r}. Write USER 10001, for example, in the Dockerfile."
            )
        return int(user)

    def _containers(self, pods: Path) -> list[str]:
        asked = self._ask("ps", "--all", "--filter", f"label={_LABEL}={pods}", "--format", "{{.Names}}")
        if asked.returncode:
            raise OSError(
                f"`--container {self._kind.value}` must name a command that works; got {asked.stderr.strip()!r}. Try "
                f"{self._kind.value} ps"
            )
        return asked.stdout.split()

    def _remove(self, name: str) -> None:
        # Killed first, because a program that is a container's first process ignores the signal to stop.
        self._ask("kill", name)
        self._ask("rm", "--force", name)

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._kind.value, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


def local_folders(values: Mapping[str, object]) -> tuple[dict[str, str], list[Path], list[Path]]:
    """Finds the folders of this machine among the values of a run's parameters.

    Returns:
        The parameters whose values changed to absolute paths; folders that tasks write; folders that they only read.

    Raises:
        ValueError: if a place is on an object store, which a container without a network cannot reach, or below a
            folder that images close to their users.
    """
    changed: dict[str, str] = {}
    written: list[Path] = []
    read: list[Path] = []
    for name, folders in (("push_destination", written), ("tables_dir", read)):
        value = str(values.get(name, ""))
        if value.startswith("package://") or not value:
            continue
        if "://" in value:
            raise ValueError(
                f"`{name}` must be a folder with --container, because containers have no network here; got {value!r}. "
                f"Add --parameter {name}=FOLDER."
            )
        changed[name] = os.path.abspath(value)
        # Mounted under its own path, which has to be open to the image's user.
        if Path(changed[name]).is_relative_to(_CLOSED):
            raise ValueError(
                f"`{name}` must not be below {_CLOSED} with --container, where images let only root in; got {value!r}. "
                f"Add --parameter {name}=FOLDER with another folder."
            )
        folders.append(Path(folder_of_spans(changed[name])))
    return changed, written, read


def _podman_user_flags(user: int, *, is_root: bool) -> tuple[str, ...]:
    if not is_root:
        return ("--userns", f"keep-id:uid={user},gid={user}")
    if user == 0:
        return ()
    # The image's user is root of this machine where it writes files; the others, root of the image too, are nobody.
    maps = (f"0:1:{user}", f"{user}:0:1", f"{user + 1}:{user + 1}:{_IDS}")
    return tuple(word for kind in ("--uidmap", "--gidmap") for text in maps for word in (kind, text))


def _interrupt_with_parent() -> None:
    # The engine's command passes it on to the container, where Python ends by it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
