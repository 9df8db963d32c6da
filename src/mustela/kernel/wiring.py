"""Which steps read which in a stage: computed once per plan, and used by every task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mustela.errors import InvariantError
from mustela.plan.plan import Exchange, Plan, Stage
from mustela.plan.together import sharing, with_between

__all__ = ["Junction", "WiredPlan", "Wiring"]


@dataclass(slots=True)
class Junction:
    """A place between two steps: an input of the stage, or a step's output."""

    name: str
    readers: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    exchanges: list[Exchange] = field(default_factory=list[Exchange])


class Wiring:
    """Which steps read which in a stage.

    A step may have the name of what it reads (a table and its source, an aggregation and the
    exchange that feeds it), so places are numbered: inputs first, then steps.

    Args:
        stage: The stage.

    Attributes:
        inputs: Number of each input, by name.
        first_step: Number of the first step's place.
        places: The places, by number.
        feeding: For each step the places that it reads, in the order of its inputs.
        ordered: For each step, whether any later step depends on the order of its rows.
        units: What is run as one unit, senders first: single steps, and steps that share a store.
    """

    def __init__(self, stage: Stage) -> None:
        names = [*(node.name for node in stage.sources), *stage.inputs]
        self.inputs = {name: number for number, name in enumerate(names)}
        self.first_step = len(names)
        self.places = [Junction(name) for name in names]
        self.places += [Junction(step.name) for step in stage.steps]
        by_name = dict(self.inputs)
        for index, step in enumerate(stage.steps):
            for number, name in enumerate(step.inputs):
                if name not in by_name:
                    msg = f"step {step.name!r} reads {name!r}, which stage {stage.index} lacks"
                    raise InvariantError(msg)
                self.places[by_name[name]].readers.append((index, number))
            by_name[step.name] = self.first_step + index
        for exchange in stage.exchanges:
            if exchange.step not in by_name:
                msg = f"exchange {exchange.name!r} sends {exchange.step!r}, which is not there"
                raise InvariantError(msg)
            self.places[by_name[exchange.step]].exchanges.append(exchange)
        self.feeding = [self._feeding(index) for index in range(len(stage.steps))]
        self.ordered = [self._wants_order(stage, place) for place in self.places[self.first_step :]]
        self.units = tuple(self._units(stage))

    def _feeding(self, step: int) -> list[int]:
        by_input = {
            place_in: number
            for number, place in enumerate(self.places)
            for reader, place_in in place.readers
            if reader == step
        }
        return [by_input[place_in] for place_in in sorted(by_input)]

    def _units(self, stage: Stage) -> Iterator[tuple[int, ...]]:
        senders: dict[int, list[int]] = {index: [] for index in range(len(stage.steps))}
        for number, place in enumerate(self.places[self.first_step :]):
            for reader, _ in place.readers:
                senders[reader].append(number)
        shared = sharing({index: step.node for index, step in enumerate(stage.steps)})
        groups = with_between(shared, senders)
        unit_of: dict[int, tuple[int, ...]] = {index: (index,) for index in senders}
        for group in groups:
            unit_of.update(dict.fromkeys(group, tuple(sorted(group))))
        done: set[tuple[int, ...]] = set()

        def visit(unit: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if unit in done:
                return
            done.add(unit)
            for index in unit:
                for sender in senders[index]:
                    yield from visit(unit_of[sender])
            yield unit

        for index in senders:
            yield from visit(unit_of[index])

    def ranks(self) -> dict[int, int]:
        """Return the order in which steps take the rows of one record: depth first."""
        ranks: dict[int, int] = {}

        def visit(place: Junction) -> None:
            for reader, _ in place.readers:
                if reader not in ranks:
                    ranks[reader] = len(ranks)
                    visit(self.places[self.first_step + reader])

        for place in self.places[: self.first_step]:
            visit(place)
        for reader in range(len(self.places) - self.first_step):
            ranks.setdefault(reader, len(ranks))
        return ranks

    def _wants_order(self, stage: Stage, place: Junction) -> bool:
        """Return whether any step after a place depends on the order of its rows."""
        if any(exchange.ordered for exchange in place.exchanges):
            return True
        for index, _ in place.readers:
            step = stage.steps[index]
            if step.turns or step.node.needs_order:
                return True
            if self._wants_order(stage, self.places[self.first_step + index]):
                return True
        return False


class WiredPlan:
    """A plan, and what is computed about it once for all tasks.

    Attributes:
        plan: The plan.
        exchanges: Every exchange by name.
        wirings: The wiring of each stage.
    """

    __slots__ = ("exchanges", "plan", "wirings")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.exchanges = plan.exchanges
        self.wirings = tuple(map(Wiring, plan.stages))
