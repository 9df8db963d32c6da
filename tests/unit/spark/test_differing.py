"""Executors whose hosts have other versions than the driver's are named."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from mustela.spark.differing import (
    ExecutorDiffersError,
    compare_versions,
    difference_told,
    installed_versions,
)
from mustela.spark.job_errors import job_error
from mustela.spark.shipment import Shipment, ship

LOST = "Lost task 0.0 in stage 3.0 (TID 7) (10.0.0.7 executor 1): "


def test_a_worker_with_other_packages_names_its_host_and_them() -> None:
    """EXECUTOR_DIFFERS: with the driver's versions it unpacks the program."""
    program: Any = type("Program", (), {"identity": "run", "kernel": {}})
    wanted = installed_versions()
    good = ship(program, versions=wanted)
    assert good.unpack().identity == "run"
    older = Shipment(*good[:-1], tuple((wanted | {"msgspec": "0.1"}).items()))
    with pytest.raises(
        ExecutorDiffersError, match=r"has msgspec .* where the driver has 0\.1"
    ) as e:
        older.unpack()
    told = LOST + "PythonException: " + "".join(traceback.format_exception(e.value))
    said = job_error(told, debug=False, cluster=True)
    assert isinstance(said, ExecutorDiffersError)
    assert str(said).splitlines()[0] == str(e.value).splitlines()[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "SparkException: Error from python worker:\n  /usr/bin/python3: Error while finding "
            "module specification for 'mustela.spark.daemon' (ModuleNotFoundError: No module "
            "named 'mustela')",
            "Mustela is not installed on 10.0.0.7",
        ),
        (
            "SparkException: \nError from python worker:\n  Traceback (most recent call last):\n"
            '    File "x.whl/mustela_executor.py", line 52, in <module>\n'
            "  ModuleNotFoundError: No module named 'lmdb'\nPYTHONPATH was:\n  a.zip",
            "lmdb is not installed on 10.0.0.7",
        ),
        (
            "SparkException: \nError from python worker:\n  /usr/bin/python: No module named "
            "mustela_executor\nPYTHONPATH was:\n  a.zip",
            "Mustela is not installed on 10.0.0.7",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor "
            "versions.",
            "10.0.0.7 has Python 3.9 where the driver has 3.11",
        ),
    ],
)
def test_a_host_that_cannot_start_a_worker_is_named(text: str, said: str) -> None:
    error = job_error(LOST + text, debug=False, cluster=True)
    assert str(error).splitlines()[0] == said
    assert error.code == "EXECUTOR_DIFFERS"


def test_what_a_program_itself_lacks_is_another_error() -> None:
    """Only Mustela's own name is Mustela's; what has no version cannot be compared."""
    assert difference_told(LOST + "ModuleNotFoundError: No module named 'mustelid'") is None
    compare_versions({"lmdb": "", "msgspec": "1"}, {"lmdb": "2", "msgspec": ""})
