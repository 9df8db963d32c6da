"""A regrouped table, so that its rows can be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mustela.api.functions import check_function, function_name
from mustela.api.given_types import read_serde
from mustela.api.handlers import OnError, read_on_error
from mustela.api.options import Grouped, options_or
from mustela.api.origin import user_origin
from mustela.api.serdes import choose, choose_serde
from mustela.dsl.handle import Handle
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.topology.table_group import TableGroupNode

if TYPE_CHECKING:
    from mustela.dsl.grouped_table import KGroupedTable

__all__ = ["TableGrouping"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class TableGrouping(Handle[K, V]):
    """What `KTable` needs to be aggregated: group_by."""

    def group_by(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        grouped: Grouped[K2, V2] | None = None,
        *,
        key: type[K2] | Serde[K2] | None = None,
        value: type[V2] | Serde[V2] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group the rows by something other than their key, to aggregate each group.

        When a row changes, its old value is removed from its old group before its new value is
        added to its new group. So the table must keep its rows: one without a store is given one.

        Args:
            mapper: Called with key and value of a row; returns a pair: the group, and the value to
                aggregate. It is also called for a row's old value, and must then return what it
                returned before. It is never called with a null value; a row for which it returns
                None, or None as the group or the value, belongs to no group.
            key: Type or serde of the groups; a serde that keeps Python's types if not given.
            value: Type or serde of the values to aggregate.
            name: Step name; made from the step's place if not given.
            grouped: Serdes and name as one object.
            on_error: What happens to a record that fails here; see `mustela.handlers`. The
                application's handlers if not given.

        Returns:
            The grouped rows, which can be counted, reduced or aggregated.

        Raises:
            DuplicateNameError: If another step already has this name.
            FunctionError: If the mapper cannot be called with a key and a value.

        Example:
            >>> from mustela import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> homes = builder.table("homes", key=str, value=str)
            >>> by_town = homes.group_by(lambda person, town: (town, person), key=str, value=str)
            >>> by_town.count(store="inhabitants").to_stream().to("inhabitants")
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     home = driver.create_input_topic("homes")
            ...     home.pipe_input("ann", "Rome")
            ...     home.pipe_input("ann", "Oslo")
            ...     driver.create_output_topic("inhabitants").read_key_values_to_list()
            [('Rome', 1), ('Rome', 0), ('Oslo', 1)]
        """
        at = user_origin()
        check_function(mapper, ("key", "value"), role="mapper", verb="group_by", at=at)
        options = options_or(grouped, Grouped[Any, Any](), at=at)
        said = choose("name", name, options.name, holder="Grouped", at=at)
        place = self._registry.place(
            "group_by", parents=(self._name,), at=at, name=said, apart=function_name(mapper)
        )
        place["on_error"] = read_on_error(on_error, verb="group_by", at=at)
        key_serde = choose_serde("key", key, options.key, holder="Grouped", at=at)
        value_serde = choose_serde("value", value, options.value, holder="Grouped", at=at)
        key_serde = key_serde or read_serde(mapper, "key", key=True)
        value_serde = value_serde or read_serde(mapper, "value")
        node = TableGroupNode(**place, mapper=mapper, key=key_serde or ValueSerde(sort_keys=True))
        self._registry.add(node)
        return self._registry.handles.grouped_table(node.name, key_serde, value_serde)
