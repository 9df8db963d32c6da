"""A broker that outlives the program that starts it, with a stand-in for Kafka."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mustela_dev.broker import daemon, process
from mustela_dev.broker.child import Child, mark_of
from mustela_dev.broker.daemon import (
    BrokerStatus,
    broker_status,
    default_data_dir,
    start_broker,
    stop_broker,
)
from mustela_dev.broker.probe import LOOPBACK, free_port
from mustela_dev.broker.process import BrokerAlreadyRunningError, BrokerOptions
from mustela_dev.broker.record import BrokerRecord, read_record, write_record
from tests.unit.broker.conftest import StandIn

RUNS = "exec sleep 1000"


def always(*_: object) -> bool:
    return True


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stand-in pass for a broker that answers."""
    monkeypatch.setattr(process, "answers", always)
    monkeypatch.setattr(daemon, "answers", always)


@contextmanager
def started(place: Path, options: BrokerOptions) -> Generator[BrokerStatus]:
    status = start_broker(place, port=free_port(), options=options)
    try:
        yield status
    finally:
        stop_broker(place)


@pytest.mark.usefixtures("answering")
def test_start_status_and_stop_agree(tmp_path: Path, stand_in: StandIn) -> None:
    """Each is another call, as it is another program on the command line."""
    place = tmp_path / "data"
    with started(place, stand_in(RUNS)) as status:
        assert status.running
        assert status.answering
        assert status.bootstrap_servers == f"127.0.0.1:{status.port}"
        assert broker_status(place) == status
        assert stop_broker(place)
        after = broker_status(place)
        assert not after.running
        assert after.pid is None
        assert after.port == status.port
        assert not stop_broker(place)


@pytest.mark.usefixtures("answering")
def test_a_second_start_reports_the_broker_that_runs(tmp_path: Path, stand_in: StandIn) -> None:
    """On another port it is refused: the caller would look for it there."""
    place, options = tmp_path / "data", stand_in(RUNS)
    with started(place, options) as status:
        assert start_broker(place, options=options) == status
        with pytest.raises(BrokerAlreadyRunningError, match=str(status.port)):
            start_broker(place, port=free_port(), options=options)


@pytest.mark.usefixtures("answering")
def test_the_first_start_takes_the_usual_port_when_it_is_free(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients look for Kafka at 9092."""
    options = stand_in(RUNS)
    monkeypatch.setattr(daemon, "DEFAULT_PORT", free_port())
    try:
        assert start_broker(tmp_path / "one", options=options).port == daemon.DEFAULT_PORT
        stop_broker(tmp_path / "one")
        with socket.create_server((LOOPBACK, daemon.DEFAULT_PORT)):
            other = start_broker(tmp_path / "two", options=options)
            assert other.port != daemon.DEFAULT_PORT
    finally:
        stop_broker(tmp_path / "one")
        stop_broker(tmp_path / "two")


def test_an_id_that_was_used_again_is_left_alone(tmp_path: Path) -> None:
    """The record names this very process id with another start: nothing is ended."""
    mine = mark_of(os.getpid())
    assert mine is not None
    stale = replace(mine, started=mine.started - 1)
    write_record(tmp_path, BrokerRecord(cluster_id="c", port=1, controller_port=2, mark=stale))
    assert not broker_status(tmp_path).running
    assert not stop_broker(tmp_path)
    found = read_record(tmp_path)
    assert found is not None
    assert found.mark is None
    assert found.port == 1


@pytest.mark.usefixtures("answering")
def test_a_broker_that_was_killed_can_be_started_again(tmp_path: Path, stand_in: StandIn) -> None:
    """Its stale record is no hindrance, and the port is the same."""
    place, options = tmp_path / "data", stand_in(RUNS)
    with started(place, options) as status:
        found = read_record(place)
        assert found is not None
        assert found.mark is not None
        Child(mark=found.mark).kill()
        assert not broker_status(place).running
        again = start_broker(place, options=options)
        assert again.pid != status.pid
        assert again.port == status.port


def test_a_directory_without_a_broker_has_a_status(tmp_path: Path) -> None:
    """Asking makes no directory."""
    status = broker_status(tmp_path / "none")
    assert not status.running
    assert status.port is None
    assert not stop_broker(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_data_lie_where_the_user_says() -> None:
    """XDG_DATA_HOME when it is absolute, else .local/share under HOME."""
    assert default_data_dir({"XDG_DATA_HOME": "/d"}) == Path("/d/mustela/broker")
    assert default_data_dir({"XDG_DATA_HOME": "d", "HOME": "/h"}) == Path(
        "/h/.local/share/mustela/broker"
    )
