"""Known vulnerabilities of locked packages, as pip-audit finds them in the OSV database."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

AUDIT_TIMEOUT_S = 600
TOLD_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is known of the packages of a lock.

    Attributes:
        asked: How many were looked up.
        found: Those with known vulnerabilities, a line each.
        unknown: Why something could not be looked up, a line each.
    """

    asked: int
    found: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_audit(printed: str, said: str) -> Audit:
    """Read what pip-audit printed: a package that it passed over was not looked up.

    Args:
        printed: Its document; nothing if it gave up.
        said: What it wrote to standard error.
    """
    try:
        loaded: Any = json.loads(printed)
        rows = cast("list[dict[str, Any]]", loaded["dependencies"])
    except (ValueError, KeyError, TypeError):
        last = (said.strip().splitlines() or ["pip-audit says nothing"])[-1]
        return Audit(asked=0, unknown=(last[:TOLD_MAX],))
    found = [
        f"{row['name']} {row['version']}: {vulnerability['id']}"
        + (f", mended in {', '.join(fixed)}" if (fixed := vulnerability["fix_versions"]) else "")
        for row in rows
        for vulnerability in row.get("vulns", ())
    ]
    unknown = [row["skip_reason"] for row in rows if "skip_reason" in row]
    return Audit(asked=len(rows) - len(unknown), found=tuple(found), unknown=tuple(unknown))


def audit(pip_audit: Path, lock: Path, more: Sequence[str] = ()) -> Audit:
    """Ask for a lock; the database is not a package index, and no package is downloaded."""
    command = [str(pip_audit), "-s", "osv", "--require-hashes", "--disable-pip", "-r", str(lock)]
    done = subprocess.run(
        [*command, "--progress-spinner", "off", "-f", "json", *more],
        capture_output=True,
        text=True,
        timeout=AUDIT_TIMEOUT_S,
        check=False,
    )
    return read_audit(done.stdout, done.stderr)
