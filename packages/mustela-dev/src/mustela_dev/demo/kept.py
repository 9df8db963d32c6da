"""A demonstration that keeps running, and stopping it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from mustela.errors import UsageError
from mustela_dev.broker.child import Child, ProcessMark
from mustela_dev.broker.daemon import stop_broker

__all__ = ["NotKeptError", "stop_kept", "write_kept"]

FILE_NAME = "kept.json"
STOP_TIMEOUT_S = 90.0


class NotKeptError(UsageError):
    """A directory does not belong to a demonstration that was kept running."""

    code = "DEMO_NOT_KEPT"


def write_kept(scratch: Path, mark: ProcessMark) -> None:
    """Record the process of a demonstration's application."""
    (scratch / FILE_NAME).write_text(json.dumps(asdict(mark)), encoding="utf-8")


def stop_kept(scratch: Path) -> None:
    """Stop the application and the broker of a demonstration, and delete its directory.

    Raises:
        NotKeptError: If it is not such a directory.
    """
    try:
        mark = ProcessMark(**json.loads((scratch / FILE_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as problem:
        what = f"{scratch} is not the directory of a demonstration that was kept running"
        fix = "name the directory that mustela demo --keep printed"
        raise NotKeptError(what, fix=fix) from problem
    Child(mark=mark).end(patience_s=STOP_TIMEOUT_S)
    stop_broker(scratch / "broker")
    shutil.rmtree(scratch)
