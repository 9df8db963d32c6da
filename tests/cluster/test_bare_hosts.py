"""Executors whose Python lacks Mustela, has another version of it, or lacks what it needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.cluster.program import Program
from tests.cluster.rig import Cluster
from tests.cluster.word_count import FILES, RUN, TOPICS, Lines, marks

pytestmark = marks

OTHER = """\
Metadata-Version: 2.1
Name: mustela
Version: 0.0.1
"""


def bare_python(place: Path, *, without: str | None = None) -> Path:
    """Make a Python that has what Mustela needs, and not Mustela: it is installed as a link."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    own = next(place.glob("lib/python*/site-packages"))
    installed = Path(sysconfig.get_path("purelib"))
    for entry in installed.iterdir():
        if entry.suffix != ".pth" and not entry.name.startswith(("mustela", without or "mustela")):
            (own / entry.name).symlink_to(entry)
    return place / "bin" / "python"


def program_with(cluster: Cluster, python: Path) -> Program:
    """Return word count, of which executors have a Python of their own."""
    cluster.add_workers("a", "b")
    return Program(cluster, cluster.add("driver"), FILES, TOPICS, executors_python=python)


def counts_with(program: Program, *words: str) -> None:
    """Run a program with further words of the command, and see it count some lines."""
    with program.running(RUN, "--master", program.cluster.master, *words):
        lines = Lines(program)
        lines.send(300)
        lines.until_counted()


def test_mustela_comes_with_the_program(cluster: Cluster) -> None:
    """Nothing of it is on the hosts of executors, and the words are counted."""
    python = bare_python(cluster.shared / "bare")
    program = program_with(cluster, python)
    counts_with(program)


def test_another_version_there_gives_way(cluster: Cluster) -> None:
    """What is installed on the hosts is older, and would not even start."""
    python = bare_python(cluster.shared / "bare")
    own = next(python.parent.parent.glob("lib/python*/site-packages"))
    (own / "mustela").mkdir()
    (own / "mustela/__init__.py").write_text("raise ImportError('too old')\n", encoding="utf-8")
    (own / "mustela-0.0.1.dist-info").mkdir()
    (own / "mustela-0.0.1.dist-info/METADATA").write_text(OTHER, encoding="utf-8")
    program = program_with(cluster, python)
    counts_with(program)


def test_an_archive_brings_all_that_mustela_needs(cluster: Cluster) -> None:
    """Spark unpacks it beside each executor, whose Python is in it."""
    bare_python(cluster.shared / "bare")
    archive = shutil.make_archive(str(cluster.shared / "env"), "gztar", cluster.shared / "bare")
    program = program_with(cluster, Path("./env/bin/python"))
    given = f"spark.spark.archives={archive}#env"
    counts_with(program, "--set", given)


def test_what_mustela_needs_is_named_with_the_host(cluster: Cluster) -> None:
    """The wheel brings Mustela alone; LMDB is a library of the host's machine."""
    python = bare_python(cluster.shared / "bare", without="lmdb")
    program = program_with(cluster, python)
    with program.running(RUN, "--master", cluster.master):
        Lines(program).send(3)
        program.until_ended()
    assert "EXECUTOR_DIFFERS" in program.log()
    assert f"lmdb is not installed on {cluster.hosts['a'].address}" in program.log() or (
        f"lmdb is not installed on {cluster.hosts['b'].address}" in program.log()
    )
