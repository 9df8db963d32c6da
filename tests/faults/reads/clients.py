"""Clients that ask an application and its replica over HTTP, whatever becomes of these.

Each keeps what it was told, in order, as looks: documents that `tests.faults.reads.judge` reads.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from mustela.client.errors import RemoteUnavailableError
from tests.faults.reads.dealt import asked_stores, dealt
from tests.faults.reads.followers import FOLLOWED, Follower
from tests.faults.reads.frames import Frames, Read, read_by_source, reader_by_spark
from tests.faults.reads.program import BY_KEY, KEYS, Shape
from tests.faults.reads.served import TOLD

__all__ = ["Clients", "Look"]

Look = dict[str, Any]
Way = Callable[["_Asker"], Iterator[Look]]
PAUSE_S = 0.15
TIMEOUT_S = 30.0
PAGE = 5
_NO_ANSWER = {503, 429}


class NoAnswerError(Exception):
    """There is no answer now, which is never wrong."""


class Clients:
    """The clients of one application.

    Args:
        addresses: Where it answers, by place: ``app``, and ``replica`` if there is one.
        token: The file with what it is asked with.
        shapes: Every store that there may be.
        sure: The stores that are there in every release.
        seed: For what is random.
        spark: A session that reads data frames, too.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        token: Path,
        shapes: Mapping[str, Shape],
        sure: frozenset[str],
        *,
        seed: int,
        spark: Any = None,
    ) -> None:
        self._addresses = addresses
        self._token_file = token
        self._token = token.read_text(encoding="utf-8")
        self._shapes = shapes
        self._sure = sure
        self._seed = seed
        self.looks: list[Look] = []
        self.unanswered = 0
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._followers: list[Follower] = []
        ways = self._ways(spark)
        self._threads = [
            threading.Thread(target=self._run, args=(name, place, way), name=name, daemon=True)
            for name, (place, way, _) in ways.items()
        ]
        self._unasked = {name: set(stores) for name, (_, _, stores) in ways.items()}

    def _ways(self, spark: Any) -> dict[str, tuple[str, Way, Collection[str]]]:
        """Return by the name of each client where it asks, how, and for which stores."""
        by_key, in_order = self._with(BY_KEY), self._in_order()
        ways: dict[str, tuple[str, Way, Collection[str]]] = {
            "both by turns": ("", self._keys, by_key),
            "the next epoch of both": ("", self._next, by_key),
        }
        for place in self._addresses:
            said = "application" if place == "app" else place
            ways[f"all of the {said}"] = place, _everything, self._sure
            ways[f"pages of the {said}"] = place, self._pages, by_key
            ways[f"sql of the {said}"] = place, self._sql(place), in_order
            if place == "app":
                ways[f"keys of the {said}"] = place, self._keys, by_key
            frames, changes = self._frames(place, read_by_source), self._changes(place)
            ways[f"frames of the {said}"] = place, frames, in_order
            ways[f"changes of the {said}"] = place, changes, self._with(FOLLOWED)
        if spark is not None:
            ways["Spark"] = "app", self._frames("app", reader_by_spark(spark)), in_order
        return ways

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)
        for follower in self._followers:
            follower.close()

    def count(self, place: str) -> int:
        """Return how many looks there were at a place."""
        return sum(look["place"] == place for look in list(self.looks))

    def unasked(self) -> dict[str, list[str]]:
        """Return of which stores a client has had no answer yet, by its name."""
        return {name: sorted(stores) for name, stores in self._unasked.items() if stores}

    def _run(self, name: str, place: str, way: Callable[[_Asker], Iterator[Look]]) -> None:
        rng = random.Random(f"{self._seed}-{name}")
        heads = {"authorization": f"Bearer {self._token}"}
        with httpx.Client(headers=heads, timeout=TIMEOUT_S) as http:
            asker = _Asker(http, rng)
            while not self._ended.wait(PAUSE_S):
                at = place or rng.choice(sorted(self._addresses))
                asker.address, asker.least = self._addresses[at], None if place else asker.seen
                try:
                    for look in way(asker):
                        asker.seen = max(asker.seen, look["epoch"] or 0)
                        facts = {"client": name, "place": at, "least": asker.least}
                        self.looks.append({**facts, **look})
                        self._unasked[name] -= asked_stores(look)
                        if self._ended.is_set():
                            break
                except (httpx.TransportError, NoAnswerError, RemoteUnavailableError):
                    self.unanswered += 1
                    time.sleep(PAUSE_S)
                except Exception as error:  # noqa: BLE001 - told as what is wrong
                    self.errors.append(f"{name}: {type(error).__name__}: {error}")

    def _with(self, layouts: Collection[str]) -> list[str]:
        return sorted(name for name in self._sure if self._shapes[name].layout in layouts)

    def _in_order(self) -> list[str]:
        """Return the stores whose rows can be read in order."""
        return sorted(name for name in self._sure if self._shapes[name].layout != "lines")

    def _store(self, asker: _Asker) -> str:
        return asker.random.choice(self._with(BY_KEY))

    def _pages(self, asker: _Asker) -> Iterator[Look]:
        """Ask for the rows of a store, page by page, each of the epoch that it names."""
        store = self._store(asker)
        after: str | None = None
        cursor: dict[str, str] = {}
        while True:
            document = asker.get(f"/stores/{store}", limit=str(PAGE), **cursor)
            rows = [[row["key"], None, None, row["value"]] for row in document["rows"]]
            is_last = document.get("cursor") is None
            page = {"store": store, "after": after, "rows": rows, "last": is_last}
            yield {"epoch": document["epoch"], "page": page}
            if is_last:
                return
            after, cursor = rows[-1][0], {"cursor": document["cursor"]}

    def _keys(self, asker: _Asker) -> Iterator[Look]:
        store, keys = self._store(asker), asker.random.sample(KEYS, 4)
        least = {} if asker.least is None else {"min_epoch": str(asker.least)}
        document = asker.ask("POST", f"/stores/{store}/get", params=least, json={"keys": keys})
        found = {row["key"]: row["value"] for row in document["rows"] if row is not None}
        some = {"store": store, "keys": keys, "found": found}
        yield {"epoch": document["epoch"], "some": some}

    def _next(self, asker: _Asker) -> Iterator[Look]:
        """Ask for the epoch after the newest that it knows, which mostly is still to come."""
        asker.least = asker.seen + 1
        yield from self._keys(asker)

    def _frames(self, place: str, read: Read) -> Way:
        rng = random.Random(f"{self._seed}-{place}-frames")
        sure = {name: self._shapes[name] for name in self._sure}
        frames = Frames(self._addresses[place], self._token_file, sure, rng, read)
        return lambda _asker: frames.looks()

    def _changes(self, place: str) -> Way:
        rng = random.Random(f"{self._seed}-{place}-changes")
        sure = {name: self._shapes[name] for name in self._sure}
        follower = Follower(self._addresses[place], self._token, sure, rng)
        self._followers.append(follower)
        return lambda _asker: follower.looks()

    def _sql(self, place: str) -> Way:
        """Return what asks for the sums of two stores in one statement."""
        names = dealt(self._in_order(), random.Random(f"{self._seed}-{place}-sql"))

        def ask(asker: _Asker) -> Iterator[Look]:
            two = sorted({next(names), next(names)})
            parts = [
                f"select '{name}', count(*), {_sum(self._shapes[name])} from \"{name}\""
                for name in two
            ]
            document = asker.ask("POST", "/sql", json={"sql": " union all ".join(parts)})
            sums = {store: [count, total] for store, count, total in document["rows"]}
            yield {"epoch": document["epoch"], "sums": sums}
            self._ended.wait(1.0)

        return ask


def _sum(shape: Shape) -> str:
    """Return the expression for what tells the contents of a store apart."""
    return "coalesce(sum(value), 0)::bigint" if shape.value == "int" else "count(*)"


def _everything(asker: _Asker) -> Iterator[Look]:
    """Ask a query of the application's own for all rows of all stores."""
    document = asker.get(f"/queries/{TOLD}")
    yield {"epoch": document["epoch"], "stores": document["result"]}


class _Asker:
    """Asks at one address at a time.

    Attributes:
        seen: The newest epoch that it was told.
        least: The epoch that it asks for at least.
    """

    def __init__(self, http: httpx.Client, rng: random.Random) -> None:
        self._http = http
        self.random = rng
        self.address = ""
        self.seen = 0
        self.least: int | None = None

    def get(self, path: str, **parameters: str) -> Any:
        return self.ask("GET", path, params=parameters)

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Return the document of an answer, with the epoch of its header.

        Raises:
            NoAnswerError: If there is none now.
        """
        answer = self._http.request(method, f"{self.address}{path}", **more)
        if answer.status_code in _NO_ANSWER or _of_another_process(answer):
            raise NoAnswerError
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        document = answer.json()
        epoch = int(answer.headers["mustela-epoch"])
        assert document.get("epoch", epoch) == epoch, f"{path}: {document['epoch']} is not {epoch}"
        return {**document, "epoch": epoch}


def _of_another_process(answer: httpx.Response) -> bool:
    """Tell whether a cursor was refused: it ends with the process that wrote it."""
    return answer.status_code == 400 and answer.json()["code"] == "QUERY_CURSOR"
