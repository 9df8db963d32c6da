"""The command of an executor in a pod, made of what Spark's driver gave to the pod."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mustela.spark.executor_pod import ExecutorPodError, command_of
from mustela.spark.masters import SparkJarsError, check_jars

JAVA = Path("/opt/java/bin/java")
GIVEN = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@shop-0.shop.apps.svc:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "shop-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_MEMORY": "768m",
}


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """A Spark with its jar for Kubernetes."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-kubernetes_2.13-4.2.1.jar").touch()
    return tmp_path


def test_an_executor_is_started_as_spark_told_its_pod(spark: Path) -> None:
    """Options of the JVM in their order: an option that needs another one follows it."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in range(11)}
    more = {"SPARK_CONF_DIR": "/opt/spark/conf", "SPARK_CLASSPATH": "/opt/more.jar"}
    command = command_of({**GIVEN, **options, **more}, spark, JAVA)
    assert command[0] == str(JAVA)
    assert command[1:12] == [f"-Dnumber={number}" for number in range(11)]
    assert command[12:15] == ["-Xmx768m", "-cp", f"/opt/spark/conf:/opt/more.jar:{spark}/jars/*"]
    assert command[15].endswith(".KubernetesExecutorBackend")
    told = dict(zip(command[16::2], command[17::2], strict=True))
    assert told == {
        "--driver-url": GIVEN["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "shop-exec-3",
    }


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_a_pod_that_spark_did_not_make_is_refused(spark: Path, missing: str) -> None:
    """By the name of what is missing; with all that the driver gives to a pod it is taken."""
    with pytest.raises(ExecutorPodError, match=f"{missing} is not set") as caught:
        command_of({**GIVEN, missing: ""}, spark, JAVA)
    assert "its manifests for executors" in (caught.value.fix or "")
    assert command_of(GIVEN, spark, JAVA)


@pytest.mark.parametrize(
    ("master", "jar"),
    [
        ("k8s://https://host:6443", "spark-kubernetes_2.13-4.2.1.jar"),
        ("yarn", "spark-yarn_2.13-4.2.1.jar"),
    ],
)
def test_a_spark_without_the_jars_of_its_master_is_refused(
    tmp_path: Path, master: str, jar: str
) -> None:
    """A small image lacks them; with them, as --all-jars puts them in, it is taken."""
    with pytest.raises(SparkJarsError, match="Spark cannot run with") as caught:
        check_jars(master, tmp_path)
    assert "--all-jars" in (caught.value.fix or "")
    check_jars("local[*]", tmp_path)
    check_jars("spark://host:7077", tmp_path)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / jar).touch()
    check_jars(master, tmp_path)


@pytest.mark.slow
def test_outside_of_a_pod_it_says_so_and_ends() -> None:
    """As one error without a trace: it is read in the log of a pod."""
    done = subprocess.run(
        [sys.executable, "-m", "mustela.spark.executor_pod"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: this is no pod of a Spark executor")
    assert "Traceback" not in done.stderr
