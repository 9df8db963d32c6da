"""Which of Spark's jars an application of Mustela never loads.

PySpark brings 400 MB of jars: also those for machine learning, for Hive, for Spark Connect, and for
clusters of Kubernetes and YARN. Mustela runs jobs on Spark's core; what it needs of the others was
seen by running applications without them. Images leave them out, and the JVM of an application
on one host does not open them: it would keep the table of contents of each.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["SPARE_JARS", "is_spare"]

SPARE_JARS = (
    # machine learning and graphs
    "JLargeArrays-*",
    "JTransforms-*",
    "algebra_*",
    "arpack*",
    "blas-*",
    "breeze*",
    "cats-kernel_*",
    "lapack-*",
    "spark-graphx_*",
    "spark-mllib*",
    "spire*",
    # Spark Connect, declarative pipelines, the Scala shell
    "connect-repl/*",
    "scala-compiler-*",
    "spark-connect*",
    "spark-pipelines_*",
    "spark-repl_*",
    # Hive and its store of tables
    "HikariCP-*",
    "ST4-*",
    "antlr-runtime-*",
    "datanucleus-*",
    "derby*",
    "hive-*",
    "javax.jdo-*",
    "jdo-api-*",
    "jline-*",
    "libfb303-*",
    "libthrift-*",
    "spark-hive*",
    # clusters of Kubernetes and YARN
    "kubernetes-*",
    "spark-kubernetes_*",
    "spark-yarn_*",
    "vertx-*",
    "volcano-*",
    "zjsonpatch-*",
    # a store of Spark's own that Mustela does not use; other systems
    "rocksdbjni-*",
    "*-osx-*.jar",
    "*-windows-*.jar",
)
"""Patterns of file names."""


def is_spare(name: str) -> bool:
    """Whether a jar of Spark's is one that no application loads.

    Args:
        name: The file, from the directory of Spark's jars.

    Example:
        >>> is_spare("breeze_2.13-2.1.0.jar"), is_spare("spark-core_2.13-4.2.1.jar")
        (True, False)
    """
    return any(fnmatchcase(name, pattern) for pattern in SPARE_JARS)
