"""Mustela itself, on PySpark with two cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.base import Peer

_ROOT = Path(__file__).parent.parent.parent
_GUARANTEES = {"eos": "exactly_once", "alo": "at_least_once"}


@dataclass(slots=True)
class MustelaPeer(Peer):
    """Mustela with its defaults; nothing but what every peer is given is set."""

    name: str = field(default="mustela", init=False)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.mustela_app", *self.arguments()]

    def environment(self) -> Mapping[str, str]:
        todo = self.assignment
        before = os.environ.get("PYTHONPATH")
        return {
            "PYTHONPATH": os.pathsep.join([str(_ROOT), *([before] if before else [])]),
            "MUSTELA__BOOTSTRAP_SERVERS": todo.bootstrap,
            "MUSTELA__PROCESSING_GUARANTEE": _GUARANTEES[todo.guarantee],
            "MUSTELA__COMMIT_INTERVAL": f"{todo.commit_ms}ms",
            "MUSTELA__STATE_DIR": str(todo.state_dir),
            "MUSTELA__LOG__LEVEL": "warning",
        }
