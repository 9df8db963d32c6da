"""An application that is only what the admin server sees of it, and a client without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from mustela import StreamsBuilder
from mustela.admin.access import Tokens
from mustela.admin.application import application
from mustela.admin.endpoints import endpoints, probe_endpoints
from mustela.admin.guard import Policy
from mustela.admin.metrics import AppCollector, metrics_answer
from mustela.clock import ManualClock
from mustela.config.settings import Settings
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.plan.epoch import TaskReport
from mustela.plan.ranges import RangeReport
from mustela.planner.options import PlanOptions
from mustela.planner.planner import plan
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.events import AppState, EpochDone, Restoring
from mustela.runtime.status.board import StatusBoard
from mustela.runtime.status.indicators import Indicators
from mustela.runtime.status.snapshot import WorkerView
from mustela.runtime.status.watched import Watched
from mustela.state.interfaces import StoreSize
from tests.told import state_changed

TOKENS = Tokens(read="r" * 32, query="q" * 32, operate="o" * 32)
LINES_0, LINES_1 = TopicPartition("lines", 0), TopicPartition("lines", 1)
SECRET = "hunter2-hunter2-hunter2"
COMMITTING = (Phase.IN_HAND, Phase.BEGUN, Phase.PRODUCED, Phase.OFFSETS_ADDED, Phase.COMMIT_SENT)


def counting(builder: StreamsBuilder) -> None:
    lines = builder.stream("lines", key=str, value=str).group_by_key()
    lines.count(store="counts").to_stream().to("copies", key=str, value=int)


class FakeApp:
    """Counts lines by their key, as far as anybody can see.

    Args:
        directory: For state.
        build: Builds another topology.
        **settings: Settings by name, with ``__`` for the dot.
    """

    def __init__(
        self,
        directory: Path,
        build: Callable[[StreamsBuilder], object] | None = None,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.board = StatusBoard(self.clock)
        given = {name.replace("__", "."): value for name, value in settings.items()}
        self.settings = Settings.load(
            {"application_id": "orders", "state_dir": directory, "key_groups": 4, **given},
            environ={},
            directory=directory,
        )
        builder = StreamsBuilder()
        (build or counting)(builder)
        self.graph = builder.build()
        self.plan = plan(self.graph, options=PlanOptions(emit="barrier", event_time="watermark"))
        self.committed = CommittedState(plan=self.plan, key_groups=4, lanes=2)
        self.barrier = Barrier(incarnation=3, last_epoch=0, on_phase=self.board.phase)
        self.indicators = Indicators(self.clock)
        self.asked: list[str] = []
        self.said: list[str] = []
        self.workers: Callable[[bool], Sequence[WorkerView]] = lambda _stacks: ()
        self.ends: dict[TopicPartition, int] = {}

    @property
    def watched(self) -> Watched:
        return Watched(
            settings=self.settings,
            board=self.board,
            topology=lambda: self.graph,
            plan=lambda: self.plan,
            workers=lambda stacks: self.workers(stacks),
            pause=lambda: self.asked.append("pause"),
            resume=lambda: self.asked.append("resume"),
            stop=lambda: self.asked.append("stop"),
            switch=lambda to, force: self.asked.append(f"switch {to} {force}"),
            promote=lambda: self.asked.append("promote"),
            say=self.said.append,
            indicators=self.indicators,
        )

    def measured(self) -> TaskReport:
        """What a lane may say of an epoch: all that a task can measure."""
        report = TaskReport(
            stage=1, task=0, counters={"records:x": 6}, seconds={"lane": 0.5, "wait": 9.0}, pid=7
        )
        report.ranges.append(RangeReport(0, 0, 0, 6, 6, 999_000, 60, first_ms=998_500))
        report.measured.taken["counts"] = 6
        report.measured.given["counts"] = 4
        report.measured.stores["counts", 2] = StoreSize(3, 8192)
        report.measured.parked["ask", 2] = 5
        report.measured.standby_lag = 40
        report.measured.clients["consumer mustela#consumer-1"] = {
            "bytes_received": 100.0,
            "queue_messages": 1.0,
            "queue_bytes": 2.0,
            "round_trip_avg_s": 0.003,
        }
        return report

    def comes_to(self, state: AppState) -> None:
        self.board.on_event(state_changed(state))

    def restores(self, done: int, groups: int, **records: int) -> None:
        self.comes_to(AppState.RESTORING)
        self.board.on_event(Restoring(done=done, groups=groups, records=records))

    def runs(self, **ends: int) -> None:
        """Run, with two partitions of lines of which some records are read."""
        self.comes_to(AppState.RUNNING)
        state = self.committed
        for place, offset in ((LINES_0, 7), (LINES_1, 2)):
            state.sources.put(place, LogPosition(offset, 0))
        self.ends = {LINES_0: ends.get("first", 7), LINES_1: ends.get("second", 2)}
        state.watermark.observe(LINES_0, 990_000, 1_000_000)
        state.watermark.observe(LINES_1, 980_000, 1_000_000)
        state.watermark.value = 980_000
        self.tells()

    def tells(self, *, held: Sequence[TopicPartition] = (), is_well: bool = True) -> None:
        self.board.end_turn(
            self.committed, self.ends, topics={"lines": 0}, held=held, is_well=is_well
        )

    def begins(self, *phases: Phase) -> None:
        """Choose an epoch for 10 ms, run its job for 200 ms, and be 5 ms in each phase behind."""
        self.board.begin_turn(self.barrier)
        self.clock.advance(10)
        self.barrier.start()
        self.clock.advance(200)
        for phase in phases:
            self.barrier.move(phase)
            self.clock.advance(5)

    def commits(
        self,
        counters: Mapping[str, int] | None = None,
        records: int = 4,
        reports: Sequence[TaskReport] = (),
    ) -> None:
        self.begins(*COMMITTING)
        self.barrier.committed()
        self.committed = replace(self.committed, epoch=self.barrier.last_epoch, incarnation=3)
        self.board.on_event(
            EpochDone(
                epoch=self.barrier.last_epoch,
                records=records,
                lag=0,
                seconds=0.235,
                job_seconds=0.2,
                watermark=980_000,
                counters=counters or {},
                reports=reports,
            )
        )
        self.tells()

    def policy(self, **changes: Any) -> Policy:
        plain = Policy(
            tokens=TOKENS,
            hosts=frozenset({"localhost", "127.0.0.1"}),
            say=self.said.append,
            now=self.clock.monotonic,
            timeout_s=60.0,  # a machine may stand still; who tests the limit sets it
        )
        return replace(plain, **changes)

    def client(self, **policy: Any) -> Client:
        known = endpoints(metrics_answer(AppCollector(self.watched)))
        return Client(application(self.watched, known, self.policy(**policy)))

    def probe(self) -> Client:
        return Client(application(self.watched, probe_endpoints(), self.policy()))


class Client:
    """Asks an ASGI application.

    Args:
        app: The application.
    """

    def __init__(self, app: Any) -> None:
        self.app = app

    def ask(
        self, method: str, path: str, *, token: str = "", headers: Any = None, **more: Any
    ) -> httpx.Response:
        sent = dict(headers or {})
        if token:
            sent["authorization"] = f"Bearer {token}"

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.request(method, path, headers=sent, **more)

        return asyncio.run(go())

    def get(self, path: str, token: str = "", **more: Any) -> httpx.Response:
        return self.ask("GET", path, token=token, **more)

    def post(self, path: str, token: str = "", **more: Any) -> httpx.Response:
        return self.ask("POST", path, token=token, **more)

    def json(self, path: str, token: str = "") -> Any:
        answer = self.get(path, token)
        assert answer.status_code == 200, answer.text
        return answer.json()
