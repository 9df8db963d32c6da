"""From a seed to a script: which program, which world, what happens and when.

Each seed plays some kinds of faults and leaves the others out, so that rare ones are not always
drowned by frequent ones.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.programs import GROWN, KEYS, PROGRAMS, Program
from tests.simulation.script import Event, Script

__all__ = ["ALL", "ASKED", "DRAWN", "KINDS", "NOT_YET", "draw", "program_of"]

HALF = 0.5
_ENDS = ("plain", "plain", "plain", "commit", "abort", "held")
"""How input comes: without a transaction, in one that commits or aborts, or in one that is held
open until the next of this kind."""


class _Draw:
    def __init__(
        self, random: Random, program: Program, options: dict[str, Any], length: int
    ) -> None:
        self.random = random
        self.program = program
        self.options = options
        self.length = length

    def when(self) -> int:
        return self.random.randrange(20, self.length)

    def source(self) -> str:
        return self.random.choice(self.program.sources)

    def place(self) -> tuple[str, int]:
        return self.source(), self.random.randrange(self.options["partitions"])


def _several(kind: str) -> Callable[[_Draw], list[Event]]:
    def make(draw: _Draw) -> list[Event]:
        at = draw.when()
        return [Event(at + n, kind) for n in range(draw.random.choice((1, 1, 1, 2, 6)))]

    return make


def _stop(draw: _Draw) -> list[Event]:
    at = draw.when()
    machine = draw.random.randrange(2)
    return [
        Event(at, "stop", (0,)),
        Event(at + draw.random.randint(20, 80), "start", (0, 0, machine)),
    ]


def _version(draw: _Draw) -> list[Event]:
    """Releases: other versions of the program run for a while, and are rolled back."""
    random, at = draw.random, draw.when()
    events: list[Event] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        version = random.choice((*draw.program.releases, GROWN))
        slot = random.choice((0, 0, 0, 1))  # the next version may start before the last one stops
        back = at + random.randint(40, 200)
        events.append(Event(at, "start", (slot, version, slot)))
        rows = ((random.choice(KEYS), b"v1"), (random.choice(KEYS), b"v2"))
        events.append(Event(random.randint(at, back), "produce", ("extra", 0, rows, "plain")))
        if random.random() < 0.3:
            between = random.randint(at, back)
            events.append(Event(between, random.choice(("kill", "disk", "power")), (0,)))
        events.append(Event(back, "start", (0, 0, 0)))
        if slot:
            events.append(Event(back, "stop", (slot,)))
        at = back + random.randint(20, 100)
    return events


def _second(draw: _Draw) -> list[Event]:
    """A second instance, and perhaps a third; what is fenced stays down until it is started."""
    random = draw.random
    slots = random.choice(((0, 1), (0, 1), (0, 1, 2)))
    return [
        Event(draw.when(), "start", (random.choice(slots), 0, random.randrange(2)))
        for _ in range(random.randint(1, 4))
    ]


def _outage(draw: _Draw) -> list[Event]:
    """Everything stands still for a while, and transactions time out."""
    return [Event(draw.when(), "pause", (draw.random.choice((100, 2_000, 6_000, 70_000)),))]


def _skew(draw: _Draw) -> list[Event]:
    """A clock is wrong for a while, and records come in it."""
    at, ahead = draw.when(), draw.random.choice((-5_000, 10_000, 3_600_000, 90_000_000))
    rows = ((draw.random.choice(KEYS), b"v1"),)
    return [
        Event(at, "skew", (0, ahead)),
        Event(at + 1, "produce", (*draw.place(), rows, "plain")),
        Event(at + draw.random.randint(5, 60), "skew", (0, 0)),
    ]


def _hide(draw: _Draw) -> list[Event]:
    """Answers lack a topic for a while, while the application runs or just when it starts."""
    random, at = draw.random, draw.when()
    if random.random() < 0.5:
        return [Event(at, "hide", (draw.source(), random.randint(5, 60)))]
    hidden = Event(at + 24 + random.randrange(12), "hide", (draw.source(), random.randint(2, 6)))
    return [Event(at, "stop", (0,)), Event(at + 20, "start", (0, 0, 0)), hidden]


def _compact(draw: _Draw) -> list[Event]:
    random = draw.random
    after = random.choice((None, None, 200, 2_000))
    return [Event(draw.when(), "compact", (random.choice((0, 1, 5)), after))]


def _absence(draw: _Draw) -> list[Event]:
    """The application is down for days, and comes back on a machine that may be another one."""
    random, at = draw.random, draw.when()
    events = [
        Event(at, "stop", (0,)),
        Event(at + 20, "pause", (random.choice((20, 200)) * 3_600_000,)),
        Event(at + 21, "age", ()),
    ]
    if random.random() < 0.5:
        events.append(Event(at + 22, "disk", (0,)))
    return [*events, Event(at + 25, "start", (0, 0, random.randrange(2)))]


def _lost_log(draw: _Draw) -> list[Event]:
    """While the application is down, somebody deletes an internal topic, or one loses its end."""
    random, at = draw.random, draw.when()
    how = random.choice(("truncate changelog", "delete changelog", "delete epochs"))
    return [
        Event(at, "stop", (0,)),
        Event(at + 40, "lose_log", (how, random.randrange(3), random.randint(1, 10))),
        Event(at + 45, "start", (0, 0, random.randrange(2))),
    ]


def _expiry(draw: _Draw) -> list[Event]:
    """Retention deletes records of the sources, read or not."""
    at = draw.when()
    return [
        Event(at, "stop", (0,)),
        Event(at + 40, "expire", (draw.source(), draw.random.choice((0, 500, 5_000)))),
        Event(at + 45, "start", (0, 0, draw.random.randrange(2))),
    ]


def _widen(draw: _Draw) -> list[Event]:
    """A topic gets partitions, and records come there."""
    at, topic = draw.when(), draw.source()
    rows = ((draw.random.choice(KEYS), b"v1"), (draw.random.choice(KEYS), b"v2"))
    return [
        Event(at, "widen", (topic, 4)),
        Event(at + draw.random.randint(0, 30), "produce", (topic, 3, rows, "plain")),
    ]


def _reset(draw: _Draw) -> list[Event]:
    """Somebody resets the application, and does not reach a host that has run it, too."""
    at, random = draw.when(), draw.random
    events = [
        Event(at, "start", (0, 0, 1)),
        Event(at + 60, "stop", (0,)),
        Event(at + 80, "reset", (0,)),
    ]
    for machine in (0, *random.sample((0, 0, 2, 2), random.randint(0, 3)), 1):
        at += random.randint(30, 90)
        events.append(Event(at + 81, "start", (0, 0, machine)))
    return events


KINDS: dict[str, Callable[[_Draw], list[Event]]] = {
    "kill": _several("kill"),
    "kill_worker": _several("kill_worker"),
    "fail": _several("fail"),
    "no_answer": lambda draw: [Event(draw.when(), "no_answer")],
    "power": lambda draw: [Event(draw.when(), "power", (0,))],
    "disk": lambda draw: [Event(draw.when(), "disk", (0,))],
    "stop": _stop,
    "version": _version,
    "second": _second,
    "outage": _outage,
    "skew": _skew,
    "compact": _compact,
    "absence": _absence,
    "lost_log": _lost_log,
    "expiry": _expiry,
    "widen": _widen,
    "hide": _hide,
    "lag": lambda draw: [Event(draw.when(), "lag", (draw.random.randint(20, 100),))],
    "truncate": lambda draw: [
        Event(draw.when(), "truncate", (*draw.place(), draw.random.randint(1, 10)))
    ],
    "reset": _reset,
    "recreate": lambda draw: [Event(draw.when(), "recreate", (draw.source(),))],
    "group": lambda draw: [Event(draw.when(), "group", (draw.random.choice(("move", "forget")),))],
}
"""Every kind of fault, and what it makes happen; ``held`` besides, which is a way to write."""


def _unlogged(draw: _Draw) -> list[Event]:
    """A release does not log its store; the next one does, on a machine that may be another one."""
    at = draw.when()
    back = at + draw.random.randint(60, 150)
    return [
        Event(at, "start", (0, min(1, draw.program.versions - 1), 0)),
        Event(back, "start", (0, 0, draw.random.randrange(2))),
    ]


def _behind(draw: _Draw) -> list[Event]:
    """A machine rests while another one works, and the cleaner takes deletions that it missed.

    Its clock was ahead when it wrote, so that its copy seems to be young.
    """
    random, at, source = draw.random, draw.when(), draw.source()
    gone = None if source in draw.program.tables else b"v1"
    before = tuple((key, b"v2") for key in KEYS)
    after = tuple((key, gone) for key in random.sample(KEYS, 3))
    back = at + random.randint(200, 350)
    return [
        Event(at, "skew", (0, 30_000)),
        *(Event(at + 1, "produce", (source, n, before, "plain")) for n in range(3)),
        Event(at + 60, "start", (0, 0, 1)),
        Event(at + 90, "skew", (0, 0)),
        *(Event(at + 100, "produce", (source, n, after, "plain")) for n in range(3)),
        Event(back - 3, "compact", (0, 20_000)),  # drops rows; their deletions stay for 20 s
        Event(back - 2, "pause", (60_000,)),
        Event(back - 1, "compact", (0, 20_000)),
        Event(back, "start", (0, 0, 0)),
    ]


def _wipe(draw: _Draw) -> list[Event]:
    """Somebody deletes local state while the application runs."""
    at = draw.when()
    return [Event(at + 7 * n, "wipe", (0,)) for n in range(draw.random.randint(1, 6))]


def _cut(draw: _Draw) -> list[Event]:
    """A log that was there before the application loses its end, and grows again after a while.

    Nobody knows whose log it was of which nothing was read: it is seen while it is short.
    """
    random, source = draw.random, draw.source()
    if source in draw.program.global_:
        source = "in"
    rows = tuple((random.choice(KEYS), b"v1") for _ in range(6))
    numbers = range(draw.options["partitions"])
    at = random.randint(60, 120)
    return [
        *(Event(0, "produce", (source, n, rows, "plain")) for n in numbers),
        *(Event(at, "truncate", (source, n, 4)) for n in numbers),
        Event(at + 40, "pause", (6_000,)),
        *(Event(at + 100, "produce", (source, n, rows, "plain")) for n in numbers),
    ]


def _beside(draw: _Draw) -> list[Event]:
    """A second and a third instance start beside a living one, to take over or as standbys.

    Some stand still for a while, and wake up when another one has taken over.
    """
    random, at = draw.random, draw.when()
    events: list[Event] = []
    for _ in range(random.randint(1, 5)):
        start = (random.randrange(3), random.randrange(2), random.random() < HALF)
        events.append(Event(at, "beside", start))
        if random.random() < 0.4:
            still = random.randrange(3), random.choice((300, 1_500, 6_000, 20_000))
            events.append(Event(at + random.randint(1, 60), "freeze", still))
        if random.random() < 0.2:
            events.append(Event(at + random.randint(1, 60), "stop", (random.randrange(3),)))
        at = draw.when() if random.random() < HALF else at + random.randint(0, 40)
    return events


def _writers(draw: _Draw) -> list[Event]:
    """Lanes write their changelogs, and some of them die or are slow."""
    random = draw.random
    kinds = ("kill_writer", "kill_writer", "fail_writer", "no_answer", "fail")
    faults = [Event(draw.when(), random.choice(kinds)) for _ in range(random.randint(0, 6))]
    return [Event(0, "writers", ()), *faults]


ASKED: dict[str, Callable[[_Draw], list[Event]]] = {
    "unlogged": _unlogged,
    "behind": _behind,
    "wipe": _wipe,
    "cut": _cut,
    "beside": _beside,
    "writers": _writers,
}
"""What only those draw who ask for it by name, as ``--with`` does. No other seed knows of it."""

ALL = frozenset({*KINDS, "held"})
DRAWN = 4
"""Counts the ways in which scripts were made of seeds: each makes another script of a seed."""

NOT_YET = frozenset({"recreate", "reset", "truncate"})
"""Kinds that are not drawn by default: two end most seeds early, by a stop that is right, and
after a reset what came before it is not looked at again. ``--with truncate,recreate`` plays the two
beside the others, in lines of their own in a ledger."""

OFTEN = {"version": 0.3, "second": 0.3, "kill": 0.3, "fail": 0.2, "no_answer": 0.2, "lag": 0.1}
OFTEN["beside"] = 0.6
OFTEN["writers"] = 1.0
"""What happens in so large a share of seeds, whatever the weather is like."""


def program_of(seed: int) -> str:
    """Return the name of the program of a seed: each has its turn, so that few seeds try all."""
    names = sorted(PROGRAMS)
    return names[seed % len(names)]


def draw(seed: int, *, kinds: frozenset[str] = ALL - NOT_YET) -> Script:
    """Return the script of a seed.

    Args:
        seed: The seed.
        kinds: The kinds of faults that may happen.
    """
    random = Random(f"script {seed}")
    program = PROGRAMS[program_of(seed)]
    options: dict[str, Any] = {
        "lanes": random.choice((1, 2, 3)),
        "key_groups": random.choice((1, 2, 4)),
        "max_records": random.choice((3, 10, 50)),
        "chunk": random.choice((2, 5, 20)),
        "partitions": random.choice((1, 2, 3)),
        "refresh_s": random.choice((1, 5)),
        "commit_timeout_s": random.choice((5, 60)),
        "idleness_s": random.choice((1, 3)),
        "reset": random.choice(("earliest", "latest")),
        "drift_s": random.choice((None, None, 1)),
    }
    length = random.choice((150, 300, 600))
    draws = _Draw(random, program, options, length)
    events = [Event(0, "start", (0, 0, 0)), *_inputs(draws, kinds)]
    makers = KINDS | ASKED
    known = sorted(kinds & makers.keys())
    weather = random.sample(known, min(len(known), random.randint(1, 5)))
    for kind, share in OFTEN.items():
        if kind in kinds and random.random() < share:
            events += makers[kind](draws)
    for _ in range(random.randint(0, 7) if weather else 0):
        kind = random.choice(weather)
        if not (kind == "widen" and program.timed):
            events += makers[kind](draws)  # records of a partition that is found late are late
    return Script(
        seed=seed,
        program=program.name,
        options=options,
        events=tuple(sorted(events, key=lambda event: event.at)),
    )


def _inputs(draw: _Draw, kinds: frozenset[str]) -> list[Event]:
    random = draw.random
    events: list[Event] = []
    for _ in range(random.randint(3, 14)):
        topic, partition = draw.place()
        rows = tuple(
            (random.choice(KEYS), _value(random, topic, draw.program))
            for _ in range(random.randint(1, 12))
        )
        at, end = random.randrange(draw.length), random.choice(_ENDS)
        if end == "held" and "held" not in kinds:
            end = "commit"
        events.append(Event(at, "produce", (topic, partition, rows, end)))
    return events


def _value(random: Random, topic: str, program: Program) -> bytes | None:
    if topic in {"side", *program.tables} and random.random() < 0.3:
        return None
    return b"v%d" % random.randrange(5)
