"""The page of the topology in a real Chromium."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mustela import StreamsBuilder
from mustela.admin.server import AdminServer
from mustela.connectors.kafka.truncation import LogPosition
from mustela.model import TopicPartition
from mustela.runtime.events import AppState
from tests.chromium import IN_CHROMIUM, chromium
from tests.patience import PATIENCE_S
from tests.unit.admin.fakes import FakeApp
from tests.unit.admin.shop import busy_epoch, shop, sixty_steps

pytestmark = IN_CHROMIUM

Open = Callable[..., "Page"]
_TURNS = "return Number(document.body.dataset.turns || 0)"


class Page:
    """The page of an application, and the application.

    Args:
        browser: Chromium.
        server: Its server.
        app: What it shows.
    """

    def __init__(self, browser: Any, server: AdminServer, app: FakeApp) -> None:
        self.browser = browser
        self.server = server
        self.app = app

    def go(self, tail: str = "") -> None:
        self.browser.get("about:blank")
        self.browser.get(f"{self.server.address}/topology{tail}")

    def script(self, text: str) -> Any:
        return self.browser.execute_script(text)

    def until(self, condition: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until something is so in the page."""
        from selenium.webdriver.support.ui import WebDriverWait

        def so(_browser: object) -> Any:
            meanwhile()
            return self.script(f"return {condition}")

        WebDriverWait(self.browser, PATIENCE_S).until(so)

    def sees_two_looks(self) -> None:
        """Wait until rates are known: between two looks epochs have run."""
        chance = random.Random(2)
        turns = self.script(_TURNS) + 2
        self.until(f"({_TURNS[7:]}) >= {turns}", lambda: busy_epoch(self.app, chance))

    def text(self, selector: str) -> str:
        return self.script(f"return document.querySelector({selector!r}).textContent")

    def complaints(self) -> list[str]:
        """Return what Chromium complained of: a refused script or style, an error."""
        return [entry["message"] for entry in self.browser.get_log("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@contextmanager
def served(directory: Path, build: Callable[[StreamsBuilder], object], **settings: Any) -> Any:
    app = FakeApp(directory, build, **settings)
    app.comes_to(AppState.RUNNING)
    app.committed.lanes = 4
    now_ms = app.clock.now_ms()
    for topic in app.plan.topics:
        place = TopicPartition(topic, 0)
        app.committed.sources.put(place, LogPosition(100, 0))
        app.ends[place] = 1_400
        app.committed.watermark.observe(place, now_ms - 4_000, now_ms)
    app.committed.watermark.value = now_ms - 4_000
    app.tells()
    busy_epoch(app, random.Random(1))
    server = AdminServer()
    server.open(app.watched)
    try:
        yield server, app
    finally:
        server.close()


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Page]:
    with served(tmp_path, shop) as (server, app):
        shown = Page(browser, server, app)
        shown.go()
        yield shown


def test_the_picture_has_steps_stages_lanes_stores_and_topics_with_what_moves(page: Page) -> None:
    """Drawn without a word from anybody but the server, and without a complaint of Chromium's."""
    page.sees_two_looks()
    ids = set(page.script("return [...document.querySelectorAll('.node')].map(n => n.dataset.id)"))
    nodes = {node.name for node in page.app.graph}
    topics = {
        "in:orders",
        "in:customers",
        "in:payments",
        "out:settled",
        "out:revenue",
        "out:alerts",
    }
    assert ids == nodes | topics
    stores = set(
        page.script("return [...document.querySelectorAll('.store title')].map(t => t.textContent)")
    )
    assert stores == {store.name for node in page.app.graph for store in node.stores}
    bands = page.script(
        "return [...document.querySelectorAll('.band-title')].map(t => t.textContent)"
    )
    assert bands == ["Read", *(f"Stage {stage.index}" for stage in page.app.plan.stages), "Written"]
    assert len(page.script("return [...document.querySelectorAll('.band ~ g .lane-bar')]")) >= 4
    rate = page.text('[data-id="without-empty"] .rate')
    assert rate.endswith("/s")
    assert page.text('[data-id="in:orders"] .kind').startswith("lag 1.3k · ")
    assert page.text("#state") == "running"
    assert "watermark behind" in page.text("#facts")
    assert page.complaints() == []


def test_what_the_page_asks_for_comes_from_here_only(page: Page) -> None:
    """Every request of the whole life of the page."""
    import json

    page.sees_two_looks()
    asked = [
        json.loads(entry["message"])["message"]["params"]["request"]["url"]
        for entry in page.browser.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    mine = [url for url in asked if not url.startswith(("data:", "about:", "chrome"))]
    assert len(mine) >= 6
    assert all(url.startswith(page.server.address) for url in mine[-6:]), mine


@pytest.mark.parametrize("build", [shop, sixty_steps])
def test_no_step_lies_upon_another_and_no_name_leaves_its_box(
    browser: Any, tmp_path: Path, build: Any
) -> None:
    """With sixty steps too, and at first at a size that can be read."""
    with served(tmp_path, build) as (server, app):
        page = Page(browser, server, app)
        page.go()
        page.sees_two_looks()
        boxes = page.script(
            "return [...document.querySelectorAll('.node')].map(n => { const b = n.getBBox();"
            " const m = n.transform.baseVal[0].matrix;"
            " return [n.dataset.id, m.e + b.x, m.f + b.y, b.width, b.height]; })"
        )
        for at, (one, x, y, width, height) in enumerate(boxes):
            assert width <= 197, one
            for other, left, top, wide, high in boxes[at + 1 :]:
                apart = (
                    x + width <= left or left + wide <= x or y + height <= top or top + high <= y
                )
                assert apart, (one, other)
        shown = page.script(
            "return document.querySelector('.node .title').getBoundingClientRect().height"
        )
        assert shown >= 9


def test_a_step_is_looked_at_with_a_click_or_a_key(page: Page) -> None:
    """Its counts, its store, and the line that made it."""
    from selenium.webdriver.common.keys import Keys

    page.sees_two_looks()
    page.script(
        "document.querySelector('[data-id=\"revenue-per-hour\"]')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    told = page.text("#chosen")
    assert "window aggregate" in told
    assert "revenue-per-country-and-hour" in told
    assert "shop.py:" in told
    page.script("document.querySelector('#chosen button').click()")
    assert page.script("return document.querySelector('#chosen').hidden")
    page.script("document.querySelector('[data-id=\"in:orders\"]').focus()")
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert "lag" in page.text("#chosen")


def test_a_name_is_searched_for(page: Page) -> None:
    """What does not have it fades."""
    page.sees_two_looks()
    page.browser.find_element("id", "search").send_keys("customers-by-id")
    left = page.script(
        "return [...document.querySelectorAll('.node:not(.faded)')].map(n => n.dataset.id)"
    )
    assert left == ["customers"]


def test_a_token_is_asked_for_and_sent_in_a_header_only(browser: Any, tmp_path: Path) -> None:
    """A wrong one is told of; the right one shows the picture; no address ever has it."""
    with locked(tmp_path) as (server, app):
        page = Page(browser, server, app)
        page.go()
        page.until("document.querySelector('#ask').open")
        assert page.script("return document.querySelectorAll('.node').length") == 0
        page.complaints()
        for token, opens in (("x" * 30, False), (READ, True)):
            page.browser.find_element("id", "token").send_keys(token)
            page.browser.find_element("css selector", "#form button").click()
            if not opens:
                page.until("document.querySelector('#wrong').textContent !== ''")
        page.until("!document.querySelector('#ask').open")
        page.until("document.querySelectorAll('.node').length > 5")
        assert READ not in page.browser.current_url
        assert READ not in page.script("return document.documentElement.outerHTML")
        assert page.script(
            "return [localStorage.length, sessionStorage.length, document.cookie]"
        ) == [
            0,
            0,
            "",
        ]


def test_a_token_in_the_fragment_is_taken_from_the_address(browser: Any, tmp_path: Path) -> None:
    """A fragment is never sent; here it does not stay to be copied or seen, either."""
    with locked(tmp_path) as (server, app):
        page = Page(browser, server, app)
        page.go(f"#token={READ}")
        page.until("document.querySelectorAll('.node').length > 5")
        assert page.browser.current_url == f"{server.address}/topology"


def test_names_are_text_and_nothing_else(browser: Any, tmp_path: Path) -> None:
    """A topic's name cannot be a script; what a fault says cannot, either."""
    with served(tmp_path, shop) as (server, app):
        page = Page(browser, server, app)
        app.commits({"dropped_<img src=x onerror=window.hit=1>:without-empty": 4})
        page.go()
        page.sees_two_looks()
        page.script(
            "document.querySelector('[data-id=\"without-empty\"]')"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        assert "<img src=x" in page.text("#chosen")
        assert page.script("return [window.hit ?? 0, document.images.length]") == [0, 0]


def test_a_page_whose_application_is_gone_says_so(page: Page) -> None:
    """And goes on asking."""
    page.sees_two_looks()
    page.server.close()
    page.until("document.querySelector('#state').textContent === 'out of reach'")


def test_light_and_dark_are_those_of_the_browser(page: Page) -> None:
    """Text stands out from its ground in both."""
    grounds: list[str] = []
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        grounds.append(page.script("return getComputedStyle(document.body).backgroundColor"))
        for selector in ("#name", "dt", ".card h2", "#legend"):
            assert page.script(CONTRAST.replace("SELECTOR", selector)) >= 4.5, (scheme, selector)
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert grounds[0] != grounds[1]


READ = "r" * 40
CONTRAST = """
const light = (text) => { const [r, g, b] = text.match(/[0-9.]+/g).map((part) => {
  const c = part / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const one = document.querySelector('SELECTOR');
const behind = (element) => getComputedStyle(element).backgroundColor;
let ground = one; while (behind(ground) === 'rgba(0, 0, 0, 0)') ground = ground.parentElement;
const pair = [light(getComputedStyle(one).color), light(behind(ground))].sort((a, b) => b - a);
return (pair[0] + 0.05) / (pair[1] + 0.05);
"""


@contextmanager
def locked(directory: Path) -> Any:
    """Serve an application whose every endpoint needs a token, on loopback without TLS."""
    import mustela.admin.server as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "is_loopback", lambda _host: False)
        patch.setattr(module, "check_exposure", lambda _admin: None)
        with served(directory, shop, admin__read_token=READ) as both:
            yield both
