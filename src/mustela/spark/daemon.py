"""The parent of Spark's Python workers, with everything a task needs already imported.

Spark starts this module instead of its own daemon and forks a worker from it whenever one is
needed. Workers so share the memory of the imported code, are ready at once, and the garbage
collection that Spark runs between two tasks has little to look at.
"""

from __future__ import annotations

import gc


def preload() -> None:
    """Import what tasks use; no module here starts a thread or opens a file when imported."""
    import json  # noqa: F401, PLC0415

    import confluent_kafka  # noqa: F401, PLC0415
    import lmdb  # noqa: F401, PLC0415
    import msgspec  # noqa: F401, PLC0415
    import pyspark.core.broadcast  # noqa: F401, PLC0415
    import pyspark.shuffle  # noqa: F401, PLC0415
    import pyspark.worker  # noqa: F401, PLC0415

    import mustela.spark.worker  # noqa: F401, PLC0415


def main() -> None:
    """Import, freeze what was imported, and serve Spark."""
    from pyspark import daemon  # noqa: PLC0415

    preload()
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
