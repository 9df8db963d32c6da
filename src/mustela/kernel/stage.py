"""Runs one stage: batches pass through the steps in order, and are collected at the exits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mustela.kernel.core.any_key import AnyKeyReader
from mustela.kernel.core.divided import joined
from mustela.kernel.core.event_time import by_event_time
from mustela.kernel.core.isolate import for_branch
from mustela.kernel.core.lane_state import LaneState
from mustela.kernel.core.left_out import give_up
from mustela.kernel.core.operator import EXCHANGED, Operator, OperatorContext
from mustela.kernel.core.options import KernelOptions
from mustela.kernel.core.output import StageOutput
from mustela.kernel.core.tracing import StageTraces
from mustela.kernel.operators import make_operator
from mustela.kernel.processors.processor_group import ProcessorGroup
from mustela.kernel.records.exchange import ExchangeOperator
from mustela.kernel.records.sink_order import in_record_order
from mustela.kernel.records.source import decode_source, source_key_serde
from mustela.kernel.wiring import Junction, Wiring
from mustela.plan.batch import Batch, SourceChunk
from mustela.plan.measured import Measured
from mustela.plan.plan import Stage
from mustela.plan.ranges import LeftOut, RawChunk
from mustela.plan.step import Step
from mustela.plan.time import NEVER, Due, EpochTime
from mustela.plan.traces import Traced
from mustela.processes import collection_paused
from mustela.serdes.base import Serde

__all__ = ["StageRunner"]


class StageRunner:
    """Runs the steps of one stage in one task.

    The source stage is fed chunk by chunk; a lane stage once per epoch, each input merged in
    order. Its output is collected until the engine drains it with `take_output`.

    Args:
        stage: What to run.
        topics: The plan's topics, to name records in errors.
        options: The engine's settings.
        state: The lane's state; None for the source stage.
        time: Event time and wall-clock time of the epoch.
        global_tables: The copies of global tables that steps may look up, by store.
        any_key: Reads any key of any store as of the end of the previous epoch.
        wiring: The stage's wiring, if it is known already.

    Example:
        >>> from mustela.plan.batch import Batch, Origins
        >>> from mustela.serdes.primitives import StrSerde
        >>> from mustela.topology.sink import SinkNode
        >>> from mustela.topology.source import SourceNode
        >>> lines = SourceNode(name="lines", topics=("lines",), key=StrSerde(), value=StrSerde())
        >>> sink = SinkNode(name="out", parents=("lines",), topic="copy",
        ...                 key=StrSerde(), value=StrSerde())
        >>> stage = Stage(index=0, sources=(lines,),
        ...               steps=(Step(name="out", inputs=("lines",), node=sink),))
        >>> runner = StageRunner(stage, topics=("lines",), options=KernelOptions())
        >>> runner.run({"lines": Batch(["k"], ["v"], Origins([1000]))})
        >>> runner.take_output().rows[0].values
        [b'v']
    """

    def __init__(  # noqa: PLR0913 - what a task has, some of it only in some stages
        self,
        stage: Stage,
        *,
        topics: Sequence[str],
        options: KernelOptions,
        state: LaneState | None = None,
        time: EpochTime | None = None,
        global_tables: Mapping[str, Any] | None = None,
        any_key: AnyKeyReader | None = None,
        wiring: Wiring | None = None,
    ) -> None:
        self.stage = stage
        self.time = time or EpochTime()
        self._global_tables = global_tables or {}
        self._any_key = any_key
        self.topics = tuple(topics)
        self.options = options
        self._output = StageOutput()
        self._wiring = wiring or Wiring(stage)
        self._sources = {node.name: node for node in stage.sources}
        self._operators: list[Operator[Any]] = []
        self._exits: list[list[ExchangeOperator]] = []
        serdes: list[Serde[Any] | None] = [source_key_serde(node) for node in stage.sources]
        serdes += [EXCHANGED] * len(stage.inputs)
        for place in self._wiring.places[: self._wiring.first_step]:
            node: Any = self._sources.get(place.name)
            self._exits.append(self._exchanges(place, node, serdes[len(self._exits)], state))
        for index, step in enumerate(stage.steps):
            operator = self._operator(index, step, serdes, state)
            self._operators.append(operator)
            serdes.append(operator.key_serde_out())
            place = self._wiring.places[self._wiring.first_step + index]
            self._exits.append(self._exchanges(place, step.node, serdes[-1], state))
        self._inboxes: list[list[Batch | None]] = [[None] * len(s.inputs) for s in stage.steps]
        self._taken, self._given = [0] * len(stage.steps), [0] * len(stage.steps)
        self._spent = [0.0] * len(stage.steps)
        self._written: dict[str, int] = {}
        self._traces = StageTraces(options.application_id) if options.traces else None
        units = self._wiring.units
        self._groups = {unit[0]: self._group(unit) for unit in units if len(unit) > 1}

    def _operator(
        self,
        index: int,
        step: Step,
        serdes: Sequence[Serde[Any] | None],
        state: LaneState | None,
    ) -> Operator[Any]:
        wiring = self._wiring
        feeding = [serdes[number] for number in wiring.feeding[index]]
        same = feeding and all(serde == feeding[0] for serde in feeding)
        context = OperatorContext(
            options=self.options,
            output=self._current_output,
            state=state,
            time=self.time,
            global_tables=self._global_tables,
            any_key=self._any_key,
            topics=self.topics,
            key_serde=feeding[0] if same else None,
            key_serdes=tuple(feeding),
            ordered=wiring.ordered[index],
        )
        return make_operator(step, context)

    def _group(self, unit: Sequence[int]) -> ProcessorGroup:
        """Return the steps of a group as one unit."""
        wiring, members = self._wiring, set(unit)
        places = {number: wiring.places[wiring.first_step + number] for number in unit}
        inside = {
            number: [reader for reader in place.readers if reader[0] in members]
            for number, place in places.items()
        }
        leaves = frozenset(
            number
            for number, place in places.items()
            if place.exchanges or len(inside[number]) < len(place.readers)
        )
        operators = {number: self._operators[number] for number in unit}
        return ProcessorGroup(operators, inside, leaves, wiring.ranks())

    def _exchanges(
        self, place: Junction, node: Any, serde: Serde[Any] | None, state: LaneState | None
    ) -> list[ExchangeOperator]:
        context = OperatorContext(
            options=self.options, output=self._current_output, state=state, key_serde=serde
        )
        return [ExchangeOperator(exchange, node, context) for exchange in place.exchanges]

    def _current_output(self) -> StageOutput:
        return self._output

    def decode(
        self,
        source: str,
        chunk: SourceChunk,
        keys: list[bytes | None],
        values: list[bytes | None],
    ) -> Batch:
        """Decode the records of a chunk for the source of that name; see `decode_source`."""
        return decode_source(
            self._sources[source],
            chunk,
            keys,
            values,
            options=self.options,
            output=self._current_output,
            now_ms=self.time.now_ms,
        )

    def give_up(self, gone: RawChunk, spans: Sequence[LeftOut]) -> None:
        """Count records that were left out, and write their dead letters; see `left_out`."""
        give_up(gone, spans, self._output)

    def run(self, inputs: Mapping[str, Batch]) -> None:
        """Send rows through the steps.

        Args:
            inputs: A batch for each source or exchange that has rows, by its name.

        Raises:
            DataError: If a record is bad and its handler is ``fail``.
        """
        with collection_paused():
            for name, batch in inputs.items():
                if len(batch):
                    if self._traces is not None and name in self._sources:
                        self._traces.begin(batch)
                    self._output.counters[f"records:{name}"] += len(batch)
                    self._deliver(self._wiring.inputs[name], batch)
            self._pass(finishing=False)

    def finish(self) -> None:
        """Forward what operators held back: the task has no more input."""
        with collection_paused():
            self._pass(finishing=True)

    def due_times(self, groups: Iterable[int]) -> dict[int, Due]:
        """Return when each key group needs to run without records, and how much it has parked.

        Due times by stream time are left out: only records advance it.
        """
        waiting = by_event_time(self.options, watermark=self._operators, stream_time=[])
        event = [operator.due_event_times() for operator in waiting]
        wall = [operator.due_processing_times() for operator in self._operators]
        parked = [operator.parked() for operator in self._operators]
        return {
            group: Due(
                min((times.get(group, NEVER) for times in event), default=NEVER),
                min((times.get(group, NEVER) for times in wall), default=NEVER),
                max((parts.get(group, 0) for parts in parked), default=0),
            )
            for group in groups
        }

    def take_output(self) -> StageOutput:
        """Return what was collected, and start collecting again."""
        output, self._output = self._output, StageOutput()
        for rows in output.rows:
            self._written[rows.step] = self._written.get(rows.step, 0) + len(rows)
        output.rows = in_record_order(output.rows)
        return output

    @property
    def spans(self) -> list[Traced]:
        """Spans for records that carry a trace context."""
        return [] if self._traces is None else self._traces.spans

    def measure(self, measured: Measured) -> None:
        """Tell how many records each step took in and passed on, and how many it has parked."""
        for group in self._groups.values():
            for index in group.operators:
                self._taken[index] += group.taken[index]
                self._given[index] += group.given[index]
        counts = zip(self.stage.steps, self._taken, self._given, self._spent, strict=True)
        for step, taken, given, spent in counts:
            if taken:
                measured.taken[step.name] = taken
            if given:
                measured.given[step.name] = given
            if spent:
                measured.seconds[step.name] = spent
        measured.given.update(self._written)
        for operator in self._operators:
            for group, count in operator.parked_records().items():
                measured.parked[operator.step.name, group] = count

    def _pass(self, *, finishing: bool) -> None:
        on_step, timer = self.options.on_step, self.options.timer
        before = 0.0 if timer is None else timer()
        for unit in self._wiring.units:
            first = next(iter(unit))
            if on_step is not None:
                on_step(first)
            if len(unit) > 1:
                self._pass_group(unit, finishing=finishing)
            else:
                self._pass_one(first, finishing=finishing)
            if timer is not None:
                now = timer()
                self._spent[first] += now - before
                before = now

    def _pass_one(self, index: int, *, finishing: bool) -> None:
        operator, number = self._operators[index], self._wiring.first_step + index
        if self._waits(index) or operator.unprompted:
            batches = [Batch.empty() if b is None else b for b in self._take(index)]
            if self._traces is not None:
                self._traces.meet(operator.step, batches)
            self._emit(number, operator, operator.process(batches))
        if finishing:
            self._emit(number, operator, operator.finish())

    def _pass_group(self, unit: Sequence[int], *, finishing: bool) -> None:
        group, members = self._groups[unit[0]], frozenset(unit)
        waiting = {index: self._take(index) for index in unit if self._waits(index)}
        if waiting:
            group.run(waiting)
        if finishing:
            group.finish()
        for index, batch in group.take().items():
            self._deliver(self._wiring.first_step + index, batch, but=members)

    def _waits(self, index: int) -> bool:
        return any(batch is not None for batch in self._inboxes[index])

    def _take(self, index: int) -> list[Batch | None]:
        inbox = self._inboxes[index]
        self._inboxes[index] = [None] * len(inbox)
        return inbox

    def _emit(self, number: int, operator: Operator[Any], given: Batch | None) -> None:
        batch = operator.with_replaced(given)
        if self._traces is not None:
            batch = self._traces.part(operator.step, batch)
        if batch is not None and len(batch):
            self._deliver(number, batch)

    def _deliver(self, number: int, batch: Batch, *, but: frozenset[int] = frozenset()) -> None:
        """Give a batch to all readers of a place.

        Only the last reader may change values in place, because no other reader needs them any
        more; each other reader that might change them gets its own copy. The steps in ``but`` have
        the batch already.
        """
        place_of = self._wiring.places[number]
        step = number - self._wiring.first_step
        if step >= 0:
            if not but:  # a group counts what its steps pass on
                self._given[step] += len(batch)
            if self.options.on_rows is not None:
                self.options.on_rows(place_of.name, batch)
        readers = [reader for reader in place_of.readers if reader[0] not in but]
        exits = self._exits[number]
        last = len(readers) - 1
        for nth, (index, place) in enumerate(readers):
            own = (nth == last and not exits) or self._operators[index].reads_only
            self._give(index, place, batch if own else for_branch(batch))
        for nth, exchange in enumerate(exits):
            exchange.process(batch if nth == len(exits) - 1 else for_branch(batch))

    def _give(self, index: int, place: int, batch: Batch) -> None:
        """Put a batch into an inbox, after one that waits there already."""
        self._taken[index] += len(batch)
        waiting = self._inboxes[index][place]
        if waiting is not None:
            batch = joined(waiting, batch)
        self._inboxes[index][place] = batch
