"""The user's health indicators: called by probes, in separate threads, and never waited for.

An indicator may hang, like the database that it queries. It runs in one thread at most; a probe
that arrives meanwhile, or soon after, gets the last answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mustela.clock import Clock
from mustela.config.masking import mask_text
from mustela.errors import UsageError
from mustela.runtime.hook_kinds import refuse_kind

__all__ = ["Answer", "DuplicateIndicatorError", "Indicators"]

ANSWER_S: Final = 2.0
"""How long a probe waits for an indicator."""
FRESH_S: Final = 1.0
"""An answer up to this age is reused."""
_WHY_MAX: Final = 200


class DuplicateIndicatorError(UsageError):
    """Two health indicators have the same name, or one has none."""

    code = "APP_INDICATOR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of an indicator.

    Attributes:
        is_up: Whether all is well.
        why: What is wrong.
        asked: How often it was called.
        failed: How often it was not well.
    """

    is_up: bool
    why: str = ""
    asked: int = 0
    failed: int = 0


class _Indicator:
    def __init__(self, check: Callable[[], Any], clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._lock = threading.Lock()
        self._done: threading.Event | None = None
        self._at: float | None = None
        self.last = Answer(is_up=True)

    def ask(self) -> Answer:
        with self._lock:
            now = self._clock.monotonic()
            if self._done is None and self._at is not None and now - self._at < FRESH_S:
                return self.last
            if self._done is None:
                self._done = threading.Event()
                threading.Thread(target=self._run, args=(self._done,), daemon=True).start()
            done = self._done
        if not done.wait(ANSWER_S):
            with self._lock:
                if self._done is done:
                    self._count(Answer(is_up=False, why=f"no answer within {ANSWER_S:g} s"))
        return self.last

    def _run(self, done: threading.Event) -> None:
        answer = _answer_of(self._check)
        with self._lock:
            self._count(answer)
            self._at = self._clock.monotonic()
            self._done = None
        done.set()

    def _count(self, answer: Answer) -> None:
        before = self.last
        self.last = replace(
            answer, asked=before.asked + 1, failed=before.failed + (not answer.is_up)
        )


class Indicators:
    """The health indicators of one application.

    Args:
        clock: Monotonic time.

    Example:
        >>> from mustela.clock import ManualClock
        >>> indicators = Indicators(ManualClock())
        >>> indicators.add("db", lambda: "the pool is empty")
        >>> indicators.ask()["db"].why
        'the pool is empty'
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[str, _Indicator] = {}

    def add(self, name: str, check: Callable[[], Any]) -> None:
        """Add one.

        Args:
            name: Its name.
            check: Returns None or True if all is well, False or a text if not, or raises.

        Raises:
            DuplicateIndicatorError: If there is one of this name, or it is empty.
            HookKindError: If it cannot be called.
        """
        refuse_kind(check, "health", arguments=0)
        if not name or name in self._all:
            what = f"there is already a health indicator {name!r}" if name else "it has no name"
            raise DuplicateIndicatorError(
                what, fix='give each indicator a name of its own: @app.health("db")'
            )
        self._all[name] = _Indicator(check, self._clock)

    def ask(self) -> dict[str, Answer]:
        """Call all of them, in parallel, and return their answers by name."""
        threads = [threading.Thread(target=one.ask, daemon=True) for one in self._all.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(ANSWER_S + FRESH_S)
        return dict(self.last())

    def last(self) -> Mapping[str, Answer]:
        """Return their last answers, without calling them."""
        return {name: one.last for name, one in self._all.items()}


def _answer_of(check: Callable[[], Any]) -> Answer:
    try:
        found = check()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        return Answer(is_up=False, why=_short(f"{type(error).__name__}: {error}"))
    if found is None or found is True:
        return Answer(is_up=True)
    if isinstance(found, str):
        return Answer(is_up=False, why=_short(found))
    return Answer(is_up=bool(found), why="" if found else "it says so")


def _short(text: str) -> str:
    return mask_text(text)[:_WHY_MAX]
