"""mustela demo."""

from __future__ import annotations

from mustela.cli.console import Json


def demo(*, json: Json = False) -> int:
    """Run the demo."""
    return 0
