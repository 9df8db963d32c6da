"""Quix Streams, in an environment of its own: what it pins must not bend what Mustela runs on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.base import Peer, PeerFailedError, program_path

_ROOT = Path(__file__).parent.parent.parent
_ENVIRONMENT = _ROOT / ".venv-bench"
_REQUIREMENTS = _ROOT / "requirements" / "bench.txt"
_INSTALL_TIMEOUT_S = 600
_PROCESSES = 2


@dataclass(slots=True)
class QuixPeer(Peer):
    """Quix Streams 3: two processes where there are two partitions to share, RocksDB."""

    name: str = field(default="quix", init=False)

    def repartitions(self) -> bool:
        # On one partition it groups in place.
        return self.assignment.program == "word_count" and self.assignment.partitions > 1

    def command(self) -> list[str]:
        return [
            str(environment_python()),
            *("-W", "ignore"),
            str(program_path("quix_app.py")),
            *self.arguments(),
            *("--processes", str(min(_PROCESSES, self.assignment.partitions))),
        ]


def environment_python() -> Path:
    """The Python of the peer's environment, which is made when it is not there.

    Raises:
        PeerFailedError: If it cannot be made.
    """
    python = _ENVIRONMENT / "bin" / "python"
    if _works(python):
        return python
    print(f"making {_ENVIRONMENT.name} for Quix Streams", file=sys.stderr)
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(_ENVIRONMENT)],
        [str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(_REQUIREMENTS)],
    )
    try:
        for command in commands:
            subprocess.run(command, check=True, timeout=_INSTALL_TIMEOUT_S)
    except (subprocess.SubprocessError, OSError) as error:
        raise PeerFailedError(f"the environment of Quix Streams cannot be made: {error}") from error
    return python


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    answer = subprocess.run([str(python), "-W", "ignore", "-c", "import quixstreams"], check=False)
    return answer.returncode == 0
