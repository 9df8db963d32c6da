"""The root directory of an image is entered as a container runtime does it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

# What a container runtime does: directories of its own, then the program as the image's user.
ENTER = """
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
mount -t proc proc "$0/proc"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount --bind "$1" "$0/state"
mount -t tmpfs tmpfs "$0/dev"
mkdir "$0/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
for name in null zero random urandom; do
    touch "$0/dev/$name"
    mount --bind "/dev/$name" "$0/dev/$name"
done
user=$2
root=$0
shift 2
exec chroot --userspec="$user" --groups= "$root" "$@"
"""


@dataclass(frozen=True)
class Container:
    """An image's root directory, and how it is entered."""

    root: Path
    config: Mapping[str, Any]
    made: Mapping[str, Any]

    def command(self, state: Path, *words: str, **variables: str) -> list[str]:
        settings = self.config["config"]
        own = [f"{name}={value}" for name, value in variables.items()]
        begin = ["/usr/bin/env", "-i", "-C", settings["WorkingDir"], *settings["Env"], *own]
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-ec", ENTER]
        return [*enter, str(self.root), str(state), settings["User"], *begin, *words]

    def run(self, state: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(state, *words, **variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )


def missing() -> str:
    """Say why no root can be entered here."""
    if os.geteuid() != 0:
        return "only root enters another root directory"
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        return "this root must not mount"
    return ""
