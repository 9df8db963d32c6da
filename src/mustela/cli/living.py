"""Commands that change an application do not run beside it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from mustela.cli.console import say

if TYPE_CHECKING:
    from mustela.admin.client import AdminClient
    from mustela.cli.asking import Manner
    from mustela.config.settings import Settings
    from mustela.runtime.lease import Lease, LeaseWatch

__all__ = ["alone", "refuse_while_alive", "server_here", "watch_of"]


def server_here(
    settings: Settings, *, running: bool = True, replicas: bool = True
) -> AdminClient | None:
    """Return the admin server of the application on this host, else that of one of its replicas.

    Args:
        settings: The application's.
        running: Whether the application itself is looked for.
        replicas: Whether its replicas are.
    """
    from mustela.admin.client import find_server
    from mustela.runtime.replica.places import places_of

    found = find_server(settings) if running else None
    if found is not None or not replicas:
        return found
    for place in places_of(settings.state_dir, settings.application_id):
        found = find_server(settings.model_copy(update={"state_dir": place}))
        if found is not None:
            return found
    return None


@contextmanager
def watch_of(settings: Settings) -> Generator[LeaseWatch]:
    """Give what listens for an instance of the application, and close its connections after."""
    from mustela.clock import SystemClock
    from mustela.runtime.kafka_lease import KafkaLeaseLog
    from mustela.runtime.lease import LeaseWatch

    log = KafkaLeaseLog(settings)
    try:
        yield LeaseWatch(log, SystemClock())
    finally:
        log.close()


def refuse_while_alive(settings: Settings) -> None:
    """Listen whether an instance of the application lives; a few seconds, if one may.

    Raises:
        InstanceAliveError: If one does.
    """
    name = settings.application_id
    with watch_of(settings) as watch:
        last = watch.last()
        if last is None:
            return
        say(f"{name}: listens up to {last.ttl_ms / 1000:.3g} s for the instance {last.told}")
        lease = watch.living()
    if lease is not None:
        _refuse(name, lease)


@contextmanager
def alone(settings: Settings, manner: Manner) -> Generator[Callable[[], None]]:
    """Give what refuses to go on if an instance has started since; call it after its fencing.

    An instance writes its lease before it looks at anything else. So one that has written none by
    then has seen nothing of what is deleted next, and its claim would not find what it looked at.

    Args:
        settings: Name the application.
        manner: How the change is made; with ``--force`` nothing is refused.

    Raises:
        InstanceAliveError: By what it gives, if one has.
    """
    with watch_of(settings) as watch:
        watch.mark()

        def refuse_newcomer() -> None:
            lease = None if manner.force else watch.newcomer()
            if lease is not None:
                _refuse(settings.application_id, lease)

        yield refuse_newcomer


def _refuse(name: str, lease: Lease) -> NoReturn:
    from mustela.runtime.lease import InstanceAliveError

    msg = f"{name} is running {lease.told}"
    raise InstanceAliveError(
        msg,
        why="the offsets and state of a running instance must not be changed",
        fix="stop it first; --force ends it with exit code 4",
        fields={"host": lease.host, "pid": lease.pid},
    )
