"""The jars that the JVM of an application on one host opens.

Sooner or later a JVM looks for something in all the jars of its class path, and from then on it
keeps the table of contents of each in its heap. Those for machine learning, Hive, Spark Connect and
clusters are a third of them: without them a start takes a fifth less, and the JVM 10 MB.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

from mustela.config.sparkjars import is_spare

__all__ = ["class_path", "wants_all"]

_WITH_CODE: Final = (
    "spark.extraListeners",
    "spark.hadoop.hive.",
    "spark.hadoop.javax.jdo.",
    "spark.jars",
    "spark.plugins",
    "spark.sql.catalog",
    "spark.sql.extensions",
    "spark.sql.hive.",
    "spark.sql.streaming.stateStore.",
)
"""So begin properties that bring code of others, or that Hive and stores of Spark's own have."""

_MODULES: Final = ("pyspark.ml", "pyspark.mllib", "pyspark.pandas")
"""Of PySpark, for which the spare jars are."""


def wants_all(properties: Mapping[str, str], imported: Container[str]) -> bool:
    """Whether a program may need jars that an application as such never loads.

    Args:
        properties: Spark's properties.
        imported: Names of the modules that the program has imported.

    Example:
        >>> wants_all({"spark.master": "local[2]"}, ["pyspark.sql"])
        False
        >>> wants_all({"spark.sql.catalogImplementation": "hive"}, [])
        True
        >>> wants_all({}, ["pyspark.ml"])
        True
    """
    return any(name.startswith(_WITH_CODE) for name in properties) or any(
        name in imported for name in _MODULES
    )


def class_path(spark: Path, *, everything: bool = False) -> list[Path]:
    """Return the jars of an installed Spark that a JVM opens, in the order of their names.

    Args:
        spark: PySpark's directory.
        everything: Also those that an application as such never loads.

    Example:
        >>> class_path(Path("nowhere"))
        []
    """
    jars = sorted((spark / "jars").glob("*.jar"))
    return [jar for jar in jars if everything or not is_spare(jar.name)]
