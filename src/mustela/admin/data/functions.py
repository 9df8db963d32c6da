"""Answers requests for the user's own queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from mustela.admin.data.asked import Asked, DataRefusal
from mustela.admin.data.encodings import encoding_for
from mustela.admin.data.service import (
    EPOCH_HEADER,
    Limits,
    Reply,
    given_to,
    listed_function,
    refusal_of,
    refused,
)
from mustela.errors import MustelaError
from mustela.queries.functions import QueryFunction, QueryRefusedError
from mustela.queries.queries import Queries
from mustela.serdes.plain_values import UnshownValueError, plain_value

__all__ = ["FunctionService"]


class FunctionService:
    """Serves the queries of an application.

    Args:
        queries: What reads the stores.
        functions: The queries by name.
        limits: How much one request may take.
        say: Called with a line for each function that fails.
    """

    def __init__(
        self,
        queries: Queries,
        functions: Mapping[str, QueryFunction],
        *,
        limits: Limits,
        say: Callable[[str], None],
    ) -> None:
        self._queries = queries
        self._functions = functions
        self._limits = limits
        self._say = say

    def answer(self, asked: Asked) -> Reply:
        """Return the answer to a request; whatever is wrong with it is an answer too."""
        try:
            return self._answer(asked)
        except DataRefusal as refusal:
            return refused(refusal)
        except QueryRefusedError as error:
            more = error.fix or ""
            return refused(DataRefusal(error.status, error.code, error.what, more))
        except MustelaError as error:
            return refused(refusal_of(error))

    def _answer(self, asked: Asked) -> Reply:
        encoding = encoding_for(asked.headers.get("accept", ""))
        if asked.method not in ("GET", "HEAD", "POST"):
            raise DataRefusal(405, "QUERY_METHOD", "this method is not known here", "use GET")
        if len(asked.path) == 1 and asked.method != "POST":
            asked.only()
            listed = [listed_function(function) for _, function in sorted(self._functions.items())]
            return Reply(body=encoding.encode({"queries": listed}), kind=encoding.kind)
        function = self._functions.get(asked.path[1]) if len(asked.path) == 2 else None
        if function is None:
            raise DataRefusal(404, "QUERY_PATH", "there is no such query", "see /queries")
        given, min_epoch = given_to(asked)
        arguments = function.arguments(given, strict=asked.method == "POST")
        with self._queries.snapshot(
            lifetime=function.timeout,
            min_epoch=min_epoch,
            timeout=timedelta(seconds=self._limits.seconds),
        ) as snapshot:
            epoch = snapshot.epoch
            result = self._called(function, snapshot, arguments)
        body = encoding.encode({"epoch": epoch, "result": result})
        if len(body) > self._limits.size:
            what = f"the result of query {function.name} is larger than {self._limits.size} bytes"
            raise DataRefusal(500, "QUERY_RESULT", what, "let the function return less")
        return Reply(body=body, kind=encoding.kind, headers={EPOCH_HEADER: str(epoch)})

    def _called(self, function: QueryFunction, snapshot: Any, arguments: dict[str, Any]) -> Any:
        try:
            return plain_value(function.call(snapshot, **arguments))
        except MustelaError:
            raise
        except UnshownValueError as error:
            what = f"the result of query {function.name} cannot be shown: {error}"
            raise DataRefusal(500, "QUERY_RESULT", what, "return what JSON can hold") from None
        except Exception as error:  # noqa: BLE001 - a function of the user's may raise anything
            self._say(f"query {function.name} failed: {type(error).__name__}: {error}")
            what = f"query {function.name} failed with {type(error).__name__}"
            fix = "see the application's log"
            raise DataRefusal(500, "QUERY_FAILED", what, fix) from None
