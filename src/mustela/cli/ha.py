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
    from collections.abc import Callable

    from mustela.clock import Clock
    from mustela.config.settings import Settings
    from mustela.runtime.kafka_lease import KafkaLeaseLog
    from mustela.runtime.lease import Lease, SwitchRefused, TakeOver

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
    to: str = "",
    force: bool = False,
    timeout: Timeout = 60.0,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Let the running instance hand over to a standby at the end of its epoch.

    It goes on until a standby says that it has all that was committed when it was asked; then it
    finishes its epoch, commits, and becomes the standby. Nothing is done if no standby is ready, or
    none has caught up after 10 seconds.

    Args:
        application: The application, or only its id.
        to: Hand over to a standby on this host; to one of several there: HOST/PROCESS.
        force: Hand over at once, also to a standby that has not caught up: the pause is longer.
        timeout: How long to wait until the other instance runs.
        bootstrap_servers: The brokers.
        json: Print the instance that runs as JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    from mustela.runtime.lease import TakeOver

    def request(heard: _Listener) -> TakeOver:
        return TakeOver(take_over=heard.asker(), to=to, force=force)

    return _told(settings, _take_over(settings, timeout, request), json=json)


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
    from mustela.runtime.lease import TakeOver

    def request(heard: _Listener) -> TakeOver:
        return TakeOver(take_over=heard.asker(), by=heard.standbys.ready()[0].standby)

    return _told(settings, _take_over(settings, timeout, request), json=json)


def _told(settings: Settings, running: Lease, *, json: bool) -> int:
    from msgspec import to_builtins

    if json:
        print_json({"running": to_builtins(running)})
    else:
        print(f"{settings.application_id}: the instance {running.told} runs now")
    return ExitCode.OK


def _take_over(
    settings: Settings, timeout: float, request: Callable[[_Listener], TakeOver]
) -> Lease:
    from mustela.runtime.switching import no_standby, standby_behind, told_standbys

    name = settings.application_id
    with _Listener(settings) as heard:
        heard.listen(_LISTEN_S, until=heard.standbys.ready)
        before = heard.incarnation
        if not heard.standbys.ready():
            raise no_standby(name, told_standbys(heard.standbys.alive()))
        asked = request(heard)
        heard.log.write(asked)
        heard.listen(
            timeout, until=lambda: heard.incarnation > before or heard.refused(asked) is not None
        )
        running, refused = heard.running, heard.refused(asked)
        if refused is not None and refused.behind:
            raise standby_behind(name, refused)
        if refused is not None:
            raise no_standby(name, refused.waiting)
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
        self._refused: dict[str, SwitchRefused] = {}

    def __enter__(self) -> _Listener:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.log.close()

    def asker(self) -> str:
        """Return a name for a request."""
        return f"{socket.gethostname()}/{os.getpid()}/{self.clock.now_ms()}"

    def refused(self, request: TakeOver) -> SwitchRefused | None:
        """Return the answer that nobody hands over, if there was one."""
        return self._refused.get(request.take_over)

    def listen(self, seconds: float, until: Any = bool) -> None:
        """Listen for some seconds, or until something is so."""
        deadline = self.clock.monotonic() + seconds
        while True:
            self._look()
            if until() or self.clock.monotonic() >= deadline:
                return
            self.clock.sleep(_PAUSE_S)

    def _look(self) -> None:
        from mustela.runtime.lease import Lease, StandbyReport, SwitchRefused

        is_new = self._position is not None
        self._position, rows = self.log.read_rows(self._position, _LOOKED_AT)
        now = self.clock.monotonic()
        for row in rows:
            if isinstance(row, Lease):
                self._take(row, now)
            elif isinstance(row, StandbyReport) and is_new:
                self.standbys.note(row)
            elif isinstance(row, SwitchRefused):
                self._refused[row.refused] = row

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
