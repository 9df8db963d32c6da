"""Where PySpark looks for ``spark.read.format("mustela")`` by itself.

Spark imports every module whose name begins with ``pyspark_`` and takes its ``DefaultSource``, in a
process of its own, when a session first reads from a data source that is written in Python.
"""

from mustela.frames.data_source import MustelaDataSource as DefaultSource

__all__ = ["DefaultSource"]
