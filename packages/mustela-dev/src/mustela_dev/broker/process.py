"""A real Apache Kafka broker as one process, on the loopback interface unless told otherwise."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from mustela.clock import SystemClock
from mustela.errors import EnvironmentFault, UsageError
from mustela.java import Java, find_java
from mustela_dev.broker.child import Child, ProcessMark, launch
from mustela_dev.broker.ivy import pyspark_jars
from mustela_dev.broker.jars import JarRequest, resolve_jars
from mustela_dev.broker.probe import LOOPBACK, answers, free_port, is_free
from mustela_dev.broker.record import (
    BrokerRecord,
    make_private,
    read_record,
    write_private,
    write_record,
)
from mustela_dev.broker.scratch import is_served, new_scratch
from mustela_dev.broker.security import BrokerSecurity, find_security, make_security
from mustela_dev.broker.settings import (
    LOG4J_TEXT,
    LOGS_DIRECTORY,
    jvm_options,
    properties_text,
    server_properties,
)

__all__ = [
    "BrokerAddressError",
    "BrokerAlreadyRunningError",
    "BrokerDidNotStartError",
    "BrokerNotRunningError",
    "BrokerOptions",
    "BrokerPortError",
    "DevelopmentBroker",
    "class_path",
]

POLL_S = 0.05
PORT_ATTEMPTS_MAX = 3
LOG_BYTES_MAX = 16 << 20
TAIL_BYTES = 64 << 10
TAIL_LINES = 25
FORMAT_TIMEOUT_S = 120
_LOGGING_JARS = (
    "slf4j-api-2*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
)
_PORT_TAKEN = "Address already in use"
_STACK_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_CLUSTER_LINE = re.compile(r"^cluster\.id=(\S+)$", re.MULTILINE)


class BrokerDidNotStartError(EnvironmentFault):
    """The broker ended, or did not answer, after its start."""

    code = "BROKER_DID_NOT_START"
    retryable = True


class BrokerAlreadyRunningError(UsageError):
    """Another process serves the data directory."""

    code = "BROKER_ALREADY_RUNNING"


class BrokerNotRunningError(UsageError):
    """The broker was not started, or was stopped."""

    code = "BROKER_NOT_RUNNING"


class BrokerAddressError(UsageError):
    """The broker cannot be reached at the address that it was told to listen on."""

    code = "BROKER_ADDRESS"


class BrokerPortError(EnvironmentFault):
    """Another program listens on the requested port."""

    code = "BROKER_PORT_TAKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Options of a development broker.

    Attributes:
        fast_start: Compile quickly rather than well: good for tests, bad for measurements.
        tied: Whether the broker is killed when the thread that started it ends, and so when its
            program ends in any way. Otherwise it outlives the program.
        secure: Whether clients need TLS and a login: those of `DevelopmentBroker.client_settings`.
        listen: The address that clients reach it at. Any but the loopback interface's needs TLS
            and a login, whatever ``secure`` says.
        features: Levels of the cluster's features other than the newest: ``transaction.version``,
            for instance. They hold for a new data directory.
        jars: Where its jars and its Java come from, and where messages go.
        start_timeout_s: Seconds that it may take to answer.
        stop_timeout_s: Seconds that it may take to stop before it is killed.
    """

    fast_start: bool = False
    tied: bool = True
    secure: bool = False
    listen: str = LOOPBACK
    features: Mapping[str, int] = field(default_factory=dict[str, int])
    jars: JarRequest = field(default_factory=JarRequest)
    start_timeout_s: float = 120.0
    stop_timeout_s: float = 30.0

    @property
    def demands_login(self) -> bool:
        """Whether clients need TLS and a login."""
        return self.secure or self.listen != LOOPBACK


class DevelopmentBroker:
    """One Kafka process, both broker and controller, that listens on 127.0.0.1 by default.

    Its data and its port survive stop, kill and start with the same data directory. Use it from one
    thread at a time.

    Args:
        data_dir: Its data directory; default: a new one that `close` deletes.
        port: The port for clients; default: the one this directory had before, otherwise a free
            one.
        heap_mb: Its Java heap, in megabytes.
        properties: Broker properties that override those of `server_properties`.
        options: Further options.

    Example:
        ::

            from confluent_kafka.admin import AdminClient
            from mustela_dev import DevelopmentBroker

            with DevelopmentBroker() as broker:
                admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
                found = admin.list_topics(timeout=30)
            assert found.cluster_id is not None
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        port: int | None = None,
        heap_mb: int = 256,
        properties: Mapping[str, str] | None = None,
        options: BrokerOptions | None = None,
    ) -> None:
        self._temporary = data_dir is None
        self._data_dir = None if data_dir is None else Path(os.path.abspath(data_dir))
        self._wanted_port = port
        self._heap_mb = heap_mb
        self._properties = dict(properties or {})
        self._options = options or BrokerOptions()
        self._child: Child | None = None
        self._record: BrokerRecord | None = None
        self._log_start = 0

    def __enter__(self) -> DevelopmentBroker:
        """Start it, unless it is running."""
        if not self.running:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it, and delete its data if the directory was created for it."""
        self.close()

    @property
    def data_dir(self) -> Path:
        """Its data directory."""
        if self._data_dir is None:
            self._data_dir = new_scratch()
        return self._data_dir

    @property
    def log_file(self) -> Path:
        """Its log: warnings and errors of all its starts."""
        return self.data_dir / "broker.log"

    @property
    def running(self) -> bool:
        """Whether its process is running."""
        return self._child is not None and self._child.alive

    @property
    def port(self) -> int:
        """The port for clients.

        Raises:
            BrokerNotRunningError: If it was never started.
        """
        return self._known_record().port

    @property
    def bootstrap_servers(self) -> str:
        """The value for clients' ``bootstrap.servers``.

        Raises:
            BrokerNotRunningError: If it was never started.
        """
        return f"{self._known_record().address}:{self.port}"

    @property
    def client_settings(self) -> dict[str, str]:
        """The settings with which an application reaches it, the login of a secure one included.

        Raises:
            BrokerNotRunningError: If it was never started.
        """
        security = find_security(self.data_dir) if self._known_record().secure else None
        properties = {} if security is None else security.client_properties()
        named = {f"kafka.{name}": text for name, text in properties.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **named}

    @property
    def cluster_id(self) -> str:
        """Kafka's id of its cluster, the same for the life of the data directory.

        Raises:
            BrokerNotRunningError: If it was never started.
        """
        return self._known_record().cluster_id

    @property
    def mark(self) -> ProcessMark:
        """The mark that identifies its process.

        Raises:
            BrokerNotRunningError: If it is not running.
        """
        if self._child is None or not self._child.alive:
            what = "the development broker is not running"
            raise BrokerNotRunningError(what, fix="call start() first")
        return self._child.mark

    @property
    def pid(self) -> int:
        """Its process id.

        Raises:
            BrokerNotRunningError: If it is not running.
        """
        return self.mark.pid

    def start(self) -> None:
        """Start it, and return when it answers.

        Raises:
            BrokerAddressError: If clients cannot be told the address that it is to listen on.
            BrokerAlreadyRunningError: If a process serves the data directory already.
            BrokerDidNotStartError: If it ended or did not answer in time; it does not keep running
                then.
            BrokerDirectoryError: If its data directory cannot be written.
            BrokerPortError: If the requested port is taken.
            JavaNotFoundError: If no suitable Java is found.
            EnvironmentFault: If its jars are not available; see `resolve_jars`.
        """
        _check_address(self._options.listen)
        self._refuse_second()
        java = self._options.jars.java or find_java(self._options.jars.environment)
        path = class_path(replace(self._options.jars, java=java))
        self._prepare_directory()
        for attempt in range(PORT_ATTEMPTS_MAX):
            record = self._choose_ports(java, path)
            try:
                self._start_once(java, path, record)
                return
            except BrokerDidNotStartError:
                last = attempt == PORT_ATTEMPTS_MAX - 1
                if last or self._wanted_port is not None or _PORT_TAKEN not in self.log_tail():
                    raise

    def stop(self) -> bool:
        """Ask it to stop, kill it if it does not, and return when it has ended.

        Stopping a broker that is not running does nothing.

        Returns:
            Whether it stopped by itself, so that its files are consistent.
        """
        if self._child is None:
            return True
        by_itself = self._child.end(patience_s=self._options.stop_timeout_s)
        self._forget()
        return by_itself

    def kill(self) -> None:
        """Kill it, as ``kill -9`` does, and return when it has ended."""
        if self._child is not None:
            self._child.kill()
            self._forget()

    def restart(self) -> None:
        """Stop it, if it is running, and start it again with the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it, and delete its data if the directory was created for it."""
        if self._temporary:
            self.kill()
            if self._data_dir is not None:
                shutil.rmtree(self._data_dir, ignore_errors=True)
                self._data_dir = None
        else:
            self.stop()

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines that it printed since its last start, without stack frames."""
        return _tail(self.log_file, self._log_start, lines)

    def _known_record(self) -> BrokerRecord:
        if self._record is None:
            what = "the development broker was never started"
            raise BrokerNotRunningError(what, fix="call start() first")
        return self._record

    def _refuse_second(self) -> None:
        if self._temporary and self._data_dir is None:
            return
        found = read_record(self.data_dir)
        if found is not None and found.mark is not None and found.mark.alive:
            what = f"a broker already serves {self.data_dir}: process {found.mark.pid}"
            raise BrokerAlreadyRunningError(
                what,
                evidence={"port": found.port},
                fix="stop that one, or choose another data directory",
                fields={"pid": found.mark.pid, "port": found.port},
            )
        if is_served(self.data_dir):
            what = f"a broker already serves {self.data_dir}, and its record there is lost"
            raise BrokerAlreadyRunningError(
                what,
                fix="find out which process holds it: "
                f"fuser '{self.data_dir / LOGS_DIRECTORY}/.lock'",
            )

    def _prepare_directory(self) -> None:
        make_private(self.data_dir)
        scratch = self.data_dir / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        if self.log_file.exists() and self.log_file.stat().st_size > LOG_BYTES_MAX:
            self.log_file.replace(self.log_file.with_name("broker.log.1"))
        self.log_file.touch(mode=0o600)
        write_private(self.data_dir / "log4j2.properties", LOG4J_TEXT)

    def _choose_ports(self, java: Java, path: str) -> BrokerRecord:
        before = self._record or read_record(self.data_dir)
        port = self._wanted_port or (before.port if before else 0)
        address = self._options.listen
        if port and not is_free(port, address):
            if self._wanted_port is not None:
                what = f"port {port} of {address} is taken"
                raise BrokerPortError(what, fix="choose another port, or none to get a free one")
            port = 0
        port = port or free_port(address=address)
        controller_port = free_port(besides=port)
        security = self._security(port)
        secured = security.server_properties(port, controller_port, address) if security else {}
        changes = server_properties(port, controller_port, {**secured, **self._properties})
        write_private(self.data_dir / "server.properties", properties_text(changes))
        cluster_id = _cluster_id(self.data_dir) or _new_cluster_id()
        if not _is_formatted(self.data_dir):
            self._format(java, path, cluster_id)
        return BrokerRecord(
            cluster_id=cluster_id,
            port=port,
            controller_port=controller_port,
            secure=security is not None,
            address=address,
        )

    def _security(self, port: int) -> BrokerSecurity | None:
        if not self._options.demands_login:
            return None
        address = self._options.listen
        security = make_security(self.data_dir, now_ms=SystemClock().now_ms(), address=address)
        security.write_client_files(port, address)
        return security

    def _format(self, java: Java, path: str, cluster_id: str) -> None:
        options = jvm_options(heap_mb=self._heap_mb, fast_start=True)
        tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted"]
        for name, level in self._options.features.items():
            tool += ["--feature", f"{name}={level}"]
        command = [str(java.executable), *options, "-cp", path, *tool]
        answer = subprocess.run(
            [*command, "--cluster-id", cluster_id, "--config", "server.properties"],
            cwd=self.data_dir,
            env=java.environment(self._options.jars.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if answer.returncode != 0:
            what = f"cannot format the broker's data directory {self.data_dir}"
            said = (answer.stdout + answer.stderr).strip().splitlines()[-TAIL_LINES:]
            raise BrokerDidNotStartError(
                what,
                evidence={"kafka": "\n".join(said)},
                fix="choose an empty data directory, and check the properties you gave",
            )

    def _start_once(self, java: Java, path: str, record: BrokerRecord) -> None:
        self._log_start = self.log_file.stat().st_size
        options = jvm_options(heap_mb=self._heap_mb, fast_start=self._options.fast_start)
        child = launch(
            [str(java.executable), *options, "-cp", path, "kafka.Kafka", "server.properties"],
            log=self.log_file,
            directory=self.data_dir,
            environment=java.environment(self._options.jars.environment),
            tied=self._options.tied,
        )
        self._child = child
        self._record = replace(record, mark=child.mark)
        write_record(self.data_dir, self._record)
        try:
            self._wait_until_it_answers(child, self._record)
        except BaseException:
            # Also on Ctrl-C: a broker that nothing waits for must not keep running.
            child.kill()
            self._forget()
            raise

    def _wait_until_it_answers(self, child: Child, record: BrokerRecord) -> None:
        limit_s = self._options.start_timeout_s
        security = find_security(self.data_dir) if record.secure else None
        login = None if security is None else security.login
        for _ in range(max(1, int(limit_s / POLL_S))):
            if not child.alive:
                self._raise_did_not_start("it ended")
            if answers(record.port, record.cluster_id, login, record.address):
                return
            time.sleep(POLL_S)
        self._raise_did_not_start(f"it did not answer on port {record.port} for {limit_s:g} s")

    def _raise_did_not_start(self, how: str) -> None:
        what = f"the development broker did not start: {how}"
        raise BrokerDidNotStartError(
            what,
            evidence={"log": self.log_file, "says": self.log_tail() or "nothing"},
            fix="see the log; `mustela doctor` checks Java, jars, disk and ports",
        )

    def _forget(self) -> None:
        self._child = None
        if self._record is not None:
            self._record = replace(self._record, mark=None)
            if self.data_dir.is_dir():
                write_record(self.data_dir, self._record)


def _check_address(address: str) -> None:
    """See whether clients elsewhere can be told an address.

    Raises:
        BrokerAddressError: If it is a name or no single address, or not one of this host's.
    """
    try:
        told = ipaddress.ip_address(address)
        with socket.socket(socket.AF_INET6 if told.version == 6 else socket.AF_INET) as probe:
            probe.bind((address, 0))
    except (ValueError, OSError) as problem:
        what = f"the development broker cannot listen on {address!r}: {problem}"
    else:
        if told.version == 4 and not told.is_unspecified:
            return
        what = f"the development broker cannot listen on {address!r}"
    raise BrokerAddressError(
        what,
        why="clients connect to the address that the broker tells them, and its certificate names",
        fix="name one IPv4 address of this host; `ip -4 address` lists them",
        fields={"address": address},
    )


def class_path(request: JarRequest | None = None, *, sets: tuple[str, ...] = ("kafka",)) -> str:
    """Return the class path of Kafka's programs, with checked jars.

    Kafka's jars contain no logging backend; PySpark's do, so they come first.
    """
    logging = [jar for pattern in _LOGGING_JARS for jar in pyspark_jars(pattern)]
    own = [jar for name in sets for jar in resolve_jars(name, request)]
    return os.pathsep.join(str(jar) for jar in [*logging, *own])


def _new_cluster_id() -> str:
    """Return an id as Kafka makes them: 16 random bytes, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def _is_formatted(data_dir: Path) -> bool:
    logs = data_dir / LOGS_DIRECTORY
    return (logs / "meta.properties").is_file() and (logs / "bootstrap.checkpoint").is_file()


def _cluster_id(data_dir: Path) -> str:
    try:
        text = (data_dir / LOGS_DIRECTORY / "meta.properties").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = _CLUSTER_LINE.search(text)
    return found.group(1) if found else ""


def _tail(file: Path, start: int, lines: int) -> str:
    try:
        with file.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(start, end - TAIL_BYTES))
            text = stream.read(TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
    # A cause is one line above dozens of frames, and the frames do not help a user.
    told = [line for line in text.splitlines() if not _STACK_FRAME.match(line)]
    return "\n".join(told[-lines:])
