"""From a flow to a plan: numbered stages with exchanges between them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mustela.api.handlers import wants_raws
from mustela.plan.plan import Exchange, Plan, Stage
from mustela.plan.step import Step
from mustela.planner.flow import Edge, Flow, FlowStep, StepId
from mustela.planner.placement import Placement
from mustela.planner.shared_stores import place_all
from mustela.planner.sinks import spread_sinks
from mustela.state.interfaces import StoreSpec
from mustela.topology.global_table import GlobalTableNode
from mustela.topology.source import SourceNode, TableSourceNode
from mustela.topology.table_join import TableJoinNode

__all__ = ["assemble", "store_set_identity"]


def assemble(flow: Flow) -> Plan:
    """Return the plan of a flow, with as few stages as the flow allows.

    Records of one step that travel to the same stage by the same key travel once, however many
    steps read them there, if the flow says so.
    """
    placed = place_all(flow)
    spread = spread_sinks(flow, {step: placement.stage for step, placement in placed.items()})
    marked = (replace(step, spread=step.node.name in spread) for step in flow)
    flow = replace(flow, steps=tuple(marked)) if spread else flow
    exchanges = _exchanges(flow, placed)
    count = 1 + max((placement.stage for placement in placed.values()), default=0)
    stages = [_stage(index, flow, placed, exchanges) for index in range(count)]
    return Plan(
        stages=tuple(stages),
        topics=_topics(flow),
        fingerprint=flow.topology.fingerprint,
        global_tables=tuple(node for node in flow.topology if isinstance(node, GlobalTableNode)),
    )


def store_set_identity(stores: Iterable[StoreSpec]) -> str:
    """Return the hash of a store set, which names its directory; empty if there is no store.

    A store that took over another store's changelog differs from one that only has its name.

    Example:
        >>> store_set_identity([])
        ''
        >>> len(store_set_identity([StoreSpec(name="counts")]))
        16
    """
    rows = sorted(
        (store.name, store.kind, store.format_version, *_former_name(store)) for store in stores
    )
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16] if rows else ""


def _former_name(store: StoreSpec) -> tuple[str, ...]:
    return () if store.renamed_from is None else (store.renamed_from,)


@dataclass(frozen=True, slots=True)
class _Travel:
    """An exchange with the step that sends it."""

    sender: StepId
    exchange: Exchange


_Travels = Mapping[tuple[StepId, Edge], _Travel]
"""By reading step and its input."""


def _exchanges(flow: Flow, placed: Mapping[StepId, Placement]) -> _Travels:
    """Return what travels, by the reading step and its input."""
    groups: list[tuple[StepId, int, list[tuple[StepId, Edge]]]] = []
    for step in flow:
        placement = placed[step.id]
        for edge in placement.inputs:
            if edge.shuffle is None:
                continue
            for sender, target, readers in groups:
                shared = readers[0][1].shuffle
                if (
                    flow.merges_travels
                    and (sender, target) == (edge.source, placement.stage)
                    and shared is not None
                    and shared.key == edge.shuffle.key
                ):
                    readers.append((step.id, edge))
                    break
            else:
                groups.append((edge.source, placement.stage, [(step.id, edge)]))
    wanting = _wanting_raws(flow)
    found: dict[tuple[StepId, Edge], _Travel] = {}
    taken: set[str] = set()
    for sender, target, readers in groups:
        shuffles = [edge.shuffle for _, edge in readers if edge.shuffle is not None]
        name = f"{sender[0]}=>{target}"
        if name in taken:
            name = f"{name}/{shuffles[0].key.name}"
        if name in taken:
            reader, edge = readers[0]
            name = f"{name}/{reader[0]}/{placed[reader].inputs.index(edge)}"
        assert name not in taken, name
        taken.add(name)
        exchange = Exchange(
            name=name,
            step=sender[0],
            key=shuffles[0].key,
            target=target,
            ordered=any(shuffle.ordered for shuffle in shuffles),
            keep_null_keys=any(shuffle.keep_null_keys for shuffle in shuffles),
            raw=any(reader in wanting for reader, _ in readers),
        )
        found.update(dict.fromkeys(readers, _Travel(sender, exchange)))
    return found


def _wanting_raws(flow: Flow) -> set[StepId]:
    """Return the steps to which records travel with their bytes as they were read.

    They are on the way to a window that makes letters of late records, or to a step whose own
    handler may want the bytes.
    """
    letters = any(step.role is None and step.node.writes_letters for step in flow)
    wanting = [
        step
        for step in flow
        if (letters and step.node.drops_late) or wants_raws((step.node.on_error,))
    ]
    return flow.up_to(wanting) if wanting else set()


def _stage(index: int, flow: Flow, placed: Mapping[StepId, Placement], travels: _Travels) -> Stage:
    here = [step for step in flow if placed[step.id].stage == index]
    steps = tuple(_step(step, placed, travels) for step in here if step.role is not None)
    sent = {
        travel.exchange.name: travel.exchange
        for travel in travels.values()
        if placed[travel.sender].stage == index
    }
    received = {
        travel.exchange.name: None for travel in travels.values() if travel.exchange.target == index
    }
    stores = _stores(here)
    return Stage(
        index=index,
        sources=tuple(
            step.node
            for step in here
            if step.role is None and isinstance(step.node, SourceNode | TableSourceNode)
        ),
        inputs=tuple(received),
        steps=steps,
        exchanges=tuple(sent.values()),
        stores=stores,
        identity=store_set_identity(stores),
    )


def _step(step: FlowStep, placed: Mapping[StepId, Placement], travels: _Travels) -> Step:
    placement = placed[step.id]
    if isinstance(step.node, TableJoinNode):
        first, second = (placed[edge.source].stage for edge in placement.inputs)
        later = None if first == second else int(second > first)
        step = replace(step, node=replace(step.node, later=later))
    inputs = [
        edge.source[0] if edge.shuffle is None else travels[step.id, edge].exchange.name
        for edge in placement.inputs
    ]
    return step.step(tuple(inputs))


def _stores(steps: Sequence[FlowStep]) -> tuple[StoreSpec, ...]:
    """Return the stores of a stage; a step before the shuffle and a source have none."""
    stores = {
        store.name: store
        for step in steps
        if step.role in {"whole", "merge"}
        for store in step.node.stores
    }
    return tuple(stores[name] for name in sorted(stores))


def _topics(flow: Flow) -> tuple[str, ...]:
    """Return the source topics by name, so that their order does not change with the program."""
    topics: set[str] = set()
    for step in flow:
        match step.node:
            case SourceNode(topics=several):
                topics.update(several)
            case TableSourceNode(topic=one):
                topics.add(one)
            case _:
                pass
    return tuple(sorted(topics))
