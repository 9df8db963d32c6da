"""From a topology to a plan: lower it, apply the rules in order, number the stages."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from mustela.api.errors import BadOptionError
from mustela.plan.plan import Plan
from mustela.planner.assemble import assemble
from mustela.planner.flow import Flow
from mustela.planner.lag import hand_down_lag
from mustela.planner.lower import lower
from mustela.planner.old_values import answer_old_values
from mustela.planner.options import PlanOptions
from mustela.planner.rules.close_in_window_store import close_in_window_store
from mustela.planner.rules.combine_before_shuffle import combine_before_shuffle
from mustela.planner.rules.each_change import each_change
from mustela.planner.rules.inline_expressions import inline_expressions
from mustela.planner.rules.keep_known_keys import keep_known_keys
from mustela.planner.rules.materialize_lookup import materialize_lookup
from mustela.planner.rules.merge_repartitions import merge_repartitions
from mustela.planner.rules.send_old_values import send_old_values
from mustela.planner.rules.single_store_self_join import single_store_self_join
from mustela.planner.shared_stores import keep_together
from mustela.planner.sinks import with_sink_turns
from mustela.topology.checks import check_asked_stores
from mustela.topology.graph import TopologyGraph

__all__ = ["RULES", "Rule", "plan"]

Rule = Callable[[Flow, PlanOptions], Flow]

RULES: Final = MappingProxyType[str, Rule](
    {
        "single_store_self_join": single_store_self_join,
        "keep_known_keys": keep_known_keys,
        "send_old_values": send_old_values,
        "each_change": each_change,
        "close_in_window_store": close_in_window_store,
        "combine_before_shuffle": combine_before_shuffle,
        "materialize_lookup": materialize_lookup,
        "merge_repartitions": merge_repartitions,
        "inline_expressions": inline_expressions,
    }
)
"""The rules by name, in the order in which they are applied."""


def plan(topology: TopologyGraph, *, options: PlanOptions | None = None) -> Plan:
    """Return the plan that engines run.

    The same topology and options give the same plan, on any machine.

    Args:
        topology: What the user wrote.
        options: Settings that change a plan.

    Raises:
        BadOptionError: If a rule to switch off does not exist.
        StoreAccessError: If a processor asks for a store that its step does not declare.

    Example:
        >>> from mustela import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> counts = builder.stream("clicks", key=str).group_by_key().count(store="counts")
        >>> [stage.index for stage in plan(builder.build()).stages]
        [0, 1]
    """
    options = options or PlanOptions()
    _check_names(options.rules_off)
    check_asked_stores(topology)
    flow = keep_together(answer_old_values(lower(topology)))
    for name, rule in RULES.items():
        if name not in options.rules_off:
            flow = rule(flow, options)
    return assemble(with_sink_turns(hand_down_lag(flow)))


def _check_names(names: frozenset[str]) -> None:
    for name in sorted(names - RULES.keys()):
        close = difflib.get_close_matches(name, RULES, n=1)
        msg = f"there is no planner rule {name!r}"
        raise BadOptionError(
            msg,
            evidence={"rules": ", ".join(RULES)},
            fix=f"did you mean {close[0]!r}?" if close else "name one of the rules",
            fields={"rule": name},
        )
