"""A development broker that outlives the program that starts it: start, stop, status."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mustela_dev.broker.child import Child
from mustela_dev.broker.locks import locked
from mustela_dev.broker.probe import LOOPBACK, Login, answers, is_free
from mustela_dev.broker.process import BrokerAlreadyRunningError, BrokerOptions, DevelopmentBroker
from mustela_dev.broker.record import BrokerRecord, make_private, read_record, write_record
from mustela_dev.broker.security import find_security

__all__ = [
    "DEFAULT_PORT",
    "BrokerStatus",
    "broker_status",
    "default_data_dir",
    "start_broker",
    "stop_broker",
]

DEFAULT_PORT = 9092
STOP_TIMEOUT_S = 30.0
ANSWER_POLL_S = 0.1
LOCK_FILE = "broker.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """The status of the broker of a data directory.

    Attributes:
        data_dir: Where it keeps everything.
        log_file: What it prints.
        running: Whether its process is running.
        answering: Whether it takes requests.
        pid: Its process id; None if it is not running.
        port: The port for clients, now or last; None if it never ran.
        bootstrap_servers: The same as ``bootstrap.servers``.
        cluster_id: Kafka's id of its cluster.
        client_env: The file of an application's settings, as variables, if the broker is secure.
        client_yaml: The same as a settings file.
    """

    data_dir: Path
    log_file: Path
    running: bool
    answering: bool
    pid: int | None = None
    port: int | None = None
    bootstrap_servers: str | None = None
    cluster_id: str | None = None
    client_env: Path | None = None
    client_yaml: Path | None = None


def default_data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Return the default data directory of this user's development broker."""
    variables = os.environ if environment is None else environment
    named = Path(variables.get("XDG_DATA_HOME", ""))
    # According to the XDG rules, a relative path is ignored.
    if not named.is_absolute():
        home = variables.get("HOME")
        named = (Path(home) if home else Path.home()) / ".local" / "share"
    return named / "mustela" / "broker"


def start_broker(
    data_dir: Path | None = None,
    *,
    port: int | None = None,
    heap_mb: int = 512,
    properties: Mapping[str, str] | None = None,
    options: BrokerOptions | None = None,
) -> BrokerStatus:
    """Start the broker of a data directory, and return when it answers.

    A running broker is reported; it is not restarted to change properties.

    Args:
        data_dir: By default `default_data_dir`.
        port: Default: the one this directory had before, otherwise 9092 if it is free, otherwise
            any.
        heap_mb: Its Java heap, in megabytes.
        properties: Broker properties that override those of `server_properties`.
        options: Further options. The broker is never tied to this program.

    Raises:
        BrokerAddressError: If clients cannot be told the address that it is to listen on.
        BrokerAlreadyRunningError: If it runs on another port than ``port`` or at another address
            than the options say, or without the security that is asked for.
        BrokerDidNotStartError: If it ended or did not answer in time.
        BrokerDirectoryError: If the data directory cannot be written.
        BrokerPortError: If ``port`` is taken.
        LockTimeoutError: If another program has been starting it for too long.
        EnvironmentFault: If Java or its jars are not available.
    """
    place = (data_dir or default_data_dir()).absolute()
    chosen = replace(options or BrokerOptions(), tied=False)
    make_private(place)
    waiting = f"another program is starting the broker of {place}: waiting for it"
    with locked(place / LOCK_FILE, lambda: chosen.jars.say(waiting)):
        found = read_record(place)
        if found is not None and found.mark is not None and found.mark.alive:
            _refuse_other(place, found, port, chosen)
            _wait_for_answer(place, found, chosen.start_timeout_s)
            return broker_status(place)
        if found is None and port is None and is_free(DEFAULT_PORT):
            port = DEFAULT_PORT
        broker = DevelopmentBroker(
            place, port=port, heap_mb=heap_mb, properties=properties, options=chosen
        )
        broker.start()
    return broker_status(place)


def stop_broker(data_dir: Path | None = None, *, patience_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the broker of a data directory, and return when it has ended.

    A process that merely reuses the broker's id is left alone.

    Args:
        data_dir: By default `default_data_dir`.
        patience_s: Seconds that it may take before it is killed.

    Returns:
        Whether there was one to stop.
    """
    place = (data_dir or default_data_dir()).absolute()
    found = read_record(place)
    if found is None or found.mark is None:
        return False
    was_alive = found.mark.alive
    if was_alive:
        Child(mark=found.mark).end(patience_s=patience_s)
    write_record(place, replace(found, mark=None))
    return was_alive


def broker_status(data_dir: Path | None = None) -> BrokerStatus:
    """Return the status of the broker of a data directory; default: `default_data_dir`."""
    place = (data_dir or default_data_dir()).absolute()
    log_file = place / "broker.log"
    found = read_record(place)
    if found is None:
        return BrokerStatus(data_dir=place, log_file=log_file, running=False, answering=False)
    running = found.mark is not None and found.mark.alive
    security = find_security(place) if found.secure else None
    return BrokerStatus(
        data_dir=place,
        log_file=log_file,
        running=running,
        answering=running and _answers(place, found),
        pid=found.mark.pid if running and found.mark is not None else None,
        port=found.port,
        bootstrap_servers=f"{found.address}:{found.port}",
        cluster_id=found.cluster_id,
        client_env=None if security is None else security.environment_file,
        client_yaml=None if security is None else security.settings_file,
    )


def _refuse_other(
    place: Path, found: BrokerRecord, port: int | None, options: BrokerOptions
) -> None:
    what = ""
    if port is not None and port != found.port:
        what = f"the broker of {place} is already running, on port {found.port}, not {port}"
    elif options.listen not in (LOOPBACK, found.address):
        here = f"{found.address}, not {options.listen}"
        what = f"the broker of {place} is already running, at {here}"
    elif options.secure and not found.secure:
        what = f"the broker of {place} is already running, without TLS and a login"
    if what:
        raise BrokerAlreadyRunningError(
            what, fix="stop it first (`mustela broker stop`), or choose another data directory"
        )


def _login(place: Path, found: BrokerRecord) -> Login | None:
    security = find_security(place) if found.secure else None
    return None if security is None else security.login


def _answers(place: Path, found: BrokerRecord) -> bool:
    return answers(found.port, found.cluster_id, _login(place, found), found.address)


def _wait_for_answer(place: Path, found: BrokerRecord, limit_s: float) -> None:
    for _ in range(max(1, int(limit_s / ANSWER_POLL_S))):
        gone = found.mark is None or not found.mark.alive
        if gone or _answers(place, found):
            return
        time.sleep(ANSWER_POLL_S)
