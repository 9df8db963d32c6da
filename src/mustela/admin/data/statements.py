"""Answers statements of SQL."""

from __future__ import annotations

from typing import Any, Final, cast

from mustela.admin.data.asked import Asked, DataRefusal
from mustela.admin.data.encodings import ARROW, JSON, MSGPACK, by_preference, encoding_for
from mustela.admin.data.hidden import Hidden
from mustela.admin.data.service import EPOCH_HEADER, Reply, refusal_of, refused
from mustela.errors import EnvironmentFault, MustelaError
from mustela.queries.queries import Queries
from mustela.serdes.plain_values import plain_value
from mustela.sql.asking import ask
from mustela.sql.errors import SqlStatementError, SqlTimeoutError
from mustela.sql.process import SqlLimits
from mustela.sql.result import SqlResult

__all__ = ["SqlService"]

_OTHERS: Final = (JSON, MSGPACK, "*/*", "application/*")


class SqlService:
    """Serves ``POST /sql``.

    Args:
        queries: What reads the stores.
        hidden: What must not be shown.
        limits: How much a statement may take.
    """

    def __init__(self, queries: Queries, *, hidden: Hidden, limits: SqlLimits) -> None:
        self._queries = queries
        self._hidden = hidden
        self._limits = limits

    def answer(self, asked: Asked) -> Reply:
        """Return the answer to a request; whatever is wrong with it is an answer too."""
        try:
            return self._answer(asked)
        except DataRefusal as refusal:
            return refused(refusal)
        except SqlStatementError as error:
            known = {"line": error.fields.get("line"), "column": error.fields.get("column")}
            place = {} if known["line"] is None else known
            return refused(DataRefusal(400, error.code, error.what, error.fix or "", place))
        except SqlTimeoutError as error:  # which would be as late again
            return refused(DataRefusal(400, error.code, error.what, error.fix or ""))
        except EnvironmentFault as error:
            status = 503 if error.retryable else 400
            return refused(DataRefusal(status, error.code, error.what, error.fix or ""))
        except MustelaError as error:
            return refused(refusal_of(error))

    def _answer(self, asked: Asked) -> Reply:
        if len(asked.path) != 1:
            raise DataRefusal(404, "QUERY_PATH", "there is no such address", "ask POST /sql")
        if asked.method != "POST":
            what = "a statement is asked with POST"
            raise DataRefusal(405, "QUERY_METHOD", what, 'send {"sql": "select ..."}')
        asked.only("min_epoch")
        kinds = by_preference(asked.headers.get("accept", ""))
        in_arrow = next((kind for kind in kinds if kind == ARROW or kind in _OTHERS), "") == ARROW
        encoding = None if in_arrow else encoding_for(asked.headers.get("accept", ""))
        found = ask(
            self._queries,
            _statement(asked),
            limits=self._limits,
            hidden=self._hidden,
            min_epoch=asked.whole("min_epoch"),
        )
        headers = {EPOCH_HEADER: str(found.epoch)}
        if encoding is None:
            return Reply(body=found.arrow_stream(), kind=ARROW, headers=headers)
        body = encoding.encode(_document(found))
        if len(body) > 2 * self._limits.size:
            what = f"the answer has more than {2 * self._limits.size} bytes"
            raise DataRefusal(400, "SQL_LIMIT", what, "add LIMIT, or ask for an Arrow stream")
        return Reply(body=body, kind=encoding.kind, headers=headers)


def _statement(asked: Asked) -> str:
    document = asked.document()
    known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    statement = known.get("sql")
    if not isinstance(statement, str) or len(known) != 1:
        what = 'the body is not {"sql": "select ..."}'
        raise DataRefusal(400, "QUERY_BODY", what, "send one statement, as text")
    return statement


def _document(found: SqlResult) -> dict[str, Any]:
    columns = [
        {"name": name, "type": kind} for name, kind in zip(found.columns, found.types, strict=True)
    ]
    rows = [[plain_value(value) for value in row] for row in found.rows]
    return {"epoch": found.epoch, "columns": columns, "rows": rows}
