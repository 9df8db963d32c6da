"""The programs under ``examples/`` as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[3] / "examples"


def load(name: str) -> Any:
    """Import an example once; its classes are found where pickle looks for them."""
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, DIRECTORY / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
