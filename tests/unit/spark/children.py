"""Tasks that stay without a JVM: the workers are children of the test."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mustela.plan.epoch import EpochOrder
from mustela.spark.channel import DONE, FRAME, ORDER, Channel, ChannelError, Key
from mustela.spark.frames import load_object
from mustela.spark.resident import Limits
from mustela.spark.staying import PartOrder, answer_to
from mustela.state.interfaces import Token

SHIPMENT: Any = None
JOB, TASK = [b"by a job"], [b"by", b"the task"]
Script = Callable[[Channel, Any], None]
LIMITS = Limits(look_s=3600.0, begins_s=60.0, leaves_s=60.0, pause_s=10.0)


def order(epoch: int) -> EpochOrder:
    return EpochOrder(token=Token(1, epoch, 0), ranges=(), marks={}, now_ms=0)


def answer(channel: Channel, given: EpochOrder) -> None:
    for frame in TASK:
        channel.send(FRAME, frame)
    finish(channel, given)


def finish(channel: Channel, given: EpochOrder | PartOrder) -> None:
    """End an answer."""
    channel.send(DONE, answer_to(given))
    channel.flush()


@dataclass
class Child:
    """The job of a task: a process that ends when its task does."""

    pid: int
    code: int | None = None

    def has_ended(self, wait_s: float) -> bool:
        if self.code is None:
            descriptor = os.pidfd_open(self.pid)
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            found = ended.poll(wait_s * 1000)
            os.close(descriptor)
            if not found:
                return False
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self.code:
            what = f"Python worker exited unexpectedly ({self.code})"
            raise OSError(what)
        return True

    def cancel(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@dataclass
class Spark:
    """Makes jobs that need no JVM."""

    script: Script = answer
    comes: bool = True
    others: int = 0
    gone: bool = False
    children: list[Child] = field(default_factory=list[Child])

    def stay(self, task: Callable[..., Iterator[bytes]]) -> Child:
        assert isinstance(task, partial)
        key: Key = task.args[1]
        pid = os.fork()
        if not pid:
            code = 1
            try:
                self._work(key)
                code = 0
            finally:
                os._exit(code)
        self.children.append(Child(pid))
        return self.children[-1]

    def _work(self, key: Key) -> None:
        if not self.comes:
            signal.pause()
        with key.enter() as channel, suppress(ChannelError):
            while (message := channel.receive())[0] == ORDER:
                self.script(channel, load_object(message[1]))

    def active(self) -> int:
        if self.gone:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.others + sum(child.code is None for child in self.children)

    def run_small_epoch(self, shipment: Any, order: EpochOrder) -> Iterator[bytes]:
        yield from JOB


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds
