"""The file in a data directory that records which process serves it, and where."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mustela.errors import EnvironmentFault
from mustela_dev.broker.child import ProcessMark
from mustela_dev.broker.probe import LOOPBACK

__all__ = [
    "FORMAT",
    "BrokerDirectoryError",
    "BrokerRecord",
    "make_private",
    "read_record",
    "write_private",
    "write_record",
]

FORMAT = 1
FILE_NAME = "broker.json"


class BrokerDirectoryError(EnvironmentFault):
    """The broker's data directory cannot be written."""

    code = "BROKER_DIRECTORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """What is known about the broker of a data directory.

    Attributes:
        cluster_id: The id of its cluster, chosen when the directory was created.
        port: The port for clients, kept from one start to the next.
        controller_port: The port of its controller.
        mark: Its process, if it was started and not stopped.
        secure: Whether it was started with TLS and a login.
        address: Where clients reach it.
    """

    cluster_id: str
    port: int
    controller_port: int
    mark: ProcessMark | None = None
    secure: bool = False
    address: str = LOOPBACK


def read_record(directory: Path) -> BrokerRecord | None:
    """Return the record of a data directory, or None if none can be read."""
    try:
        loaded: Any = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
        table = cast("dict[str, Any]", loaded)
        if table["format"] != FORMAT:
            return None
        mark = cast("dict[str, Any] | None", table["process"])
        return BrokerRecord(
            cluster_id=str(table["cluster_id"]),
            port=int(table["port"]),
            controller_port=int(table["controller_port"]),
            secure=bool(table.get("secure", False)),
            address=str(table.get("address", LOOPBACK)),
            mark=None
            if mark is None
            else ProcessMark(
                pid=int(mark["pid"]), started=int(mark["started"]), boot=str(mark["boot"])
            ),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_record(directory: Path, record: BrokerRecord) -> None:
    """Replace the record of a data directory."""
    mark = record.mark
    table = {
        "format": FORMAT,
        "cluster_id": record.cluster_id,
        "port": record.port,
        "controller_port": record.controller_port,
        "secure": record.secure,
        "address": record.address,
        "process": None
        if mark is None
        else {"pid": mark.pid, "started": mark.started, "boot": mark.boot},
    }
    write_private(directory / FILE_NAME, json.dumps(table, indent=2) + "\n")


def make_private(directory: Path) -> None:
    """Create a directory for its owner only, unless it exists.

    Raises:
        BrokerDirectoryError: If it cannot be created or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        what = f"cannot make the broker's data directory {directory}: {problem.strerror}"
        raise BrokerDirectoryError(what, fix="choose another with --data") from problem
    if not os.access(directory, os.W_OK | os.X_OK):
        what = f"cannot write the broker's data directory {directory}"
        raise BrokerDirectoryError(what, fix="choose another with --data")


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically, readable for its owner only."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    scratch.replace(path)
