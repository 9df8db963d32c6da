"""mustela doctor: what the machine lacks, and how to fix it."""

from __future__ import annotations

from dataclasses import asdict, replace

from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table
from mustela.cli.examination import Finding, Level, examine
from mustela.config.masking import mask_text

__all__ = ["doctor", "report"]


def doctor(*, bootstrap_servers: Bootstrap = None, json: Json = False) -> int:
    """Check Python, Java, jars, broker, disk and tmpfs; exit with 1 if something is wrong.

    Args:
        bootstrap_servers: The brokers to look for.
        json: Print JSON.
    """
    return report(examine(bootstrap_servers), json=json)


def report(findings: list[Finding], *, json: bool) -> int:
    """Print findings, secrets masked, and return the exit code."""
    findings = [
        replace(one, found=mask_text(one.found), mend=mask_text(one.mend)) for one in findings
    ]
    if json:
        print_json([{**asdict(f), "level": f.level.value} for f in findings])
    else:
        marks = {Level.OK: "ok", Level.NOTE: "note", Level.WRONG: "WRONG"}
        rows = [(marks[f.level], f.name, f.found) for f in findings]
        print_table(["", "what", "found"], rows)
        for finding in findings:
            if finding.mend:
                print(f"\n{finding.name}: {finding.mend}")
    wrong = any(finding.level is Level.WRONG for finding in findings)
    return ExitCode.FAULT if wrong else ExitCode.OK
