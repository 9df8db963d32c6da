"""Commands that change an application do not run beside it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mustela.cli.console import say

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.runtime.lease import LeaseWatch

__all__ = ["refuse_while_alive", "watch_of"]


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
    from mustela.runtime.lease import InstanceAliveError

    name = settings.application_id
    with watch_of(settings) as watch:
        last = watch.last()
        if last is None:
            return
        say(f"{name}: listens up to {last.ttl_ms / 1000:.3g} s for the instance {last.told}")
        lease = watch.living()
    if lease is not None:
        msg = f"{name} is running {lease.told}"
        raise InstanceAliveError(
            msg,
            why="the offsets and state of a running instance must not be changed",
            fix="stop it first; --force ends it with exit code 4",
            fields={"host": lease.host, "pid": lease.pid},
        )
