"""Scan what is locked and what is installed.

Exit codes: 0 nothing was found; 1 a vulnerability or a licence was; 3 nothing was found, but not
everything could be looked up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.scan.audit import audit
from tests.scan.licences import ACCEPTED, installed

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".venv-scan" / "bin"
LOCKS = ("lock.txt", "bench.txt", "scan.txt")
FOUND, UNKNOWN = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev scan", description="Scan what is locked and installed."
    )
    parser.add_argument("--sbom", type=Path, help="write the lock as CycloneDX in JSON")
    parser.add_argument("--offline", action="store_true", help="licences and SBOM alone")
    given = parser.parse_args()
    found = unknown = 0
    for name in () if given.offline else LOCKS:
        result = audit(PROGRAMS / "pip-audit", ROOT / "requirements" / name)
        print(f"requirements/{name}: {result.asked} packages looked up")
        for line in result.found:
            print(f"  vulnerable: {line}")
        for line in result.unknown:
            print(f"  not looked up: {line}")
        found, unknown = found + len(result.found), unknown + len(result.unknown)
    print("licences of what users install:")
    for licence in installed():
        mark = "  refused: " if licence.is_refused else "  "
        why = f" (accepted: {ACCEPTED[licence.name]})" if licence.name in ACCEPTED else ""
        print(f"{mark}{licence.name} {licence.version}: {licence.text or 'says nothing'}{why}")
        found += licence.is_refused
    if given.sbom:
        lock = str(ROOT / "requirements" / "lock.txt")
        made = ["--of", "JSON", "--output-reproducible", "-o", str(given.sbom)]
        subprocess.run([PROGRAMS / "cyclonedx-py", "requirements", lock, *made], check=True)
        print(f"written: {given.sbom}")
    if unknown:
        print("not everything could be looked up: nothing is known of the rest", file=sys.stderr)
    return FOUND if found else UNKNOWN if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
