"""The life of a development broker, with a stand-in for Kafka."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from mustela_dev.broker import process
from mustela_dev.broker.child import mark_of
from mustela_dev.broker.probe import LOOPBACK
from mustela_dev.broker.process import (
    BrokerAlreadyRunningError,
    BrokerDidNotStartError,
    BrokerNotRunningError,
    BrokerPortError,
    DevelopmentBroker,
)
from mustela_dev.broker.record import read_record
from tests.unit.broker.conftest import StandIn

RUNS = "exec sleep 1000"
LAST_WORDS = """
echo 'ERROR Exiting'
echo 'java.io.IOException: disk full'
printf '\\tat kafka.Kafka.main(Kafka.java:1)\\n\\t... 12 more\\n'
exit 1
"""


def always(*_: object) -> bool:
    return True


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in pass for a broker that answers."""
    monkeypatch.setattr(process, "answers", always)


@pytest.mark.usefixtures("answering")
def test_port_and_cluster_stay_over_stop_kill_and_a_new_object(
    tmp_path: Path, stand_in: StandIn
) -> None:
    """Clients find the broker again where it was."""
    options = stand_in(RUNS)
    broker = DevelopmentBroker(tmp_path / "data", options=options)
    broker.start()
    known = (broker.port, broker.cluster_id)
    assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
    first = broker.pid
    broker.restart()
    assert broker.pid != first
    broker.kill()
    assert not broker.running
    with DevelopmentBroker(tmp_path / "data", options=options) as again:
        assert (again.port, again.cluster_id) == known
    assert mark_of(first) is None


@pytest.mark.usefixtures("answering")
def test_a_port_that_was_taken_meanwhile_is_replaced(tmp_path: Path, stand_in: StandIn) -> None:
    """Unless the caller asked for it: then it is an error that names it."""
    options = stand_in(RUNS)
    with DevelopmentBroker(tmp_path / "data", options=options) as broker:
        port = broker.port
    with socket.create_server((LOOPBACK, port)):
        with DevelopmentBroker(tmp_path / "data", options=options) as moved:
            assert moved.port != port
        with pytest.raises(BrokerPortError, match=str(port)):
            DevelopmentBroker(tmp_path / "data", port=port, options=options).start()


@pytest.mark.usefixtures("answering")
def test_a_directory_is_served_by_one_broker_only(tmp_path: Path, stand_in: StandIn) -> None:
    """The second one is told which process has it."""
    options = stand_in(RUNS)
    with DevelopmentBroker(tmp_path / "data", options=options) as broker:
        with pytest.raises(BrokerAlreadyRunningError) as caught:
            DevelopmentBroker(tmp_path / "data", options=options).start()
        assert caught.value.fields == {"pid": broker.pid, "port": broker.port}


@pytest.mark.usefixtures("answering")
def test_a_broker_without_a_directory_leaves_nothing(stand_in: StandIn) -> None:
    """Its data goes when it is closed, not when it is stopped."""
    broker = DevelopmentBroker(options=stand_in(RUNS))
    with broker:
        place = broker.data_dir
        broker.restart()
        assert broker.data_dir == place
    assert not place.exists()


def test_a_broker_that_ends_at_once_is_an_error_with_its_last_words(
    tmp_path: Path, stand_in: StandIn
) -> None:
    """The error names the log and shows its end, of this start only."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "broker.log").write_text("words of an earlier start\n")
    broker = DevelopmentBroker(data, options=stand_in(LAST_WORDS))
    with pytest.raises(BrokerDidNotStartError) as caught:
        broker.start()
    assert caught.value.evidence["says"] == "ERROR Exiting\njava.io.IOException: disk full"
    assert caught.value.evidence["log"] == str(data / "broker.log")
    assert "it ended" in caught.value.what
    assert not broker.running


def test_a_broker_that_never_answers_is_killed(tmp_path: Path, stand_in: StandIn) -> None:
    """Nothing of it stays behind, and its directory is free for the next."""
    options = replace(stand_in(RUNS), start_timeout_s=0.2)
    broker = DevelopmentBroker(tmp_path / "data", options=options)
    with pytest.raises(BrokerDidNotStartError, match=r"did not answer on port \d+ for 0.2 s"):
        broker.start()
    found = read_record(tmp_path / "data")
    assert found is not None
    assert found.mark is None


def test_a_lost_race_for_a_port_is_run_again(tmp_path: Path, stand_in: StandIn) -> None:
    """Between choosing a port and listening on it, another program may take it."""
    broker = DevelopmentBroker(
        tmp_path / "data",
        options=stand_in(f"echo x >> '{tmp_path}/tries'; echo Address already in use; exit 1"),
    )
    with pytest.raises(BrokerDidNotStartError):
        broker.start()
    assert (tmp_path / "tries").read_text().count("x") == process.PORT_ATTEMPTS_MAX


@pytest.mark.usefixtures("answering")
def test_scratch_files_of_a_killed_broker_are_cleared(tmp_path: Path, stand_in: StandIn) -> None:
    """Native libraries that Java unpacked are left when it is killed."""
    broker = DevelopmentBroker(tmp_path / "data", options=stand_in(RUNS))
    broker.start()
    (broker.data_dir / "tmp" / "library.so").touch()
    broker.kill()
    broker.start()
    assert list((broker.data_dir / "tmp").iterdir()) == []
    broker.kill()


def test_an_identity_survives_the_loss_of_the_record(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster's id is the data's own; only the port may change."""
    monkeypatch.setattr(process, "answers", always)
    options = stand_in(RUNS)
    with DevelopmentBroker(tmp_path / "data", options=options) as broker:
        known = broker.cluster_id
    (tmp_path / "data" / "broker.json").unlink()
    with DevelopmentBroker(tmp_path / "data", options=options) as broker:
        assert broker.cluster_id == known


def test_a_broker_that_was_never_started_says_so(tmp_path: Path, stand_in: StandIn) -> None:
    """Neither its port nor its process can be asked for; stopping it is no error."""
    broker = DevelopmentBroker(tmp_path / "data", options=stand_in(RUNS))
    with pytest.raises(BrokerNotRunningError):
        _ = broker.bootstrap_servers
    with pytest.raises(BrokerNotRunningError):
        _ = broker.pid
    assert broker.stop()
    broker.kill()
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("answering")
def test_the_log_does_not_grow_for_ever(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start with a large log puts it aside."""
    monkeypatch.setattr(process, "LOG_BYTES_MAX", 10)
    data = tmp_path / "data"
    data.mkdir()
    (data / "broker.log").write_text("more than ten bytes")
    with DevelopmentBroker(data, options=stand_in(RUNS)):
        assert (data / "broker.log").read_text() == ""
        assert (data / "broker.log.1").read_text() == "more than ten bytes"
    shutil.rmtree(data)
