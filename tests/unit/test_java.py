"""Which Java is chosen, over directories made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.errors import EnvironmentFault
from mustela.java import (
    Java,
    JavaNotFoundError,
    apt_line,
    feature_of,
    find_java,
    java_candidates,
)

ALL_MODULES = "java.base jdk.incubator.vector jdk.zipfs"
NOTHING = {"PATH": ""}


def install(root: Path, name: str, version: str, *, modules: str | None = ALL_MODULES) -> Path:
    """Make a directory that looks like an installed Java; running it would fail the test."""
    home = root / name
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'this Java must not be started' >&2; exit 1\n")
    program.chmod(0o755)
    text = f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n'
    if modules is not None:
        text += f'MODULES="{modules}"\n'
    (home / "release").write_text(text)
    return home


def test_java_home_is_taken_when_it_does(tmp_path: Path) -> None:
    """JAVA_HOME comes first, also before a newer Java that does."""
    install(tmp_path, "java-21", "21.0.5")
    home = install(tmp_path / "mine", "java-17", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": ""}, roots=[tmp_path])
    assert found == Java(home=home, version="17.0.15", executable=home / "bin" / "java")
    assert found.feature == 17


def test_java_home_of_another_version_is_passed_over(tmp_path: Path) -> None:
    """Java 25 and Java 11 are not chosen, whatever JAVA_HOME and PATH say."""
    newest = install(tmp_path, "java-25", "25.0.3")
    oldest = install(tmp_path, "java-11", "11.0.2")
    home = install(tmp_path, "java-17", "17.0.15")
    environment = {"JAVA_HOME": str(newest), "PATH": str(oldest / "bin")}
    assert find_java(environment, roots=[tmp_path]).home == home


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    """Distributions put links on PATH, often more than one in a row."""
    home = install(tmp_path / "jvm", "java-17", "17.0.15")
    links = tmp_path / "bin"
    links.mkdir()
    (tmp_path / "alternative").symlink_to(home / "bin" / "java")
    (links / "java").symlink_to(tmp_path / "alternative")
    assert find_java({"PATH": str(links)}, roots=[]).home == home


def test_the_newest_installed_java_that_does_is_taken(tmp_path: Path) -> None:
    """Without JAVA_HOME and PATH, 21 comes before 17; folders without a program are skipped."""
    install(tmp_path, "java-17", "17.0.15")
    home = install(tmp_path, "java-21", "21.0.5")
    install(tmp_path, "java-25", "25.0.3")
    (tmp_path / "openjdk-17").mkdir()
    assert find_java(NOTHING, roots=[tmp_path, tmp_path / "absent"]).home == home


def test_a_java_without_the_vector_module_does_not_do(tmp_path: Path) -> None:
    """Spark's launcher demands jdk.incubator.vector: small runtimes lack it."""
    install(tmp_path, "java-17", "17.0.15", modules="java.base java.sql")
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(NOTHING, roots=[tmp_path])
    (refused,) = caught.value.fields["refused"]
    assert "jdk.incubator.vector" in refused.refusal


def test_no_java_is_an_error_that_names_each_and_the_fix(tmp_path: Path) -> None:
    """The error says what was looked at, why it does not do, and the line to type."""
    home = install(tmp_path, "java-25", "25.0.3")
    with pytest.raises(EnvironmentFault) as caught:
        find_java(NOTHING, roots=[tmp_path])
    error = caught.value
    assert error.code == "JAVA_NOT_FOUND"
    assert error.evidence == {str(home): "it is Java 25.0.3"}
    assert error.fix is not None
    assert "apt-get install" in error.fix


def test_each_java_is_looked_at_once(tmp_path: Path) -> None:
    """Links beside their target, JAVA_HOME and PATH all lead to one candidate."""
    home = install(tmp_path, "java-17-openjdk", "17.0.15")
    (tmp_path / "default").symlink_to(home)
    environment = {"JAVA_HOME": str(tmp_path / "default"), "PATH": str(home / "bin")}
    found = list(java_candidates(environment, roots=[tmp_path]))
    assert [candidate.home for candidate in found] == [home]


@pytest.mark.parametrize(("modules", "does"), [(ALL_MODULES, True), ("java.base", False)])
def test_a_java_without_a_release_file_is_asked(tmp_path: Path, modules: str, does: bool) -> None:
    """Some builds leave the file out: then the program says its version and modules."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    listed = "\\n".join(f"{module}@17.0.9" for module in modules.split())
    (home / "bin" / "java").write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "-version) echo 'openjdk version \"17.0.9\" 2023-10-17' >&2 ;;\n"
        f"--list-modules) printf '{listed}\\n' ;;\n"
        "esac\n"
    )
    (home / "bin" / "java").chmod(0o755)
    (candidate,) = java_candidates({"JAVA_HOME": str(home), "PATH": ""}, roots=[])
    assert candidate.version == "17.0.9"
    assert (candidate.refusal == "") is does


def test_a_broken_java_home_is_refused_with_the_reason(tmp_path: Path) -> None:
    """JAVA_HOME may name a directory that is gone, or one whose program does not run."""
    (gone,) = java_candidates({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}, roots=[])
    assert gone.refusal == "no program bin/java"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/nowhere/shell\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    (broken,) = java_candidates({"JAVA_HOME": str(tmp_path), "PATH": ""}, roots=[])
    assert broken.refusal == "java -version says no version"


def test_children_get_this_java_and_utf8(tmp_path: Path) -> None:
    """A child process finds the chosen Java first, and other letters in paths work."""
    java = Java(home=tmp_path, version="17.0.1", executable=tmp_path / "bin" / "java")
    environment = java.environment({"PATH": "/usr/bin", "LANG": "C", "LC_ALL": "C", "A": "b"})
    assert environment["JAVA_HOME"] == str(tmp_path)
    assert environment["PATH"] == f"{tmp_path}/bin:/usr/bin"
    assert environment["LC_ALL"] == "C.UTF-8"
    assert environment["A"] == "b"


@pytest.mark.parametrize(
    ("version", "feature"),
    [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25), ("", 0), ("none", 0)],
)
def test_the_feature_number_of_a_version(version: str, feature: int) -> None:
    """Old versions begin with 1."""
    assert feature_of(version) == feature


@pytest.mark.parametrize(
    ("release", "user_id", "line"),
    [
        ('ID=debian\nVERSION_ID="12"\n', 0, "apt-get install --yes openjdk-17-jre-headless"),
        ('ID=debian\nVERSION_ID="13"\n', 7, "sudo apt-get install --yes openjdk-21-jre-headless"),
        ("ID=debian\n", 0, "apt-get install --yes openjdk-17-jre-headless"),
    ],
)
def test_the_apt_line_fits_the_release(
    tmp_path: Path, release: str, user_id: int, line: str
) -> None:
    """Debian 12 has no Java 21, Debian 13 no Java 17."""
    file = tmp_path / "os-release"
    file.write_text(release)
    assert apt_line(file, user_id=user_id) == line
    assert "openjdk-17" in apt_line(tmp_path / "absent")
