"""mustela migrate: take over the state of a stopped Kafka Streams application."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from mustela.cli.applications import Target
from mustela.cli.asking import Manner
from mustela.cli.clients import open_admin
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table, say
from mustela.cli.loading import load_app
from mustela.cli.repairing import go_ahead

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.plan.plan import Plan
    from mustela.runtime.ports import World
    from mustela.runtime.takeover.comparing import Compared
    from mustela.runtime.takeover.matching import Match
    from mustela.runtime.takeover.planning import Takeover, Wish

__all__ = ["group"]

_PLAIN = Manner()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """The application that is taken over.

    Attributes:
        source: What it is made with.
        application_id: Its id.
        maps: Stores with another name here.
        without: Stores that are left out.
    """

    source: Annotated[
        Literal["kafka-streams"], Parameter(name="--from", help="What the old one is made with.")
    ]
    application_id: Annotated[
        str, Parameter(name="--application-id", help="The old application's application.id.")
    ]
    maps: Annotated[
        list[str] | None,
        Parameter(
            name="--map",
            negative=(),
            help="OLD=NEW: the name of a store there, and its name in the program; repeatable.",
        ),
    ] = None
    without: Annotated[
        list[str] | None,
        Parameter(
            name="--without",
            negative=(),
            help="Leave this store of the old one behind, or let this one of the program start "
            "empty; repeatable.",
        ),
    ] = None

    def wish(self) -> Wish:
        """Return what is to be taken over.

        Raises:
            BadMapError: If a ``--map`` is not OLD=NEW.
        """
        from mustela.runtime.takeover.matching import names_given
        from mustela.runtime.takeover.planning import Wish

        return Wish(
            application_id=self.application_id,
            maps=names_given(self.maps or ()),
            without=tuple(self.without or ()),
        )


def group() -> App:
    """Return the commands ``mustela migrate …``."""
    app = App(name="migrate", help="Take over the state of a stopped Kafka Streams application.")
    app.command(plan)
    app.command(seed)
    app.command(verify)
    return app


def plan(
    target: Target, /, *, old: Old, bootstrap_servers: Bootstrap = None, json: Json = False
) -> int:
    """Show what becomes of each store and source of the old application; change nothing.

    Stop the old application first. The exit code is 0 if mustela migrate seed would do it, and 2 if
    something is in the way; each such thing is printed with what to do about it.

    Args:
        target: The module, and the name of the application in it.
        old: The old application.
        bootstrap_servers: The brokers.
        json: Print one JSON document.
    """
    from mustela.runtime.takeover.planning import planned

    with _opened(target, bootstrap_servers) as (settings, program, world):
        takeover = planned(settings, program, world, old.wish())
    stops = takeover.all_stops
    if json:
        print_json(_document(settings, takeover))
    else:
        _print_plan(takeover)
        for stop in stops:
            say(f"{stop.what}\n  fix: {stop.fix}")
        if not stops:
            print(f"{settings.application_id} can take over {old.application_id}")
    return ExitCode.USAGE if stops else ExitCode.OK


def seed(target: Target, /, *, old: Old, manner: Manner = _PLAIN) -> int:
    """Write the old application's state and offsets as the first epoch of the new one.

    The old application's topics and offsets stay as they are. All or nothing: if it is interrupted,
    the application does not start, and mustela migrate seed begins again.

    Args:
        target: The module, and the name of the application in it.
        old: The old application.
        manner: How it is done.
    """
    from mustela.runtime.takeover.planning import planned
    from mustela.runtime.takeover.seeding import Seeding

    with _opened(target, manner.bootstrap_servers) as (settings, program, world):
        takeover = planned(settings, program, world, old.wish())
        takeover.refuse()
        with open_admin(settings.bootstrap_servers) as admin:
            seeding = Seeding(settings, world, admin.delete)
            seen = seeding.look(program)
            if not go_ahead(manner, settings, _told(takeover), done="written"):
                return ExitCode.OK
            done: list[str] = []
            record = seeding.seed(seen, takeover, done.append if manner.json else print)
        name = settings.application_id
        if manner.json:
            print_json({"application_id": name, "done": done, "epoch": record.epoch})
        else:
            print(f"{name} starts where {old.application_id} stopped")
    return ExitCode.OK


def verify(
    target: Target, /, *, old: Old, bootstrap_servers: Bootstrap = None, json: Json = False
) -> int:
    """Compare the seeded state row by row with what the old application would restore.

    Run it between mustela migrate seed and the first start. The exit code is 1 if they differ.

    Args:
        target: The module, and the name of the application in it.
        old: The old application.
        bootstrap_servers: The brokers.
        json: Print one JSON document.
    """
    from mustela.runtime.takeover.comparing import compared, offsets_that_differ, seeded_record
    from mustela.runtime.takeover.planning import planned

    with _opened(target, bootstrap_servers) as (settings, program, world):
        record = seeded_record(settings, program, world)
        takeover = planned(settings, program, world, old.wish())
        takeover.refuse()
        stores = list(compared(settings, record, takeover))
        offsets = offsets_that_differ(record, takeover, program)
    same = not offsets and all(store.same for store in stores)
    if json:
        print_json({"same": same, "stores": list(map(_facts, stores)), "offsets": offsets})
    else:
        head = ["store", "rows there", "rows here", "hash there", "hash here", ""]
        print_table(head, map(_cells, stores))
        for store in stores:
            for key in store.differing:
                print(f"{store.store}: {key}")
        for line in offsets:
            print(f"goes on at another offset: {line}")
        print("the same" if same else "they differ")
    return ExitCode.OK if same else ExitCode.FAULT


@contextmanager
def _opened(target: str, bootstrap_servers: str | None) -> Generator[tuple[Settings, Plan, World]]:
    from mustela.clock import SystemClock
    from mustela.runtime.kafka_world import kafka_world

    app = load_app(target)
    if bootstrap_servers is not None:
        app.configure(bootstrap_servers=bootstrap_servers)
    settings = app.settings
    world = kafka_world(settings, SystemClock())
    try:
        yield settings, app.built_plan(), world
    finally:
        world.transactions.close()
        world.cluster.close()


def _print_plan(takeover: Takeover) -> None:
    head = ["old store", "store here", "kind", "records", ""]
    print_table(head, map(_row, takeover.matches))
    places = takeover.old.commits
    if places:
        rows = [
            (p.topic, p.partition, at, takeover.old.ends[p] - at, takeover.old.times[p])
            for p, at in sorted(places.items())
        ]
        print_table(["source", "partition", "goes on at", "waiting", "largest timestamp"], rows)


def _row(match: Match) -> tuple[object, ...]:
    from mustela.runtime.takeover.bearers import bearer_of

    if match.stops:
        done = "refused"
    elif match.from_source:
        done = f"taken over from {match.topic}"
    else:
        done = "taken over"
    spec, node = match.spec, match.node
    kind = "" if spec is None else spec.kind
    if spec is not None and node is not None and not match.stops:
        kind = bearer_of(spec, node).what
    return match.old or "-", "-" if spec is None else spec.name, kind, match.rows, done


def _told(takeover: Takeover) -> list[str]:
    lines = [
        f"write {match.spec.name} from {match.rows} records of {match.topic}"
        for match in takeover.matches
        if match.spec is not None
    ]
    places = takeover.old.commits.items()
    return [*lines, *(f"go on in {p.topic}-{p.partition} at {at}" for p, at in sorted(places))]


def _document(settings: Settings, takeover: Takeover) -> dict[str, Any]:
    old = takeover.old
    return {
        "application_id": settings.application_id,
        "from": old.application_id,
        "ready": not takeover.all_stops,
        "stores": [
            {
                "old": match.old or None,
                "store": None if match.spec is None else match.spec.name,
                "kind": None if match.spec is None else match.spec.kind,
                "topic": match.topic or None,
                "records": match.rows,
                "taken_over": not match.stops,
                "stops": [{"what": stop.what, "fix": stop.fix} for stop in match.stops],
            }
            for match in takeover.matches
        ],
        "sources": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": at,
                "waiting": old.ends[place] - at,
                "timestamp": old.times[place],
            }
            for place, at in sorted(old.commits.items())
        ],
        "stops": [{"what": stop.what, "fix": stop.fix} for stop in takeover.stops],
    }


def _cells(store: Compared) -> tuple[object, ...]:
    facts = _facts(store)
    told = "the same" if store.same else "differs"
    return (*list(facts.values())[:5], told)


def _facts(store: Compared) -> dict[str, Any]:
    return {
        "store": store.store,
        "old_rows": store.old_rows,
        "rows": store.rows,
        "old_hash": f"{store.old_hash:016x}",
        "hash": f"{store.hash:016x}",
        "same": store.same,
        "differing": store.differing,
    }
