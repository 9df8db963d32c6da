"""Who writes an application's transactions: the driver alone, or its lanes, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.faultpoints import armed, reach
from mustela.runtime.kafka_world import transaction_options
from mustela.runtime.ports import World

__all__ = ["lanes_may_write", "with_writers"]


def with_writers(world: World, settings: Settings, say: Callable[[str], None]) -> World:
    """Return the world with transactions that lanes write into, if that can be and nobody objects.

    Args:
        world: The world; nothing of its transactions is used yet.
        settings: The settings.
        say: Told of what is missing, if lanes were asked for.

    Raises:
        EnvironmentFault: If the brokers do not answer.
    """
    if settings.commit.writers == "driver" or not isinstance(world.transactions, TransactionalSink):
        return world
    missing = lanes_may_write(settings)
    if missing:
        if settings.commit.writers == "lanes":
            lacking = ", ".join(missing)
            say(f"the driver writes all rows, in spite of commit.writers: missing {lacking}")
        return world
    from mustela.connectors.kafka.writers.transactions import SharedTransactions

    transactions = SharedTransactions(
        client_properties(settings, "producer"),
        settings.application_id,
        options=transaction_options(settings),
        crash_point=reach if armed() else None,
    )
    return replace(world, transactions=transactions)


def lanes_may_write(settings: Settings) -> list[str]:
    """Return what is missing for lanes that write; with nothing missing they may.

    Raises:
        EnvironmentFault: If the brokers do not answer.
    """
    from mustela.connectors.kafka.writers.features import lacking_anywhere

    return lacking_anywhere(client_properties(settings, "producer"))
