"""One picture of all ratios: how many times better than Kafka Streams, or worse, and in what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

SUBJECT, RIVAL, TUNED_RIVAL = "mustela", "kafka_streams", "kafka_streams_tuned"
_LIMIT = 16.0
"""The scale ends here on both sides; what lies beyond is drawn at its end, with its number."""
_TICKS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
_NAME_WIDTH, _PANEL, _ROW, _TOP, _SIDE = 120, 150, 22, 92, 16

_STYLE = """\
.bg{fill:#fcfcfa;stroke:#dcdcd4}
text{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#20242b}
.h{font-weight:600}
.s{font-size:11px;fill:#555c66}
.mid{text-anchor:middle}
.grid{stroke:#e4e4dd;stroke-width:1}
.even{stroke:#8a919c;stroke-width:1.5}
.ahead{fill:#35955a;stroke:#35955a}
.behind{fill:#c64a3b;stroke:#c64a3b}
.stem{stroke-width:2}
.told{fill:#b23a2c}
@media (prefers-color-scheme:dark){
.bg{fill:#1b1e23;stroke:#353a42}
text{fill:#e6e8eb}
.s{fill:#a9b0ba}
.grid{stroke:#2f343b}
.even{stroke:#7d8590}
.ahead{fill:#5fbd83;stroke:#5fbd83}
.behind{fill:#e57c6f;stroke:#e57c6f}
.told{fill:#f0978b}
}"""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One thing in which two peers are compared.

    Attributes:
        title: Above its column.
        path: Where a row of the results has it, with dots between groups.
        more_is_better: Whether a larger number is the better one.
    """

    title: str
    path: str
    more_is_better: bool = False

    def advantage(self, row: Row, rival: Row) -> float | None:
        """How many times better the row is than the rival's; nothing where one has no number."""
        mine, theirs = at(row, self.path), at(rival, self.path)
        if not mine or not theirs:
            return None
        return mine / theirs if self.more_is_better else theirs / mine


MEASURES = (
    Measure(title="records/s", path="records_per_s.median", more_is_better=True),
    Measure(title="CPU, with broker's", path="total_cpu_s_per_million.median"),
    Measure(title="peak memory", path="peak_pss_mb.median"),
    Measure(title="disk", path="state_mb.median"),
    Measure(title="p95 at a fixed load", path="latency_ms.p95"),
    Measure(title="CPU at a fixed load", path="fixed_load.cpu_percent.median"),
)


def at(row: Row, path: str) -> Any:
    """What a row of the results has under a path; nothing where it has nothing."""
    found: Any = row
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def compared(document: Mapping[str, Any], rival: str = RIVAL) -> dict[str, float | None] | None:
    """The advantages of one workload with exactly-once, by the measures' titles.

    Returns:
        Nothing if one of the two peers has no row.
    """
    peers = document["peers"]
    mine, theirs = (peers.get(peer, {}).get("eos") for peer in (SUBJECT, rival))
    if mine is None or theirs is None:
        return None
    return {measure.title: measure.advantage(mine, theirs) for measure in MEASURES}


def draw(documents: Sequence[Mapping[str, Any]]) -> str:
    """The picture as SVG: a row for each workload, a column for each measure."""
    rows = [
        (str(document["workload"]["name"]), found)
        for document in documents
        if (found := compared(document)) is not None
    ]
    width = _NAME_WIDTH + _PANEL * len(MEASURES) + 2 * _SIDE
    height = _TOP + _ROW * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="title">',
        '<title id="title">How many times better or worse Mustela is than Kafka Streams, '
        "workload by workload.</title>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="bg" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="h" x="{_SIDE}" y="28">Mustela beside Kafka Streams, exactly once: '
        "right of the line it is better by so many times, left of it worse</text>",
        *_columns(height),
    ]
    for place, (name, advantages) in enumerate(rows):
        y = _TOP + _ROW * place + _ROW / 2
        parts.append(f'<text x="{_SIDE}" y="{y + 4:g}">{escape(name)}</text>')
        for column, measure in enumerate(MEASURES):
            parts.extend(_dot(_middle(column), y, advantages[measure.title]))
    return "\n".join([*parts, "</svg>", ""])


def _middle(column: int) -> float:
    return _SIDE + _NAME_WIDTH + _PANEL * column + _PANEL / 2


def _shift(advantage: float) -> float:
    """How far from a panel's middle an advantage lies: the logarithm, cut at the scale's end."""
    share = math.log(advantage) / math.log(_LIMIT)
    return max(-1.0, min(1.0, share)) * (_PANEL / 2 - 14)


def _columns(height: int) -> Iterator[str]:
    for column, measure in enumerate(MEASURES):
        middle = _middle(column)
        yield f'<text class="h mid" x="{middle:g}" y="58">{escape(measure.title)}</text>'
        for tick in _TICKS:
            x = middle + _shift(tick)
            kind = "even" if tick == 1 else "grid"
            yield f'<line class="{kind}" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 24}"/>'
            if tick in (1 / 4, 1, 4):
                told = "1/4" if tick < 1 else f"{tick:g}"
                yield f'<text class="s mid" x="{x:.1f}" y="{_TOP - 8}">{told}</text>'


def _dot(middle: float, y: float, advantage: float | None) -> Iterator[str]:
    if advantage is None:
        return
    x, ahead = middle + _shift(advantage), advantage >= 1
    kind = "ahead" if ahead else "behind"
    yield f'<line class="stem {kind}" x1="{middle:g}" y1="{y:g}" x2="{x:.1f}" y2="{y:g}"/>'
    yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:g}" r="4"/>'
    # The number stands on the other side of the line, where nothing else is.
    anchor, place = ("end", middle - 5) if ahead else ("start", middle + 5)
    mark = "s" if ahead else "s told"
    yield (
        f'<text class="{mark}" x="{place:g}" y="{y + 4:g}" text-anchor="{anchor}">'
        f"{_told(advantage)}</text>"
    )


def _told(advantage: float) -> str:
    return f"{advantage:.2g}" if advantage < 10 else f"{advantage:.0f}"
