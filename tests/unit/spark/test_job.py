"""What a question about Spark's jobs costs."""

from __future__ import annotations

from typing import Any

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
