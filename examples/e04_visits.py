"""Gather what a visitor looked at into visits: windows that last as long as the visitor is active.

    mustela broker start
    mustela topics create e04_visits:app
    mustela run e04_visits:app

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send pages - --format json <<END
    {"key": "ann", "timestamp": $((now - 9000))000, "value": "home"}
    {"key": "ann", "timestamp": $((now - 8000))000, "value": "cart"}
    {"key": "bob", "timestamp": ${now}000, "value": "home"}
    END
    mustela tail visits --from-beginning

A visit is over after half an hour without a page. A page that comes late may join two visits into
one; ``merger`` says what that one is. Only visits that are over are emitted, each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mustela import App, SessionWindows, StreamsBuilder, Windowed
from mustela.windows import EmitStrategy

VISIT = SessionWindows(inactivity_gap=timedelta(minutes=30), grace=timedelta(minutes=5))

app = App("visits")


@dataclass(frozen=True)
class Visit:
    pages: dict[str, int]
    seconds: int


def look(_visitor: str, page: str, pages: dict[str, int]) -> dict[str, int]:
    return pages | {page: pages.get(page, 0) + 1}


def joined(_visitor: str, earlier: dict[str, int], later: dict[str, int]) -> dict[str, int]:
    return {page: earlier.get(page, 0) + later.get(page, 0) for page in earlier | later}


def visit(window: Windowed[str], pages: dict[str, int]) -> tuple[str, Visit]:
    """Turn a window and its pages into a record for other programs."""
    return window.key, Visit(pages, (window.end - window.start) // 1_000)


@app.topology
def build(builder: StreamsBuilder) -> None:
    pages = builder.stream("pages", key=str, value=str).group_by_key()
    over = pages.windowed_by(VISIT).emit_strategy(EmitStrategy.on_window_close())
    visits = over.aggregate(dict, look, merger=joined, value=dict[str, int], store="visits")
    visits.to_stream().map(visit, key=str, value=Visit, name="visit").to("visits")


if __name__ == "__main__":
    app.run()
