"""Rows of stores for a reader that comes once: from an admin server, or in its own process."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from mustela.admin.client import AdminClient
from mustela.admin.data.asked import Asked
from mustela.admin.data.cursors import Cursors
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.service import DataService, Limits
from mustela.clock import Clock
from mustela.errors import EnvironmentFault, UsageError
from mustela.queries.queries import LIFETIME_MAX, Queries
from mustela.queries.source import StateSource

__all__ = [
    "RemoteState",
    "StandingState",
    "StateAnswers",
    "StateRefusedError",
    "StateTornError",
    "StateUnreadableError",
]

PAGE_ROWS: Final = 5_000
"""How many rows are asked for at a time."""
_PAGE_BYTES: Final = 4 << 20
_PAGE_S: Final = 3600.0


class StateRefusedError(UsageError):
    """What is asked of a store has no answer."""

    code = "STATE_QUESTION"


class StateTornError(EnvironmentFault):
    """An epoch ended to be readable before all of its rows were read."""

    code = "STATE_TORN"
    retryable = True


class StateAnswers(ABC):
    """Answers what the addresses below ``/stores`` answer."""

    @abstractmethod
    def asked(self, path: Sequence[str], parameters: Mapping[str, str]) -> tuple[int, bytes]:
        """Return status and body of the answer to a request.

        Args:
            path: The parts of the path after ``/stores``.
            parameters: The parameters.
        """

    @contextmanager
    def held(self) -> Generator[dict[str, str]]:
        """Keep one epoch readable; gives the parameters that ask for it."""
        yield {}

    def find(self, *path: str, **parameters: str) -> dict[str, Any] | None:
        """Return an answer; None if there is no such row.

        Raises:
            StateRefusedError: If the question is wrong.
            EnvironmentFault: If there is no answer now.
        """
        status, body = self.asked(path, parameters)
        try:
            found: Any = json.loads(body)
        except ValueError:
            found = None
        document = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if status == 200:
            return document
        if document.get("code") == "QUERY_NO_ROW":
            return None
        raise _refused(status, document)

    def ask(self, *path: str, **parameters: str) -> dict[str, Any]:
        """Return an answer.

        Raises:
            StateRefusedError: If the question is wrong, or there is no such row.
        """
        found = self.find(*path, **parameters)
        if found is None:
            raise _refused(404, {"error": "the store has no row of this key"})
        return found

    def pages(
        self,
        path: Sequence[str],
        parameters: Mapping[str, str],
        *,
        limit: int | None = None,
        whole: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Yield the pages of a question.

        Args:
            path: The parts of the path after ``/stores``.
            parameters: The parameters.
            limit: The most rows of all pages.
            whole: Whether all pages must be of one epoch.

        Raises:
            StateTornError: If they must, and are not.
        """
        left, more = limit, dict[str, str]()
        with self.held() if whole else nullcontext(dict[str, str]()) as one:
            while left is None or left > 0:
                rows = PAGE_ROWS if left is None else min(PAGE_ROWS, left)
                page = self.ask(*path, **{**parameters, **one, **more, "limit": str(rows)})
                if whole and "continued_from_epoch" in page:
                    raise _torn(page["continued_from_epoch"], page["epoch"])
                yield page
                if left is not None:
                    left -= len(page[rows_of(path)])
                if "cursor" not in page:
                    return
                more = {"cursor": page["cursor"]}

    def count(self, store: str, parameters: Mapping[str, str]) -> tuple[int, int]:
        """Return how many rows there are, and the epoch.

        Raises:
            StateTornError: If another epoch began to be shown meanwhile.
        """
        total, more = 0, dict[str, str]()
        with self.held() as one:
            while True:
                page = self.ask(store, **{**parameters, **one, **more, "count": "true"})
                if "continued_from_epoch" in page:
                    raise _torn(page["continued_from_epoch"], page["epoch"])
                total += page["count"]
                if "cursor" not in page:
                    return total, page["epoch"]
                more = {"cursor": page["cursor"]}


def rows_of(path: Sequence[str]) -> str:
    """Return the name of the rows in the answer for a path.

    Example:
        >>> rows_of(["counts"]), rows_of(["counts", "a", "windows"])
        ('rows', 'windows')
    """
    return path[2] if len(path) == 3 else "rows"


def _torn(then: int, now: int) -> StateTornError:
    msg = f"rows up to now are of epoch {then}, which cannot be read any more; it is epoch {now}"
    return StateTornError(
        msg,
        why="a running application keeps an epoch readable for five minutes, and for one only while"
        " many others read",
        fix="read what is stopped, or the changelogs: --source changelogs",
        fields={"then": then, "now": now},
    )


_FIXES_OF_KINDS: Final = {
    **dict.fromkeys(
        ("key_value", "timestamped_key_value", "versioned"),
        "leave out --show, --as-of or --versions; mustela state list has the kinds of the stores",
    ),
    "window": "read those of a key with --show windows, or several keys with mustela state range",
    "session": "read those of a key with --show sessions, or several keys with mustela state range",
}
"""What the commands have for the addresses that a refusal names."""


def _refused(status: int, document: Mapping[str, Any]) -> UsageError | EnvironmentFault:
    what = str(document.get("error") or f"the server answered {status}")
    fix, code = document.get("fix") or None, str(document.get("code", ""))
    if status in (401, 403):
        fix = "give the token of the scope query: MUSTELA__ADMIN__QUERY_TOKEN"
    if code == "QUERY_NO_STORE":
        fix = "see mustela state list"
    if code == "QUERY_KIND":
        fix = _FIXES_OF_KINDS.get(str(document.get("kind")), fix)
    fields = {"status": status, "code": code}
    if code == "QUERY_FRAME_GONE":
        return StateTornError(
            "the epoch of the rows up to now cannot be read any more",
            why="a running application keeps an epoch readable for five minutes",
            fix="read what is stopped, or the changelogs: --source changelogs",
            fields=fields,
        )
    if status >= 500:
        return StateUnreadableError(what, fix=fix or "try again", fields=fields)
    return StateRefusedError(what, fix=fix or "see mustela state --help", fields=fields)


class StateUnreadableError(EnvironmentFault):
    """There is no answer now."""

    code = "STATE_UNREADABLE"
    retryable = True


class RemoteState(StateAnswers):
    """Asks an admin server.

    Args:
        client: Asks it.
    """

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def asked(self, path: Sequence[str], parameters: Mapping[str, str]) -> tuple[int, bytes]:
        """Return status and body of the answer to a request."""
        target = "/".join(["/stores", *(quote(part, safe="") for part in path)])
        if parameters:
            target += f"?{urlencode(parameters)}"
        return self._client.data(target)

    @contextmanager
    def held(self) -> Generator[dict[str, str]]:
        """Keep one epoch readable, for as long as a snapshot may be open.

        Where too many others do so, pages are of one epoch for a minute only.
        """
        wish = {"held": True, "seconds": LIFETIME_MAX.total_seconds()}
        status, body = self._client.data("/frames", json.dumps(wish).encode())
        if status != 200:
            yield {}
            return
        frame = str(json.loads(body)["frame"])
        try:
            yield {"frame": frame}
        finally:
            self._client.data(f"/frames/{quote(frame, safe='')}", b"{}")


class StandingState(StateAnswers):
    """Reads in this process. Nothing is hidden: who may read the files, or the topics, sees all.

    Args:
        source: What was committed; it does not move on.
        clock: Monotonic time.
    """

    def __init__(self, source: StateSource, clock: Clock) -> None:
        self.queries = Queries(source, clock=clock)
        self._service = DataService(
            self.queries,
            cursors=Cursors(b"of this process"),
            hidden=Hidden(),
            limits=Limits(rows=PAGE_ROWS, size=_PAGE_BYTES, seconds=_PAGE_S),
            now=clock.monotonic,
        )

    @property
    def service(self) -> DataService:
        """What answers."""
        return self._service

    def asked(self, path: Sequence[str], parameters: Mapping[str, str]) -> tuple[int, bytes]:
        """Return status and body of the answer to a request."""
        reply = self._service.answer(Asked(path=("stores", *path), parameters=dict(parameters)))
        return reply.status, reply.body

    def close(self) -> None:
        """End all snapshots."""
        self._service.leases.close()
        self.queries.close()
