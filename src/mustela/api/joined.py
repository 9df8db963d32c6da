"""How joins are named, and the types of their two sides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from mustela.api.option import Option
from mustela.api.upgrades import Upgrades
from mustela.serdes.base import Serde

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    W = TypeVar("W")

__all__ = ["Joined", "TableJoined"]


@dataclass(frozen=True, kw_only=True)
class Joined(Option, Generic[K, V, W]):
    """How a stream is joined with a table.

    Attributes:
        key: Type or serde of the keys of both sides; the stream's if not given.
        value: Type or serde of the stream's values, for records that wait.
        other_value: Type or serde of the table's values, for a copy of the table.
        name: Name of the join.
        grace: How long a record waits for table rows that are older than the record but arrive
            later. Only for versioned tables: others do not keep their past.
        version: The version of the records that wait, as in `Materialized`.
        upgrade: How older versions of them are read, likewise. Keep it: ``mustela state upgrade``
            does not rewrite records that wait in a join.

    Example:
        >>> from mustela import Joined, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", key=str, value=int)
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> costs = orders.join(prices, lambda n, price: n * price, joined=Joined(name="costs"))
        >>> costs.name
        'costs'
    """

    key: type[K] | Serde[K] | None = None
    value: type[V] | Serde[V] | None = None
    other_value: type[W] | Serde[W] | None = None
    name: str | None = None
    grace: timedelta | None = None
    version: int = 1
    upgrade: Upgrades[V] | None = None


@dataclass(frozen=True, kw_only=True)
class TableJoined(Option):
    """How a join by foreign key is named.

    Attributes:
        name: Name of the join; its stores are ``<name>-subscription-store`` and, where the right
            table has no store that holds its rows as they are, ``<name>-right-store``.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> orders = builder.table("orders", key=int, value=dict)
        >>> users = builder.table("users", key=str, value=str)
        >>> named = orders.join(
        ...     users,
        ...     lambda order, user: [order["item"], user],
        ...     foreign_key=lambda order: order["user"],
        ...     table_joined=TableJoined(name="orders-of-users"),
        ... )
    """

    name: str | None = None
