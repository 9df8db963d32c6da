"""Which of Spark's jars a JVM opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.spark.jars import class_path, wants_all


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    for name in ("spark-core_2.13-4.2.1.jar", "hive-exec-2.3.10-core.jar", "breeze_2.13-2.1.0.jar"):
        (tmp_path / "jars").mkdir(exist_ok=True)
        (tmp_path / "jars" / name).touch()
    (tmp_path / "jars" / "notes.txt").touch()
    return tmp_path


def test_the_class_path_has_what_applications_load_or_all_jars(installed: Path) -> None:
    """In the order of names: an archive of classes fits this order only."""
    usual = [jar.name for jar in class_path(installed)]
    whole = [jar.name for jar in class_path(installed, everything=True)]
    assert usual == ["spark-core_2.13-4.2.1.jar"]
    assert whole == [
        "breeze_2.13-2.1.0.jar",
        "hive-exec-2.3.10-core.jar",
        "spark-core_2.13-4.2.1.jar",
    ]


@pytest.mark.parametrize(
    ("name", "value", "all_jars"),
    [
        ("spark.master", "local[2]", False),
        ("spark.driver.memory", "1g", False),
        ("spark.sql.warehouse.dir", "/data", False),
        ("spark.sql.catalogImplementation", "hive", True),
        ("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog", True),
        ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension", True),
        ("spark.sql.hive.metastore.version", "2.3.9", True),
        ("spark.hadoop.hive.metastore.uris", "thrift://store:9083", True),
        ("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:4.2.0", True),
        ("spark.plugins", "com.nvidia.spark.SQLPlugin", True),
    ],
)
def test_code_of_others_may_need_any_jar(name: str, value: str, *, all_jars: bool) -> None:
    """As may a program that names Hive."""
    assert wants_all({name: value}, ()) is all_jars


def test_a_program_that_uses_machine_learning_gets_its_jars() -> None:
    """What PySpark itself imports asks for nothing."""
    assert not wants_all({}, {"pyspark": 1, "pyspark.sql": 1})
    assert wants_all({}, {"pyspark.ml": 1})
