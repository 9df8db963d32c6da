"""mustela status and top: what an application is at, from its admin server or from Kafka alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mustela.cli.asking import Application
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table, say
from mustela.cli.living import watch_of
from mustela.cli.repairing import open_repair, settings_of

if TYPE_CHECKING:
    from mustela.admin.client import AdminClient
    from mustela.config.settings import Settings
    from mustela.runtime.lease import Lease

__all__ = ["from_kafka", "from_server", "status", "top"]

_LAGGING_MAX = 20


def status(
    application: Application, /, *, bootstrap_servers: Bootstrap = None, json: Json = False
) -> int:
    """Show what an application is at: state, epoch, lag, watermark, faults; the exit code says it.

    0: an instance runs. 10: stopped as asked. 11: its last instance failed, or is gone without a
    word. 12: it never ran. Other codes are errors of this command.

    Its admin server is asked, if it runs on this host as this user with admin.enabled. Else Kafka
    alone tells: the last epoch, the offsets, and whether an instance says that it lives.

    Args:
        application: The application, or only its id.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    settings = settings_of(application, bootstrap_servers)
    document = _from_server(settings) or from_kafka(settings, listen=True)
    if json:
        print_json(document)
    else:
        print("\n".join(_told(document)))
        rows = [one for one in document["partitions"] if one["lag"]][:_LAGGING_MAX]
        if rows:
            head = ["topic", "partition", "next", "end", "lag"]
            print_table(head, ([one[name] for name in head] for one in rows))
    return _EXITS.get(document["state"], ExitCode.OK)


def top(
    application: Application,
    /,
    *,
    interval: Annotated[float, Parameter(name="--interval", help="Seconds between looks.")] = 2.0,
    once: Annotated[
        bool, Parameter(name="--once", negative=(), help="Look twice, print it, and end.")
    ] = False,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Watch an application: lanes, lag, epochs and their phases, steps; Ctrl-C ends it.

    It asks the admin server, or Kafka alone, as `mustela status` does; Kafka knows lag and epochs.

    Args:
        application: The application, or only its id.
        interval: Seconds between two looks, at least 0.2.
        once: Print one picture and end, as without a terminal.
        bootstrap_servers: The brokers.
        json: Print each look as JSON, a line each, until it is ended; with --once only one.
    """
    from mustela.cli.watching import follow, watch

    settings = settings_of(application, bootstrap_servers)
    with _looking(settings) as look:
        show = follow if json else watch
        show(look, interval=max(0.2, interval), once=once)
    return ExitCode.OK


@contextmanager
def _looking(settings: Settings) -> Generator[Callable[[], dict[str, Any]]]:
    """Give what looks at an application, again and again."""
    from mustela.admin.client import find_server
    from mustela.admin.errors import AdminSilentError

    server = find_server(settings)

    def look() -> dict[str, Any]:
        if server is not None:
            try:
                found = from_server(server)
            except AdminSilentError as error:
                return {**from_kafka(settings, listen=False), "why": error.what}
            if found is not None:
                return found
        return from_kafka(settings, listen=False)

    yield look


def _from_server(settings: Settings) -> dict[str, Any] | None:
    from mustela.admin.client import find_server
    from mustela.admin.errors import AdminSilentError

    server = find_server(settings)
    if server is None:
        return None
    try:
        return from_server(server)
    except AdminSilentError as error:
        say(f"{error.what}: {error.evidence['said']}; this is what Kafka knows")
        return None


def from_server(server: AdminClient) -> dict[str, Any] | None:
    """Return what an admin server tells; None if that is switched off there.

    Args:
        server: Asks it.

    Raises:
        AdminSilentError: If it does not answer.
    """
    live = server.get("/topology/live")
    if live is None:
        return None
    offsets: dict[str, Any] | None = server.get("/offsets")
    seen: list[dict[str, Any]] = live["partitions"] if offsets is None else offsets["partitions"]
    rows = [{"end": None, **one} for one in seen]
    return {
        "source": "admin server",
        "address": server.access.address,
        "pid": server.access.pid,
        **live,
        "partitions": sorted(rows, key=lambda one: -(one["lag"] or 0)),
    }


def from_kafka(settings: Settings, *, listen: bool) -> dict[str, Any]:
    """Return what Kafka alone tells of an application.

    Args:
        settings: Name it and the brokers.
        listen: Listen whether an instance lives, for as long as it may take one to say so.
    """
    with open_repair(settings) as repair:
        sight = repair.look()
    lease, lives, ended = _instance(settings, listen=listen)
    record = sight.record
    views = sorted(sight.views.values(), key=lambda view: -(view.lag or 0))
    now_ms = _now_ms()
    watermark = None if record is None or record.watermark < 0 else record.watermark
    return {
        "source": "kafka",
        "application_id": settings.application_id,
        "state": _state(lease, lives, ended, is_known=record is not None),
        "error": ended.error or None if lease is None and ended is not None else None,
        "host": None if lease is None else lease.host,
        "pid": None if lease is None else lease.pid,
        "now_ms": now_ms,
        "incarnation": None if record is None else record.incarnation,
        "epoch": None if record is None else record.epoch,
        "epoch_ms": None if record is None else record.time_ms,
        "lanes": None if record is None else record.lanes,
        "lag": sum(view.lag or 0 for view in views) if record is not None else None,
        "watermark_ms": watermark,
        "partitions": [
            {
                "topic": view.place.topic,
                "partition": view.place.partition,
                "next": view.recorded,
                "end": view.end,
                "lag": view.lag,
            }
            for view in views
        ],
    }


def _now_ms() -> int:
    from mustela.clock import SystemClock

    return SystemClock().now_ms()


def _instance(
    settings: Settings, *, listen: bool
) -> tuple[Lease | None, bool | None, Lease | None]:
    """Return what the last instance said, whether it lives, and what was said last of an end.

    Where nobody has listened, nothing says whether it lives.
    """
    with watch_of(settings) as watch:
        last, ended = watch.last(), watch.ended()
        if last is None:
            return None, False, ended
        if not listen:
            return last, None, ended
        say(f"{settings.application_id}: listens up to {last.ttl_ms / 1000:.3g} s for an instance")
        lease = watch.living()
        return lease or last, lease is not None, ended


def _state(lease: Lease | None, lives: bool | None, ended: Lease | None, *, is_known: bool) -> str:
    if lives and lease is not None:
        return lease.state or "running"
    if lease is not None and lives is None:
        return "seen"
    if lease is not None:
        return "gone"
    if ended is not None:
        return "failed" if ended.error else "stopped"
    return "stopped" if is_known else "unknown"


_EXITS = {
    "stopped": ExitCode.STOPPED,
    "failed": ExitCode.GONE,
    "gone": ExitCode.GONE,
    "unknown": ExitCode.NEVER_RAN,
}
_MEANINGS = {
    "seen": "an instance has not said that it ended",
    "gone": "its last instance did not say that it ended, and does not say that it lives",
    "stopped": "no instance is running",
    "failed": "its last instance failed",
    "unknown": "nothing is known of it: it has no epoch record",
}


def _told(document: dict[str, Any]) -> Iterator[str]:
    """Yield what a status says, line by line."""
    name, state = document["application_id"], document["state"]
    meaning = (
        _MEANINGS.get(state, f"is {state}") if document["source"] == "kafka" else f"is {state}"
    )
    where = ""
    if document.get("host") and state != "gone" and document["source"] == "kafka":
        where = f" on {document['host']} (process {document['pid']})"
    elif document["source"] == "admin server":
        where = f" (process {document['pid']}), {document['address']}"
    joint = " " if meaning.startswith("is ") else ": "
    code = f" with {document['error']}" if document.get("error") else ""
    yield f"{name}{joint}{meaning}{code}{where}"
    if document.get("why"):
        yield f"  not ready: {document['why']}"
    restore = document.get("restore")
    if state == "restoring" and restore:
        yield f"  restored {restore['key_groups_done']} of {restore['key_groups']} key groups"
    if document["epoch"] is not None:
        yield f"  epoch {document['epoch']} of run {document['incarnation']}{_when(document)}"
    if document["lag"] is not None:
        yield f"  lag {document['lag']}{_watermark(document)}"
    if document.get("stuck_phase"):
        yield f"  the epoch in flight is stuck in {document['stuck_phase']}"
    for fault in document.get("faults", ()):
        when = _clock(fault["time_ms"])
        yield f"  at {when} it tried again after {fault['code']}: {fault['what']}"


def _when(document: dict[str, Any]) -> str:
    if document.get("epoch_ms"):
        return f", committed at {_clock(document['epoch_ms'])}"
    ended = [one for one in document.get("recent", ()) if one["outcome"] == "committed"]
    if not ended:
        return ""
    times = sorted(sum(one["phases"].values()) for one in ended)
    middle, most = times[len(times) // 2], times[int((len(times) - 1) * 0.95)]
    return f", which take {middle:.3f} s (median), {most:.3f} s (95 %)"


def _watermark(document: dict[str, Any]) -> str:
    if document["watermark_ms"] is None:
        return ""
    behind_s = (document["now_ms"] - document["watermark_ms"]) / 1000
    return f", watermark {_clock(document['watermark_ms'])}, {behind_s:.1f} s behind the clock"


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
