"""The parent of Spark's Python workers on an executor, which brings Mustela where it is missing.

In the wheel that executors are given (see `mustela.spark.carried`) this file is the module
`mustela_executor`, which Spark starts. Mustela of the driver's version that is installed on the
host runs, as it may be compiled; otherwise that of the wheel does.

Owns: which Mustela runs on an executor. May import: nothing of Mustela before that is decided.
"""

from __future__ import annotations

import sys
from importlib import import_module, invalidate_caches
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_WHEELS = ("mustela-", ".whl")


def choose(path: list[str], wheel: Path) -> list[str]:
    """Return where to look for modules: in the wheel first, or not at all.

    Args:
        path: Where Python looks, with the wheel or without.
        wheel: The wheel; its name says the driver's version.
    """
    others = [entry for entry in path if Path(entry).absolute() != wheel]
    wanted = wheel.name.split("-")[1]
    sys.path[:] = others
    invalidate_caches()
    if find_spec("mustela") is None:
        return [str(wheel), *others]
    try:
        same = version("mustela") == wanted
    except PackageNotFoundError:  # sources beside the program: nobody knows which
        same = True
    return others if same else [str(wheel), *others]


def main() -> None:
    """Choose, and go on as that Mustela's daemon."""
    wheel = Path(__file__).absolute().parent
    name = wheel.name
    if name.startswith(_WHEELS[0]) and name.endswith(_WHEELS[1]):
        sys.path[:] = choose(list(sys.path), wheel)
        invalidate_caches()
    import_module("mustela.spark.daemon").main()


if __name__ == "__main__":
    main()
