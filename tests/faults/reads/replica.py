"""The application as ``mustela serve tests.faults.reads.replica:app`` follows it."""

from __future__ import annotations

from tests.faults.reads.served import make_app

app, _ = make_app()
