"""The libraries of the extra ``sql``, imported when a statement or a data frame needs them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from mustela.sql.errors import SqlLibraryError

__all__ = ["arrow", "check_libraries"]

_ARROW: Final = "pyarrow"


def arrow() -> Any:
    """Return pyarrow.

    Raises:
        SqlLibraryError: If it is not installed.
    """
    try:
        return import_module(_ARROW)
    except ImportError:
        raise _missing(_ARROW) from None


def check_libraries() -> None:
    """Refuse to go on without DuckDB and Arrow.

    Raises:
        SqlLibraryError: If one of them is not installed.
    """
    for name in ("duckdb", _ARROW):
        if find_spec(name) is None:
            raise _missing(name)


def _missing(name: str) -> SqlLibraryError:
    msg = f"{name} is not installed, which SQL and data frames need"
    return SqlLibraryError(msg, fix="pip install 'mustela[sql]'")
