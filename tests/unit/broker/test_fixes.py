"""What the errors of jars, tools and the development broker advise, followed: it helps."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mustela.errors import MustelaError
from mustela.java import find_java
from mustela_dev.broker import process
from mustela_dev.broker.ivy import JarsDownloadError, MirrorError, PySparkJarsError, pyspark_jars
from mustela_dev.broker.jars import (
    JarRequest,
    JarsCacheError,
    JarSet,
    JarSettings,
    JarsMissingError,
    JarsSumMismatchError,
    UnknownJarSetError,
    jar_set,
    resolve_jars,
)
from mustela_dev.broker.locks import LockTimeoutError, locked
from mustela_dev.broker.probe import LOOPBACK
from mustela_dev.broker.process import (
    BrokerAddressError,
    BrokerAlreadyRunningError,
    BrokerDidNotStartError,
    BrokerNotRunningError,
    BrokerPortError,
    DevelopmentBroker,
)
from mustela_dev.broker.record import BrokerDirectoryError, make_private
from mustela_dev.broker.tools import ToolFailedError, UnknownToolError, run_tool, tool_command
from tests.unit.broker.conftest import StandIn
from tests.unit.broker.test_jars import (  # noqa: F401 - fixtures among them
    FILES,
    fill,
    request_with,
    source,
    the_set,
)

Asks = Callable[..., JarRequest]
RUNS = "exec sleep 1000"


def fix_of(kind: type[MustelaError], make: Callable[..., Any], *args: Any, **more: Any) -> str:
    """Return the fix of what is refused."""
    with pytest.raises(kind) as caught:
        make(*args, **more)
    return caught.value.fix or ""


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in pass for a broker that answers."""
    monkeypatch.setattr(process, "answers", lambda *_: True)


def test_jars_that_are_put_where_the_error_says_are_found(
    tmp_path: Path,
    request_with: Asks,  # noqa: F811
) -> None:
    """JarsMissingError names the directory; JarsDownloadError and JarsCacheError lead to it too."""
    offline = tmp_path / "offline"
    offline.mkdir()
    asked = request_with(settings=JarSettings(directory=offline))
    said = fix_of(JarsMissingError, resolve_jars, the_set(), asked)
    assert said == "put the jars of org.test:one:1.0 and their dependencies there"
    fill(offline)
    assert len(resolve_jars(the_set(), asked)) == len(FILES)
    (tmp_path / "fail").write_text("no route to host")
    said = fix_of(JarsDownloadError, resolve_jars, the_set(), request_with())
    assert "set jars.mirror to a Maven repository you can reach, or jars.directory" in said
    assert resolve_jars(the_set(), asked)
    (tmp_path / "fail").unlink()
    mirror = JarSettings(mirror="https://maven.example/")
    assert resolve_jars(the_set(), request_with(settings=mirror))


def test_a_cache_at_another_place_can_be_written(
    tmp_path: Path,
    request_with: Asks,  # noqa: F811
) -> None:
    """JarsCacheError names the variable."""
    (tmp_path / "my home").write_text("a file, not a directory")
    said = fix_of(JarsCacheError, resolve_jars, the_set(), request_with())
    assert said == "set XDG_CACHE_HOME to a writable directory, or jars.directory"
    asked = request_with()
    elsewhere = {**asked.environment, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert resolve_jars(the_set(), replace(asked, environment=elsewhere))


def test_jars_that_differ_are_deleted_and_fetched_again(request_with: Asks) -> None:  # noqa: F811
    """JarsSumMismatchError: what the fix names is enough."""
    jars = resolve_jars(the_set(), request_with())
    jars[0].write_bytes(b"changed")
    said = fix_of(JarsSumMismatchError, resolve_jars, the_set(), request_with())
    assert str(jars[0].parent) in said
    assert "delete" in said or "rm " in said
    for jar in jars[0].parent.iterdir():
        jar.unlink()
    assert resolve_jars(the_set(), request_with()) == jars


def test_a_mirror_is_an_address_with_https(request_with: Asks) -> None:  # noqa: F811
    """MirrorError."""
    asked = request_with(settings=JarSettings(mirror="maven.example"))
    said = fix_of(MirrorError, resolve_jars, the_set(), asked)
    assert said == "use the URL of a Maven repository, with https://"
    mirror = JarSettings(mirror="https://maven.example/")
    assert resolve_jars(the_set(), request_with(settings=mirror))


def test_a_jar_set_with_its_sums_is_used(request_with: Asks) -> None:  # noqa: F811
    """UnknownJarSetError."""
    assert fix_of(UnknownJarSetError, jar_set, "small") == "pass a JarSet with its checksums"
    made = the_set()
    again = JarSet(name="small", coordinates=made.coordinates, sums=made.sums)
    assert resolve_jars(again, request_with())


def test_the_pyspark_of_the_named_version_has_its_jars() -> None:
    """PySparkJarsError: the version that it installs is the one that is installed here."""
    from importlib.metadata import version

    said = fix_of(PySparkJarsError, pyspark_jars, "no-such-*.jar")
    assert said == "pip install --force-reinstall 'pyspark>=4.2,<4.3'"
    assert version("pyspark").startswith("4.2.")
    assert pyspark_jars("ivy-*.jar")


def test_whoever_holds_a_lock_is_named_by_the_line_of_the_error(tmp_path: Path) -> None:
    """LockTimeoutError: the file of the line is the one that is held; let go, it can be taken."""
    lock = tmp_path / "lock"
    with locked(lock, lambda: None):
        with pytest.raises(LockTimeoutError) as caught, locked(lock, lambda: None, wait_s=0.1):
            pass
        assert caught.value.fix == f"find out which: fuser '{lock}'"
    with locked(lock, lambda: None, wait_s=0.1):
        pass


@pytest.mark.usefixtures("answering")
def test_a_second_broker_runs_when_the_first_has_stopped_or_elsewhere(
    tmp_path: Path, stand_in: StandIn
) -> None:
    """BrokerAlreadyRunningError; BrokerNotRunningError, where none was started."""
    options = stand_in(RUNS)
    first = DevelopmentBroker(tmp_path / "data", options=options)
    assert fix_of(BrokerNotRunningError, lambda: first.bootstrap_servers) == "call start() first"
    assert fix_of(BrokerNotRunningError, lambda: first.pid) == "call start() first"
    with first:
        assert first.bootstrap_servers
        assert first.pid
        second = DevelopmentBroker(tmp_path / "data", options=options)
        said = fix_of(BrokerAlreadyRunningError, second.start)
        assert said == "stop that one, or choose another data directory"
        with DevelopmentBroker(tmp_path / "other", options=options):
            pass
    with second:
        pass


@pytest.mark.usefixtures("answering")
def test_another_port_or_none_is_free(tmp_path: Path, stand_in: StandIn) -> None:
    """BrokerPortError."""
    options = stand_in(RUNS)
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        broker = DevelopmentBroker(tmp_path / "data", port=port, options=options)
        said = fix_of(BrokerPortError, broker.start)
        assert said == "choose another port, or none to get a free one"
        with DevelopmentBroker(tmp_path / "data", options=options) as other:
            assert other.port != port


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize("address", ["0.0.0.0", "some-host", "192.0.2.1", "::1"])
def test_an_address_of_this_host_is_listened_on(
    tmp_path: Path, stand_in: StandIn, address: str
) -> None:
    """BrokerAddressError: what clients cannot be told, or is another host's, is refused."""
    options = stand_in(RUNS)
    refused = DevelopmentBroker(tmp_path / "data", options=replace(options, listen=address))
    said = fix_of(BrokerAddressError, refused.start)
    assert said == "name one IPv4 address of this host; `ip -4 address` lists them"
    right = replace(options, listen="127.0.0.2")
    with DevelopmentBroker(tmp_path / "data", options=right) as broker:
        assert broker.bootstrap_servers == f"127.0.0.2:{broker.port}"


def test_a_broker_that_did_not_start_says_where_to_look(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BrokerDidNotStartError: the log that it names says why, and what is right starts."""
    data = tmp_path / "data"
    broker = DevelopmentBroker(data, options=stand_in("echo 'ERROR no room'; exit 1"))
    with pytest.raises(BrokerDidNotStartError) as caught:
        broker.start()
    assert "see the log" in (caught.value.fix or "")
    assert "no room" in Path(caught.value.evidence["log"]).read_text()
    monkeypatch.setattr(process, "answers", lambda *_: True)
    with DevelopmentBroker(data, options=stand_in(RUNS)):
        pass


def test_another_directory_can_be_made(tmp_path: Path) -> None:
    """BrokerDirectoryError names the option, which the command has."""
    (tmp_path / "file").touch()
    said = fix_of(BrokerDirectoryError, make_private, tmp_path / "file" / "data")
    assert said == "choose another with --data"
    make_private(tmp_path / "data")


def test_tools_that_exist_run(stand_in: StandIn) -> None:
    """UnknownToolError lists those there are; ToolFailedError asks to look at the broker."""
    with pytest.raises(UnknownToolError) as caught:
        tool_command("kafka-nonsense", [])
    assert "kafka-topics" in caught.value.evidence["known"]
    hangs = stand_in(RUNS).jars
    said = fix_of(ToolFailedError, run_tool, "kafka-topics", [], request=hangs, timeout_s=0.2)
    assert said == "check that the broker answers"
    assert run_tool("kafka-topics", ["--list"], request=stand_in("echo ok").jars) == "ok\n"


def test_a_java_that_is_installed_as_the_error_says_is_found(tmp_path: Path) -> None:
    """JAVA_NOT_FOUND: the packages of the line put a Java where it is looked for."""
    from tests.unit.test_java import NOTHING, install

    with pytest.raises(MustelaError) as caught:
        find_java(NOTHING, roots=[tmp_path])
    assert caught.value.code == "JAVA_NOT_FOUND"
    version = "21" if "openjdk-21" in (caught.value.fix or "") else "17"
    assert f"openjdk-{version}-j" in (caught.value.fix or "")
    home = install(tmp_path, f"java-{version}-openjdk-amd64", f"{version}.0.1")
    assert find_java(NOTHING, roots=[tmp_path]).home == home
