"""The page of the topology, as it is asked for: who gets it, and what it may do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mustela.admin.pages import ASSETS, asset
from tests.unit.admin.fakes import TOKENS, FakeApp

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def app(tmp_path: Path) -> FakeApp:
    made = FakeApp(tmp_path)
    made.runs(first=10)
    made.commits({"dropped_late:counts": 2}, reports=[made.measured()])
    return made


def test_a_browser_gets_a_page_and_a_program_json(app: FakeApp) -> None:
    """By what it accepts, or by what it asks for by name."""
    client = app.client()
    assert client.get("/topology").headers["content-type"] == "application/json"
    for path, headers in (("/topology", BROWSER), ("/topology?format=html", {})):
        page = client.get(path, headers=headers)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
    for form in ("json", "text", "mermaid"):
        told = client.get(f"/topology?format={form}", headers=BROWSER)
        assert "<html" not in told.text


def test_the_page_shows_nothing_and_needs_no_token_wherever_it_is(app: FakeApp) -> None:
    """A browser cannot send one for it; what the page shows it asks for itself."""
    client = app.client(is_strict=True)
    pages = [client.get("/topology", headers=BROWSER)]
    pages += [client.get(f"/topology/{name}") for name in ASSETS if name != "page.html"]
    for page in pages:
        assert page.status_code == 200
        assert "orders" not in page.text
    for path in ("/topology", "/topology?format=json", "/topology/live", "/topology?format=text"):
        assert client.get(path).status_code == 401
        assert client.get(path, TOKENS.read).status_code == 200


@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("format=html&format=json", "*/*"),
        ("format=json&format=html", "*/*"),
        ("format=", "text/html"),
    ],
)
def test_a_page_is_all_that_is_had_without_a_token(app: FakeApp, query: str, accept: str) -> None:
    """Whoever decides who is let in, and whoever answers, read a request the same way."""
    client = app.client(is_strict=True)
    answer = client.get(f"/topology?{query}", headers={"accept": accept})
    assert answer.status_code == 401


def test_the_page_may_load_only_what_comes_from_here(app: FakeApp) -> None:
    """No script, style, picture or request of anybody else, nothing inline, and no frame."""
    page = app.client().get("/topology", headers=BROWSER)
    rules = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert (
        app.client()
        .get("/topology")
        .headers["content-security-policy"]
        .startswith("default-src 'none'; frame-ancestors")
    )
    for name in ASSETS:
        text = asset(name).decode()
        outside = set(re.findall(r"https?://[^\s\"')]+", text))
        assert outside <= {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|\bstyle=|\bon\w+=\"|eval\(", text)


def test_a_link_from_elsewhere_opens_the_page_and_nothing_else(app: FakeApp) -> None:
    """As from a dashboard; what is asked from there by a script is refused all the same."""
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    client = app.client()
    into_window = {**BROWSER, **link, "sec-fetch-dest": "document"}
    assert client.get("/topology", headers=into_window).status_code == 200
    assert client.get("/topology?format=json", headers=into_window).status_code == 403
    assert client.get("/info", headers=into_window).status_code == 403
    into_frame = {**BROWSER, **link, "sec-fetch-dest": "iframe"}
    assert client.get("/topology", headers=into_frame).status_code == 403
    script = {**BROWSER, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    assert client.get("/topology", headers=script).status_code == 403


def test_what_moves_is_told_in_totals(app: FakeApp) -> None:
    """Who looks twice knows the rates."""
    seen = app.client().json("/topology/live")
    assert (seen["state"], seen["ready"], seen["lag"]) == ("running", True, 3)
    assert seen["steps"]["counts"] == {"in": 6, "out": 4}
    assert seen["stores"] == {"counts": {"rows": 3, "bytes": 8192}}
    assert seen["lost"] == {"counts": {"late": 2}}
    assert seen["topics"]["lines"]["partitions"] == 2
    assert seen["topics"]["lines"]["reached_ms"] == 980_000
    assert seen["partitions"][0] == {"topic": "lines", "partition": 0, "next": 7, "lag": 3}
    assert seen["tasks"][0]["records"] == 6
    assert seen["recent"][-1]["phases"]["running"] == pytest.approx(0.2)


def test_before_it_reads_nothing_moves(tmp_path: Path) -> None:
    """The page can be opened while the application starts."""
    seen = FakeApp(tmp_path).client().json("/topology/live")
    assert (seen["state"], seen["lag"], seen["topics"], seen["stores"]) == ("created", None, {}, {})


def test_the_page_is_part_of_the_topology_s_switch(tmp_path: Path) -> None:
    """Off is off."""
    app = FakeApp(tmp_path, admin__endpoints_off=["topology"])
    for path in ("/topology", "/topology/live", "/topology/page.js", "/topology/page.css"):
        assert app.client().get(path, headers=BROWSER).status_code == 404


def test_the_wheel_has_the_files_of_the_page() -> None:
    """All that is there, and nothing that is not served."""
    from importlib.resources import files

    there = {entry.name for entry in files("mustela.admin").joinpath("page").iterdir()}
    assert there == set(ASSETS)
