"""mustela ha: which instance of an application runs, which wait, and planned takeovers."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from mustela.cli.asking import Application
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table
from mustela.cli.repairing import settings_of
from mustela.errors import EnvironmentFault

if TYPE_CHECKING:
    from mustela.clock import Clock
    from mustela.config.settings import Settings
    from mustela.runtime.kafka_lease import KafkaLeaseLog
    from mustela.runtime.lease import Lease

__all__ = ["SwitchTimeoutError", "group"]

_LOOKED_AT = 64
_PAUSE_S = 0.05
_LISTEN_S = 3.5
Timeout = Annotated[
    float, Parameter(name="--timeout", help="Seconds to wait until the other instance runs.")
]


class SwitchTimeoutError(EnvironmentFault):
    """The other instance does not run in time."""

    code = "SWITCH_TIMEOUT"


def group() -> App:
    """Return the commands of this group."""
    app = App(name="ha", help="The running instance and its standbys: status, switch, promote.")
    app.command(status)
    app.command(switch)
    app.command(promote)
    return app


def status(
    application: Application, /, *, bootstrap_servers: Bootstrap = None, json: Json = False
) -> int:
    """Show which instance runs, and which wait: listens for a few seconds.

    Args:
        application: The application, or only its id.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    with _Listener(settings) as heard:
        heard.listen(_LISTEN_S)
        document = heard.document()
    if json:
        print_json(document)
        return ExitCode.OK
    running = document["running"]
    told = f"{running['host']} (process {running['pid']})" if running else "no instance"
    print(f"{settings.application_id}: {told} runs")
    rows = [
        [one["host"], one["pid"], one["ready"], one["epoch"], one["memory_bytes"] >> 20]
        for one in document["standbys"]
    ]
    if rows:
        print_table(["standby", "process", "ready", "epoch", "memory (MB)"], rows)
    return ExitCode.OK


def switch(
    application: Application,
    /,
    *,
    timeout: Timeout = 60.0,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Let the running instance hand over to a standby at the end of its epoch.

    It finishes its epoch, commits, and becomes the standby. Nothing is done if no standby is ready.

    Args:
        application: The application, or only its id.
        timeout: How long to wait until the other instance runs.
        bootstrap_servers: The brokers.
        json: Print the instance that runs as JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    return _told(settings, _take_over(settings, timeout, forced=False), json=json)


def promote(
    application: Application,
    /,
    *,
    timeout: Timeout = 60.0,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Let a standby take over without asking the running instance, which is fenced.

    For an instance that is alive and does not answer; `mustela ha switch` is gentler.

    Args:
        application: The application, or only its id.
        timeout: How long to wait until the standby runs.
        bootstrap_servers: The brokers.
        json: Print the instance that runs as JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    return _told(settings, _take_over(settings, timeout, forced=True), json=json)


def _told(settings: Settings, running: Lease, *, json: bool) -> int:
    from msgspec import to_builtins

    if json:
        print_json({"running": to_builtins(running)})
    else:
        print(f"{settings.application_id}: the instance {running.told} runs now")
    return ExitCode.OK


def _take_over(settings: Settings, timeout: float, *, forced: bool) -> Lease:
    from mustela.runtime.lease import TakeOver
    from mustela.runtime.switching import no_standby

    name = settings.application_id
    with _Listener(settings) as heard:
        heard.listen(_LISTEN_S, until=heard.standbys.ready)
        ready, before = heard.standbys.ready(), heard.incarnation
        if not ready:
            raise no_standby(name, heard.standbys.alive())
        asker = f"{socket.gethostname()}/{os.getpid()}/{heard.clock.now_ms()}"
        heard.log.write(TakeOver(take_over=asker, by=ready[0].standby if forced else ""))
        heard.listen(timeout, until=lambda: heard.incarnation > before)
        running = heard.running
        if heard.incarnation <= before or running is None:
            msg = f"no other instance of {name} runs after {timeout:g} seconds"
            raise SwitchTimeoutError(
                msg,
                fix=f"look at the logs of both instances, and at: mustela ha status {name}",
            )
        return running


class _Listener:
    """Hears what instances say in the lease topic.

    Args:
        settings: Name the application and the brokers.
    """

    def __init__(self, settings: Settings) -> None:
        from mustela.clock import SystemClock
        from mustela.runtime.kafka_lease import KafkaLeaseLog
        from mustela.runtime.switching import ReportedStandbys

        self.clock: Clock = SystemClock()
        self.log: KafkaLeaseLog = KafkaLeaseLog(settings)
        self.running: Lease | None = None
        self.incarnation = 0
        self.standbys = ReportedStandbys(self.clock)
        self._heard_at = 0.0
        self._position: int | None = None

    def __enter__(self) -> _Listener:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.log.close()

    def listen(self, seconds: float, until: Any = bool) -> None:
        """Listen for some seconds, or until something is so."""
        deadline = self.clock.monotonic() + seconds
        while True:
            self._look()
            if until() or self.clock.monotonic() >= deadline:
                return
            self.clock.sleep(_PAUSE_S)

    def _look(self) -> None:
        from mustela.runtime.lease import Lease, StandbyReport

        is_new = self._position is not None
        self._position, rows = self.log.read_rows(self._position, _LOOKED_AT)
        now = self.clock.monotonic()
        for row in rows:
            if isinstance(row, Lease):
                self._take(row, now)
            elif isinstance(row, StandbyReport) and is_new:
                self.standbys.note(row)

    def _take(self, lease: Lease, now: float) -> None:
        self.incarnation = max(self.incarnation, lease.incarnation)
        if not lease.ended:
            self.running, self._heard_at = lease, now
        elif self.running is not None and self.running.instance == lease.instance:
            self.running = None

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        from msgspec import to_builtins

        lease = self.running
        is_alive = lease is not None and (
            self.clock.monotonic() - self._heard_at <= lease.ttl_ms / 1000
        )
        return {
            "running": to_builtins(lease) if is_alive else None,
            "standbys": [to_builtins(row) for row in self.standbys.alive()],
        }
