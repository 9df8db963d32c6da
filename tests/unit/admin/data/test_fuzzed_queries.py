"""Whatever is asked of stores, no answer is a server error."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

from mustela import App, StreamsBuilder, TopologyTestDriver
from tests.unit.admin.data.shown import QUERY, stores
from tests.unit.admin.data.test_functions import Shop

STORES = ("counts", "windowed", "sessions", "orders", "recent", "unlogged", "prices", "none")
NAMES = (
    *("from", "to", "prefix", "limit", "reverse", "cursor", "min_epoch", "count", "as_of"),
    *("time_from", "time_to", "since", "x"),
)
texts = st.text(max_size=12) | st.sampled_from(
    ["1", "-1", "true", "null", "a", "[]", "{}", "9" * 18, "9" * 19, "NaN", '"a"', "AAAA"]
)
segments = st.sampled_from(("windows", "sessions", "versions", "get", "", ".", "x")) | texts
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@cache
def shop() -> Shop:
    builder = StreamsBuilder()
    stores(builder)
    driver = TopologyTestDriver(builder.build(), key_groups=2)
    atexit.register(driver.close)
    words = driver.create_input_topic("words", key=str, value=str)
    for word in ("a", "b", "a"):
        words.pipe_input(word, "x")
    app = App("sales")

    @app.query("top")
    def top(snapshot: object, count: int = 2, names: list[str] | None = None) -> int:
        return count

    return Shop(driver, app, Path(tempfile.gettempdir()) / "nowhere")


@pytest.mark.slow
@settings(deadline=None)
@given(
    first=st.sampled_from(("stores", "queries", "openapi.json")),
    store=st.sampled_from((*STORES, "top")) | texts,
    rest=st.lists(segments, max_size=3),
    query=st.dictionaries(st.sampled_from(NAMES), texts, max_size=4),
    accept=st.sampled_from(("", "*/*", "application/msgpack", "text/html;q=x", ",;,", "a/b;q=0.5")),
)
def test_no_question_is_a_server_error(
    first: str, store: str, rest: list[str], query: dict[str, str], accept: str
) -> None:
    """It is answered, or refused with a code; the epoch of an answer is in its header."""
    path = "/".join(quote(part, safe="", errors="surrogatepass") for part in (first, store, *rest))
    if path.endswith("/changes"):
        return
    answer = shop().client.get(
        f"/{path}", QUERY.query, params=query, headers={"accept": accept} if accept else None
    )

    assert answer.status_code in (200, 400, 404, 405, 406, 414, 503), answer.text
    if answer.status_code == 503:
        assert answer.json()["code"] == "QUERY_EPOCH_NOT_REACHED"


@settings(deadline=None)
@given(
    path=st.sampled_from([f"/stores/{store}/get" for store in STORES] + ["/queries/top"]),
    body=st.binary(max_size=30)
    | documents.map(lambda keys: {"keys": keys})
    | documents.map(lambda given: {"count": given}),
)
def test_no_body_is_a_server_error(path: str, body: bytes | dict[str, object]) -> None:
    """Whatever is sent as keys or parameters."""
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = shop().client.post(path, QUERY.query, **sent)

    assert answer.status_code in (200, 400, 404), answer.text
