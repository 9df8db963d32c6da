"""Arrow, which has no types of its own for type checkers; only what reads columns imports it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["arrow", "compute", "parquet"]

arrow: Any = import_module("pyarrow")
compute: Any = import_module("pyarrow.compute")
parquet: Any = import_module("pyarrow.parquet")
