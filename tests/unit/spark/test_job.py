"""What a question about Spark's jobs costs, and what is seen of them."""

from __future__ import annotations

from typing import Any

import pytest

from mustela.runtime.engine import EpochJobError
from mustela.spark.job import Jobs


class Handle:
    """A handle of the JVM's, each use of which is a question to it."""

    def __init__(self, asked: list[str], name: str = "context") -> None:
        self._asked = asked
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return Handle(self._asked, name)

    def __call__(self) -> Any:
        self._asked.append(self._name)
        return 2 if self._name == "size" else self


def test_the_jobs_that_are_active_are_one_question_to_the_jvm() -> None:
    """The way to the scheduler's set is gone once: a task that stays asks five times a second."""
    asked: list[str] = []
    jobs = Jobs(Handle(asked))  # type: ignore[arg-type]
    assert jobs.active() == 2
    before = len(asked)
    assert [jobs.active() for _ in range(3)] == [2, 2, 2]
    assert asked[before:] == ["size"] * 3


class Stages(Handle):
    """Spark's stages, with the attempt that each is in."""

    def __init__(self, attempts: dict[int, int]) -> None:
        super().__init__([])
        self._attempts = attempts

    def __call__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return self if name.startswith("_") else getattr(super(), name, lambda: self)

    def getStageInfo(self, stage: int) -> Any:
        known = self._attempts.get(stage)
        info = type("Info", (), {"currentAttemptId": lambda _: known})()
        told = {"isDefined": lambda _: known is not None, "get": lambda _: info}
        return type("Option", (), told)()


def test_an_epoch_with_a_stage_that_ran_twice_runs_again_whole() -> None:
    """Its tasks cannot tell; one that Spark has forgotten, or a task without one, is no reason."""
    jobs = Jobs(Stages({3: 0, 4: 1}))  # type: ignore[arg-type]
    jobs.refuse_second_attempts([3, 3, 99, -1])
    with pytest.raises(EpochJobError, match="an executor was lost") as caught:
        jobs.refuse_second_attempts([3, 4, 4])
    assert caught.value.lost_executor
    assert caught.value.evidence["spark"] == "stage 4 ran twice"
