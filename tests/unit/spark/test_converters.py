"""What Spark's gateway asks about each argument, and what it loads for that."""

from __future__ import annotations

import subprocess
import sys

import pytest
from py4j import protocol  # pyright: ignore[reportMissingTypeStubs]

pytestmark = pytest.mark.slow

_ASK = """
import sys
import pyspark.sql.types
from py4j import protocol
from mustela.spark.converters import ask_no_test_helpers

ask_no_test_helpers()
assert not any(converter.can_convert(object()) for converter in protocol.INPUT_CONVERTER)
loaded = {"numpy", "pandas", "pyarrow", "pyspark.testing"} & set(sys.modules)
assert not loaded, loaded

from types import ModuleType

sys.modules["numpy"] = ModuleType("numpy")  # as another thread finds it that comes while it loads
assert not any(converter.can_convert(object()) for converter in protocol.INPUT_CONVERTER)
del sys.modules["numpy"]

import numpy
kinds = {
    type(converter).__name__
    for value in (numpy.int64(3), numpy.array([1, 2]))
    for converter in protocol.INPUT_CONVERTER
    if converter.can_convert(value)
}
assert kinds >= {"NumpyScalarConverter", "NumpyArrayConverter"}, kinds
assert not {"pandas", "pyspark.testing"} & set(sys.modules)
"""


def test_an_argument_for_the_jvm_loads_neither_numpy_nor_pandas() -> None:
    """What is of NumPy is known for what it is all the same, as soon as NumPy is there."""
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pyspark_still_has_the_converters_that_are_looked_for() -> None:
    """Another PySpark may call them otherwise; then the driver is as large as it was before."""
    import pyspark.sql.types as types

    assert {type(converter).__module__ for converter in protocol.INPUT_CONVERTER} >= {
        types.__name__
    }
    assert types.NumpyScalarConverter
    assert types.NumpyArrayConverter
