"""The logging of a program that has set up nothing: pytest's own handlers are put aside."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

__all__ = ["bare_logging"]


@contextmanager
def bare_logging(*handlers: logging.Handler) -> Iterator[logging.Logger]:
    """Give the root logger these handlers alone while the block runs."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = handlers
    try:
        yield root
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        structlog.reset_defaults()
