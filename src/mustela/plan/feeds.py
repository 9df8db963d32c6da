"""Which topics feed a store."""

from __future__ import annotations

from mustela.plan.plan import Plan
from mustela.topology.sink import SinkNode

__all__ = ["topics_behind", "topics_sent_on"]


def topics_behind(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return, for each store, the names of the source topics whose records reach it, sorted.

    A store holds the content of its topics up to the offsets that were read; if it is not updated
    while they are read on, it becomes stale.

    Example:
        >>> topics_behind(Plan(stages=(), topics=(), fingerprint=""))
        {}
    """
    known: dict[tuple[int, str], frozenset[str]] = {}
    for stage in plan.stages:
        for source in stage.sources:
            known[stage.index, source.name] = frozenset(source.topics)
    found: dict[str, frozenset[str]] = {spec: frozenset() for spec in plan.stores}
    for stage in plan.stages:  # steps read from earlier ones, stages too
        for name in stage.inputs:
            senders = [
                known.get((sender.index, exchange.step), frozenset[str]())
                for sender in plan.stages[: stage.index]
                for exchange in sender.exchanges
                if exchange.name == name and exchange.target == stage.index
            ]
            known[stage.index, name] = frozenset[str]().union(*senders)
        for step in stage.steps:
            read = [known.get((stage.index, name), frozenset[str]()) for name in step.inputs]
            topics = frozenset[str]().union(*read)
            known[stage.index, step.name] = known.get(
                (stage.index, step.name), frozenset[str]()
            ).union(topics)
            for spec in step.node.stores:
                if spec.name in found:
                    found[spec.name] |= topics
    return {name: tuple(sorted(topics)) for name, topics in found.items()}


def topics_sent_on(plan: Plan) -> frozenset[int]:
    """Return the indices of the source topics whose records reach a sink in the first stage.

    Under ``at_least_once`` a task sends such rows itself: if several tasks read one partition, an
    older row of a key could follow a newer one. Sinks that the driver sorts are left out.
    """
    if not plan.stages:
        return frozenset()
    first = plan.stages[0]
    known = {source.name: frozenset(source.topics) for source in first.sources}
    sent: frozenset[str] = frozenset()
    for step in first.steps:
        topics = frozenset[str]().union(*(known.get(name, ()) for name in step.inputs))
        known[step.name] = known.get(step.name, frozenset[str]()) | topics
        if isinstance(step.node, SinkNode) and not step.spread:
            sent |= topics
    return frozenset(index for index, topic in enumerate(plan.topics) if topic in sent)
