"""The parent of Spark's Python workers, with everything a task needs already imported.

Spark starts this module instead of its own daemon and forks a worker from it whenever one is
needed. Workers so share the memory of the imported code, are ready at once, and the garbage
collection that Spark runs between two tasks has little to look at.
"""

from __future__ import annotations

import gc
import importlib

_MODULES = (
    "confluent_kafka",
    "lmdb",
    "msgspec",
    "pyspark.core.broadcast",
    "pyspark.shuffle",
    "pyspark.worker",
    "mustela.spark.worker",
)
"""What tasks use; none of these starts a thread or opens a file when it is imported."""


def main() -> None:
    """Import, freeze what was imported, and serve Spark."""
    from pyspark import daemon

    for module in _MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
