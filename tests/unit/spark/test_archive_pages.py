"""Who gives pages of the archive back; that they go is seen in `tests/integration/test_jvm.py`."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from mustela.spark.archive_pages import ArchivePages
from tests.patience import PATIENCE_S


def test_a_jvm_that_somebody_else_has_started_is_left_alone() -> None:
    """As under `spark-submit`, where the JVM starts Python: its process is not known here."""
    ArchivePages(SimpleNamespace(_gateway=SimpleNamespace()))
    for thread in threading.enumerate():
        if thread.name == "mustela-archive-pages":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
