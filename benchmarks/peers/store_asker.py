"""Asks the store "orders" of a running application from inside of its process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.answers import Row, high_of, told, told_sums
from benchmarks.peers.app_protocol import emit
from mustela import App

_ROWS_MAX = 10_000_000
_STORE = "orders"


def _shown(rows: Iterable[tuple[str, Any]]) -> Iterable[Row]:
    return ((key, order.city, order.total) for key, order in rows)


class StoreAsker:
    """Answers what the benchmark asks, by the store's methods and by SQL.

    Args:
        app: The application.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def ask(self, number: int, way: str, question: str, keys: list[str]) -> None:
        """Answer a question, once for each key, and say what it took."""
        what: Callable[[str], Any] = getattr(self, f"_{way}_{question}")
        seconds: list[float] = []
        answers: list[Any] = []
        cpu = time.process_time()
        for key in keys:
            began = time.perf_counter()
            answers.append(what(key))
            seconds.append(time.perf_counter() - began)
        cpu = time.process_time() - cpu
        tell = getattr(self, f"_told_{way}")
        found = [tell(question, answer) for answer in answers]
        emit(f"asked-{number}", seconds=seconds, cpu_s=cpu, told=found)

    def _process_get(self, key: str) -> Any:
        return [(key, self._app.store(_STORE).get(key))]

    def _process_range(self, low: str) -> Any:
        return list(self._app.store(_STORE).range(low, high_of(low)))

    def _process_sums(self, _key: str) -> Any:
        sums: dict[str, list[int]] = {}
        for order in self._app.store(_STORE).values():
            found = sums.get(order.city)
            if found is None:
                found = sums[order.city] = [0, 0]
            found[0] += 1
            found[1] += order.total
        return sums

    def _process_scan(self, _key: str) -> Any:
        return list(self._app.store(_STORE).items())

    def _told_process(self, question: str, answer: Any) -> str:
        if question == "sums":
            return told_sums((city, *both) for city, both in answer.items())
        return told(_shown(answer))

    def _sql_get(self, key: str) -> Any:
        return self._sql(f"select key, city, total from orders where key = '{key}'")

    def _sql_range(self, low: str) -> Any:
        wanted = f"key >= '{low}' and key <= '{high_of(low)}'"
        return self._sql(f"select key, city, total from orders where {wanted}")

    def _sql_sums(self, _key: str) -> Any:
        return self._sql("select city, count(*), sum(total) from orders group by city")

    def _sql_scan(self, _key: str) -> Any:
        return self._sql("select key, city, total from orders")

    def _told_sql(self, question: str, answer: Any) -> str:
        return told_sums(answer.rows) if question == "sums" else told(answer.rows)

    def _sql(self, statement: str) -> Any:
        return self._app.sql(statement, rows_max=_ROWS_MAX)


def obeyed(app: App, command: str) -> None:
    """Follow the command ``ask``."""
    asked = json.loads(command)
    StoreAsker(app).ask(asked["number"], asked["way"], asked["question"], asked["keys"])
