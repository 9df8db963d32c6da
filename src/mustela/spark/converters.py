"""What PySpark does to see whether an argument for the JVM comes from NumPy, without loading NumPy.

PySpark 4.2 asks its test helpers whether NumPy is there, and these import pandas and PyArrow where
they are installed: in every driver, for 50 MB and more than half a second of each start. What is of
NumPy can only exist where NumPy has been imported, so it is enough to look whether it has.
"""

from __future__ import annotations

import sys
from typing import Any

from py4j import protocol  # pyright: ignore[reportMissingTypeStubs]

__all__ = ["ask_no_test_helpers"]


def _is_scalar(value: Any) -> bool:
    return isinstance(value, _numpy_type("generic"))


def _is_array(value: Any) -> bool:
    return isinstance(value, _numpy_type("ndarray")) and bool(value.ndim == 1)


def _numpy_type(name: str) -> type[Any] | tuple[()]:
    """Return a type of NumPy's, or none: another thread may be importing it at this moment."""
    found: type[Any] | tuple[()] = getattr(sys.modules.get("numpy"), name, ())
    return found


_QUESTIONS = {
    "pyspark.sql.types.NumpyScalarConverter": _is_scalar,
    "pyspark.sql.types.NumpyArrayConverter": _is_array,
}


def ask_no_test_helpers() -> None:
    """Have PySpark's converters for NumPy look at what is loaded; any number of times.

    Other converters, and a PySpark that calls them otherwise, are left as they are.
    """
    converters: list[Any] = protocol.INPUT_CONVERTER  # pyright: ignore[reportUnknownMemberType]
    for converter in converters:
        question = _QUESTIONS.get(f"{converter.__module__}.{converter.__class__.__name__}")
        if question is not None:
            converter.can_convert = question
