"""What aggregations tell, record by record: windows at their edges, late records, what is shared.

Kafka Streams' own test driver tells the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from mustela import KTable, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from mustela.model import Windowed
from mustela.streams import KGroupedStream
from mustela.windows import EmitStrategy, UnlimitedWindows
from tests.conformance.script import Produced, Sent, Written, at
from tests.conformance.ways import driver_way
from tests.epochs import ms

STREAM_TIME: dict[str, Any] = {"settings": {"event_time": "stream-time", "emit": "every"}}
_RECORD = re.compile(r"(\w+)(?:=(\w+))?@(\d+)")


def records(topic: str, text: str) -> list[Sent]:
    """Read records: ``a=x@5`` has the key a, the value x and the time 5; ``a@5`` has no value."""
    found = [_RECORD.fullmatch(word) for word in text.split()]
    return [at(int(m[3])).send(topic, m[1], m[2]) for m in found if m is not None]


def shown(rows: Iterable[Written]) -> list[str]:
    """Write rows as records are written; a window stands behind its key."""
    told: list[str] = []
    for row in rows:
        key, value = row.key, "" if row.value is None else f"={row.value}"
        if isinstance(key, Windowed):
            end = "" if key.end > 10**12 else key.end
            key = f"{key.key}[{key.start},{end}]"
        told.append(f"{key}{value}@{row.timestamp}")
    return told


def one_by_one(builder: StreamsBuilder, sent: list[Sent]) -> Produced:
    return driver_way(**STREAM_TIME)(builder.build(), [[record] for record in sent])


def with_crashes(builder: StreamsBuilder, sent: list[Sent]) -> Produced:
    run = driver_way(crash_after_every_record=True, **STREAM_TIME)
    return run(builder.build(), [[record] for record in sent])


def all_at_once(builder: StreamsBuilder, sent: list[Sent]) -> Produced:
    return driver_way(**STREAM_TIME)(builder.build(), [sent])


every_way = pytest.mark.parametrize("run", [one_by_one, with_crashes, all_at_once])
Way = Callable[[StreamsBuilder, list[Sent]], Produced]


def count(windowed: Any) -> KTable[Any, Any]:
    return windowed.count(store="table")


def reduce(windowed: Any) -> KTable[Any, Any]:
    return windowed.reduce(lambda x, y: f"{x}{y}", store="table")


def append(_key: Any, value: Any, total: str) -> str:
    return f"{total}{value}"


def aggregate(windowed: Any) -> KTable[Any, Any]:
    return windowed.aggregate(lambda: ">", append, value=str, store="table")


def merging(windowed: Any) -> KTable[Any, Any]:
    return windowed.aggregate(
        lambda: ">", append, lambda _key, x, y: x + y, value=str, store="table"
    )


class Scene(NamedTuple):
    """Records of one topic, and what a windowed aggregation makes of them.

    Attributes:
        fold: The aggregation.
        windows: Its windows.
        sent: The records.
        told: What is told with each update.
        closed: What is told when windows close; None if nothing is said of that.
        late: How many windows records came too late for.
    """

    fold: Callable[[Any], KTable[Any, Any]]
    windows: Any
    sent: str
    told: str
    closed: str | None = None
    late: int = 0


SCENES = {
    "tumbling": Scene(
        count,
        TimeWindows(size=ms(10), grace=ms(5)),
        sent="a=x@3 b=x@9 a=x@10 a=x@9 b=x@15 a=x@9 a=x@14 b=x@30",
        told="a[0,10]=1@3 b[0,10]=1@9 a[10,20]=1@10 a[0,10]=2@9 b[10,20]=1@15 "
        "a[10,20]=2@14 b[30,40]=1@30",
        closed="a[0,10]=2@9 b[0,10]=1@9 a[10,20]=2@14 b[10,20]=1@15",
        late=1,
    ),
    "tumbling_null_values": Scene(
        reduce,
        TimeWindows(size=ms(10), grace=ms(0)),
        sent="a@1 a=x@2 a=y@3 a=z@12",
        told="a[0,10]@1 a[0,10]=x@2 a[0,10]=xy@3 a[10,20]=z@12",
        closed="a[0,10]=xy@3",
    ),
    "hopping_at_its_edges": Scene(
        aggregate,
        TimeWindows(size=ms(10), advance=ms(4), grace=ms(6)),
        sent="a=p@0 a=q@4 b=r@11 a=s@3 a=t@20 a=u@9 b=v@8 b=w@7 a=x@33",
        told="a[0,10]=>p@0 a[0,10]=>pq@4 a[4,14]=>q@4 b[4,14]=>r@11 b[8,18]=>r@11 "
        "a[0,10]=>pqs@4 a[12,22]=>t@20 a[16,26]=>t@20 a[20,30]=>t@20 a[8,18]=>u@9 "
        "b[8,18]=>rv@11 a[24,34]=>x@33 a[28,38]=>x@33 a[32,42]=>x@33",
        closed="a[0,10]=>pqs@4 a[4,14]=>q@4 b[4,14]=>r@11 a[8,18]=>u@9 b[8,18]=>rv@11 "
        "a[12,22]=>t@20 a[16,26]=>t@20",
        late=6,
    ),
    "hopping_behind_a_jump": Scene(
        aggregate,
        TimeWindows(size=ms(10), advance=ms(5), grace=ms(90)),
        sent="k=j@100 k=a@0 k=b@4 k=c@5 k=d@9 k=e@105 k=f@9 k=g@10",
        told="k[95,105]=>j@100 k[100,110]=>j@100 k[5,15]=>c@5 k[5,15]=>cd@9 "
        "k[100,110]=>je@105 k[105,115]=>e@105 k[10,20]=>g@10",
        closed="k[5,15]=>cd@9",
        late=7,
    ),
    "sliding": Scene(
        reduce,
        SlidingWindows(time_difference=ms(10), grace=ms(5)),
        sent="a=p@20 a=q@24 a=r@24 a=s@30 b=t@31 a=u@21 a=v@46 a=w@41",
        told="a[10,20]=p@20 a[21,31]=q@24 a[14,24]=pq@24 a[21,31]=qr@24 a[14,24]=pqr@24 "
        "a[21,31]=qrs@30 a[25,35]=s@30 a[20,30]=pqrs@30 b[21,31]=t@31 "
        "a[21,31]=qrsu@30 a[20,30]=pqrsu@30 a[22,32]=qrs@30 a[36,46]=v@46 "
        "a[36,46]=vw@46 a[31,41]=w@41 a[31,41]=w@41 a[42,52]=v@46",
        closed="a[10,20]=p@20 a[14,24]=pqr@24 a[20,30]=pqrsu@30 a[21,31]=qrsu@30 "
        "b[21,31]=t@31 a[22,32]=qrs@30 a[25,35]=s@30",
        late=2,
    ),
    "sliding_without_grace": Scene(
        aggregate,
        SlidingWindows(time_difference=ms(6), grace=ms(0)),
        sent="a=p@10 a=q@12 a=r@11 a=s@18 a=t@12 a=u@11 a@13 a=v@30",
        told="a[4,10]=>p@10 a[11,17]=>q@12 a[6,12]=>pq@12 a[11,17]=>qr@12 "
        "a[6,12]=>pqr@12 a[12,18]=>q@12 a[12,18]=>qs@18 a[13,19]=>s@18 "
        "a[12,18]=>qst@18 a[24,30]=>v@30",
        closed="a[4,10]=>p@10 a[6,12]=>pqr@12 a[11,17]=>qr@12 a[12,18]=>qst@18 a[13,19]=>s@18",
        late=4,
    ),
    "sliding_early": Scene(
        aggregate,
        SlidingWindows(time_difference=ms(8), grace=ms(20)),
        sent="a=p@0 a=q@5 a=r@5 a=s@2 a=t@9 a=u@0 b=v@3 a=w@13",
        told="a[0,8]=>p@0 a[1,9]=>q@5 a[0,8]=>pq@5 a[1,9]=>qr@5 a[0,8]=>pqr@5 "
        "a[1,9]=>qrs@5 a[3,11]=>qr@5 a[0,8]=>pqrs@5 a[3,11]=>qrt@9 a[1,9]=>qrst@9 "
        "a[6,14]=>t@9 a[0,8]=>pqrsu@5 b[0,8]=>v@3 a[6,14]=>tw@13 a[10,18]=>w@13 "
        "a[5,13]=>qrtw@13",
        closed="",
    ),
    "sessions": Scene(
        merging,
        SessionWindows(inactivity_gap=ms(5), grace=ms(10)),
        sent="a=p@10 b=q@12 a=r@15 a=s@21 a=t@18 b@30 a=u@13 a=v@31 a=w@14 b=x@60",
        told="a[10,10]=>p@10 b[12,12]=>q@12 a[10,10]@10 a[10,15]=>>pr@15 a[21,21]=>s@21 "
        "a[10,15]@15 a[21,21]@21 a[10,21]=>>>pr>st@21 b[30,30]=>None@30 a[10,21]@21 "
        "a[10,21]=>>>>pr>stu@21 a[31,31]=>v@31 a[10,21]@21 a[10,21]=>>>>>pr>stuw@21 "
        "b[60,60]=>x@60",
        closed="b[12,12]=>q@12 a[10,21]=>>>>>pr>stuw@21 b[30,30]=>None@30 a[31,31]=>v@31",
    ),
    "sessions_without_grace": Scene(
        count,
        SessionWindows(inactivity_gap=ms(10), grace=ms(0)),
        sent="a=p@0 a=q@10 a=r@10 b=s@21 a=t@10 a=u@12 a=v@15 a=w@50",
        told="a[0,0]=1@0 a[0,0]@0 a[0,10]=2@10 a[0,10]@10 a[0,10]=3@10 b[21,21]=1@21 "
        "a[12,12]=1@12 a[12,12]@12 a[12,15]=2@15 a[50,50]=1@50",
        closed="a[0,10]=3@10 a[12,15]=2@15 b[21,21]=1@21",
        late=1,
    ),
    "sessions_reduced": Scene(
        reduce,
        SessionWindows(inactivity_gap=ms(3), grace=ms(20)),
        sent="a=p@8 a=q@2 a=r@5 a=s@14 a=t@20 a=u@17 a=v@11 a=w@90",
        told="a[8,8]=p@8 a[2,2]=q@2 a[2,2]@2 a[8,8]@8 a[2,8]=qpr@8 a[14,14]=s@14 "
        "a[20,20]=t@20 a[14,14]@14 a[20,20]@20 a[14,20]=stu@20 a[2,8]@8 a[14,20]@20 "
        "a[2,20]=qprstuv@20 a[90,90]=w@90",
        closed="a[2,20]=qprstuv@20",
    ),
    "without_end": Scene(
        reduce,
        UnlimitedWindows(),
        sent="a=p@5 a=q@2 b=r@9 a=s@7",
        told="a[0,]=p@5 a[0,]=pq@5 b[0,]=r@9 a[0,]=pqs@7",
    ),
}


def aggregated(scene: Scene, emit: EmitStrategy) -> StreamsBuilder:
    builder = StreamsBuilder()
    windowed: Any = builder.stream("in", key=str, value=str).group_by_key()
    windowed = windowed.windowed_by(scene.windows).emit_strategy(emit)
    scene.fold(windowed).to_stream().to("out")
    return builder


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
@every_way
def test_a_window_tells_each_update(run: Way, scene: Scene) -> None:
    """Record by record, behind crashes, and in one epoch; late records are left out and counted."""
    builder = aggregated(scene, EmitStrategy.on_window_update())
    out = run(builder, records("in", scene.sent))
    assert " ".join(shown(out.of("out"))) == scene.told
    assert _late(out) == scene.late


@pytest.mark.parametrize(
    "scene", [pytest.param(s, id=n) for n, s in SCENES.items() if s.closed is not None]
)
@every_way
def test_a_window_is_told_when_it_closes(run: Way, scene: Scene) -> None:
    """Once, with its last value; those that close in one epoch come by start, sessions by end."""
    builder = aggregated(scene, EmitStrategy.on_window_close())
    out = run(builder, records("in", scene.sent))
    assert scene.closed is not None
    wanted = scene.closed.split()
    if run is all_at_once:
        by_end = isinstance(scene.windows, SessionWindows)
        wanted.sort(key=lambda row: (_span(row)[by_end], _span(row), row[0]))
    assert shown(out.of("out")) == wanted
    assert _late(out) == scene.late


def _span(row: str) -> tuple[int, int]:
    """Return start and end of the window of a row as it is shown."""
    start, end = row[row.index("[") + 1 : row.index("]")].split(",")
    return int(start), int(end)


def _late(out: Produced) -> int:
    return sum(count for name, count in out.counters.items() if name.startswith("dropped_late"))


# Left and right in turn, as the times go.
BOTH_SIDES = (
    "left a=1@0, right a=x@3, left b=2@4, right b=y@4, left a=3@9, right c=w@10, left b=4@11, "
    "right a=z@12, left a=5@13, left c=6@16, right a=v@21, right c=u@40, left c=7@42"
)

HOPPING = TimeWindows(size=ms(10), advance=ms(5), grace=ms(50))
JOINED = {
    "hopping": (
        HOPPING,
        "join",
        "a[0,10]=1x@3 b[0,10]=2y@4 a[0,10]=13x@9 a[5,15]=3z@12 a[5,15]=35z@13 a[10,20]=5z@13 "
        "c[10,20]=6w@16 c[35,45]=7u@42 c[40,50]=7u@42",
    ),
    "hopping_left": (
        HOPPING,
        "left_join",
        "a[0,10]=1_@0 a[0,10]=1x@3 b[0,10]=2_@4 b[0,10]=2y@4 a[0,10]=13x@9 a[5,15]=3_@9 "
        "b[5,15]=4_@11 b[10,20]=4_@11 a[5,15]=3z@12 a[5,15]=35z@13 a[10,20]=5z@13 "
        "c[10,20]=6w@16 c[15,25]=6_@16 c[35,45]=7u@42 c[40,50]=7u@42",
    ),
    "sliding_outer": (
        SlidingWindows(time_difference=ms(10), grace=ms(50)),
        "outer_join",
        "a[0,10]=1_@0 a[0,10]=1x@3 b[0,10]=2_@4 b[0,10]=2y@4 a[1,11]=3_@9 a[0,10]=13x@9 "
        "c[0,10]=_w@10 b[5,15]=4_@11 b[1,11]=24_@11 a[4,14]=_z@12 a[2,12]=_xz@12 "
        "a[10,20]=5_@13 a[3,13]=35_@13 c[6,16]=6_@16 a[13,23]=_v@21 a[11,21]=_zv@21 "
        "c[30,40]=_u@40 c[32,42]=7_@42",
    ),
    "sessions_outer": (
        SessionWindows(inactivity_gap=ms(5), grace=ms(50)),
        "outer_join",
        "a[0,0]=1_@0 a[3,3]=_x@3 b[4,4]=2_@4 b[4,4]=2y@4 a[9,9]=3_@9 c[10,10]=_w@10 "
        "b[11,11]=4_@11 a[12,12]=_z@12 a[9,9]@9 a[9,13]=35_@13 c[16,16]=6_@16 a[21,21]=_v@21 "
        "c[40,40]=_u@40 c[42,42]=7_@42",
    ),
}


def two_sides() -> list[Sent]:
    sent: list[Sent] = []
    for part in BOTH_SIDES.split(", "):
        topic, text = part.split()
        sent += records(topic, text)
    return sent


def joined(windows: Any, how: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    tables: list[KTable[Any, str]] = []
    for topic in ("left", "right"):
        windowed: Any = builder.stream(topic, key=str, value=str).group_by_key()
        tables.append(windowed.windowed_by(windows).reduce(lambda x, y: x + y, store=topic))
    join = getattr(tables[0], how)
    table = join(tables[1], lambda x, y: f"{x or '_'}{y or '_'}", value=str, name="joined")
    table.to_stream().to("out")
    return builder


@pytest.mark.parametrize(("windows", "how", "told"), JOINED.values(), ids=JOINED)
@every_way
def test_tables_of_windows_are_joined_window_by_window(
    run: Way, windows: Any, how: str, told: str
) -> None:
    """Whichever side a window is changed on."""
    out = run(joined(windows, how), two_sides())
    assert shown(out.of("out")) == told.split()


@every_way
def test_a_grouped_stream_can_be_used_again_and_again(run: Way) -> None:
    """By a count, in two cogroups, and twice in one: each is a table of its own."""
    builder = StreamsBuilder()
    one, two = (
        builder.stream(topic, key=str, value=str).map(lambda k, v: (k.upper(), v))
        for topic in ("left", "right")
    )
    left: KGroupedStream[str, str] = one.group_by_key(key=str, value=str)
    right: KGroupedStream[str, str] = two.group_by_key(key=str, value=str)

    def insert(_key: str, value: str, total: str) -> str:
        return value + total

    tables: dict[str, KTable[Any, Any]] = {
        "count": left.count(store="count"),
        "both": left.cogroup(append).cogroup(right, append).aggregate(str, store="both"),
        "turned": right.cogroup(append).cogroup(left, insert).aggregate(str, store="turned"),
        "twice": left.cogroup(append).cogroup(left, insert).aggregate(str, store="twice"),
    }
    for name, table in tables.items():
        table.to_stream().to(name, key=str, value=int if name == "count" else str)
    out = run(builder, [*records("left", "a=p@1"), *records("right", "a=q@2 a@3 a=r@4")])
    assert shown(out.of("count")) == ["A=1@1"]
    assert shown(out.of("both")) == ["A=p@1", "A=pq@2", "A=pqr@4"]
    assert shown(out.of("turned")) == ["A=p@1", "A=pq@2", "A=pqr@4"]
    assert shown(out.of("twice")) == ["A=p@1", "A=pp@1"]
