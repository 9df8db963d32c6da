"""Readers of data frames ask again where a server has no answer, a few times."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

from mustela.client.errors import RemoteRefusedError, RemoteUnavailableError
from mustela.frames.asking import Asking
from mustela.frames.options import FrameOptions

BUSY = (503, b'{"error": "it took too long", "code": "QUERY_TIMEOUT"}', {})
GONE = (410, b'{"error": "the data frame has ended", "code": "QUERY_FRAME_GONE"}', {})
CUT = (0, b"", {})
"""The connection ends in place of an answer."""

Answer = tuple[int, bytes, dict[str, str]]
Asked = list[tuple[str, dict[str, Any]]]


@contextmanager
def server(answer: Callable[[str, dict[str, Any]], Answer]) -> Generator[tuple[str, Asked]]:
    """Answer as a function says; give the address, and what was asked."""
    asked: Asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, document))
            status, body, headers = answer(self.path, document)
            if not status:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}", asked
        finally:
            served.shutdown()
            thread.join()


def page(numbers: list[list[int]], *, more: bool) -> Answer:
    """Return a page with some batches."""
    schema = pa.schema([("n", pa.int64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in numbers:
            stream.write_batch(pa.record_batch([pa.array(batch, pa.int64())], schema=schema))
    return 200, sink.getvalue().to_pybytes(), {"mustela-more": "true" if more else "false"}


def asking(address: str, slept: list[float]) -> Asking:
    """Return what asks there, and waits no time."""
    return Asking(FrameOptions(url=address, store="orders"), sleep=slept.append)


@pytest.mark.parametrize("fault", [BUSY, CUT])
def test_a_question_without_an_answer_is_asked_again(fault: Answer) -> None:
    """Whether the server is too busy, or the connection ends."""
    faults = [fault, fault]

    def answer(_path: str, _document: dict[str, Any]) -> Answer:
        return faults.pop() if faults else (200, b'{"frame": "f", "epoch": 7}', {})

    slept: list[float] = []
    with server(answer) as (address, asked), asking(address, slept) as client:
        assert client.open() == {"frame": "f", "epoch": 7}
    assert len(asked) == 3
    assert slept == [0.5, 1.0]


def test_a_part_that_breaks_off_is_read_again_and_gives_each_row_once() -> None:
    """Its pages begin anew, for another reader; another fault later has all its pauses again."""
    pages = [([[1], [2, 3]], True), ([[4]], True), ([[5], [6]], False)]
    faults = {1: [BUSY, CUT], 2: [CUT, BUSY, BUSY]}
    next_of: dict[str, int] = {}

    def answer(_path: str, document: dict[str, Any]) -> Answer:
        number, reader = document["page"], document["reader"]
        if next_of.get(reader, 0) != number:
            return 409, b'{"error": "not the next page", "code": "QUERY_PAGE"}', {}
        next_of[reader] = number + 1
        if faults.get(number):
            return faults[number].pop()
        batches, more = pages[number]
        return page(batches, more=more)

    slept: list[float] = []
    with server(answer) as (address, _), asking(address, slept) as client:
        batches = list(client.batches("f", {"groups": [0, 1]}))
    assert [batch.column(0).to_pylist() for batch in batches] == [[1], [2, 3], [4], [5], [6]]
    assert slept == [0.5, 1.0, 0.5, 1.0, 2.0]
    assert len(next_of) == 6


def test_it_is_not_asked_for_ever_and_a_refusal_not_again() -> None:
    """A server that never answers is told of, as before; one that refuses is not asked twice."""
    slept: list[float] = []
    with (
        server(lambda _path, _document: BUSY) as (address, asked),
        asking(address, slept) as client,
    ):
        with pytest.raises(RemoteUnavailableError, match="it took too long"):
            client.open()
        with pytest.raises(RemoteUnavailableError):
            list(client.batches("f", {}))
    assert len(asked) == 8
    assert slept == 2 * [0.5, 1.0, 2.0]
    with server(lambda _path, _document: GONE) as (address, asked), asking(address, []) as client:
        with pytest.raises(RemoteRefusedError, match="has ended"):
            list(client.batches("f", {}))
        assert len(asked) == 1
