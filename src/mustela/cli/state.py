"""mustela state: read an application's state; change it while it is not running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mustela.cli import state_import, state_reading
from mustela.cli.applications import Target
from mustela.cli.asking import Manner
from mustela.cli.clients import open_admin
from mustela.cli.console import ExitCode
from mustela.cli.loading import load_app
from mustela.cli.repairing import go_ahead, open_repair, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mustela.config.settings import Settings
    from mustela.runtime.repairs.dropping import Drop
    from mustela.runtime.repairs.upgrading import LogRow, Upgrading
    from mustela.runtime.topics.neighbours import Neighbour

__all__ = ["group"]

_PLAIN = Manner()


def group() -> App:
    """Return the commands ``mustela state …``."""
    app = App(name="state", help="Read and change an application's state.")
    app.command(state_reading.list_stores, name="list")
    app.command(state_reading.get)
    app.command(state_reading.range_rows, name="range")
    app.command(state_reading.count_rows, name="count")
    app.command(state_reading.export)
    app.command(state_import.import_rows, name="import")
    app.command(drop)
    app.command(upgrade)
    return app


def drop(
    target: Target, store: Annotated[str, Parameter(name="STORE")], /, *, manner: Manner = _PLAIN
) -> int:
    """Forget a store and delete its changelog; if the program still has it, it starts empty.

    Everything else stays, offsets too: the store is filled from the records that arrive from then
    on. Stop the application first.

    Args:
        target: The module, and the name of the application in it.
        store: The store.
        manner: How the change is made.
    """
    from mustela.runtime.kafka_world import changelogs_of_others
    from mustela.runtime.repairs.dropping import drop_of

    app = load_app(target)
    if manner.bootstrap_servers is not None:
        app.configure(bootstrap_servers=manner.bootstrap_servers)
    settings, plan = app.settings, app.built_plan()
    name = settings.application_id
    with open_admin(settings.bootstrap_servers) as admin, open_repair(settings) as repair:
        sight = repair.look()
        dropped = drop_of(repair.recorded(sight), store, plan, name)
        others = changelogs_of_others(settings, admin, [dropped.topic])
        told = _told(dropped, others.get(dropped.topic))
        if not go_ahead(manner, settings, told, done="dropped"):
            return ExitCode.OK
        repair.fence(sight)
        if not others:
            admin.delete([dropped.topic])  # before the record: see `Repair.drop`
        repair.drop(sight, dropped)
    return report(manner, settings, told)


def _told(drop: Drop, other: Neighbour | None) -> list[str]:
    told = [f"forget the store {drop.store}"]
    if other is None:
        told.append(f"delete the topic {drop.topic}, if it exists")
    else:
        told.append(f"leave the topic {drop.topic}: {other.application_id} writes it")
    if drop.claimed:
        told.append(f"start the store {drop.claimed} empty at the next start")
    if drop.beside:
        told.append(
            f"then restore {', '.join(drop.beside)} from changelogs: they live together with it"
        )
    return told


def upgrade(
    target: Target,
    /,
    *,
    store: Annotated[str | None, Parameter(name="--store", help="Only this store.")] = None,
    manner: Manner = _PLAIN,
) -> int:
    """Rewrite the rows of older versions, so that the program may leave out their upgrades.

    Otherwise each row is upgraded when it is read. The job writes changelogs, which local state
    follows at the next start. If it is interrupted, run it again. Stop the application first.

    Args:
        target: The module, and the name of the application in it.
        store: The store; by default all.
        manner: How the change is made.
    """
    from mustela.runtime.repairs.upgrading import upgrades_of

    app = load_app(target)
    if manner.bootstrap_servers is not None:
        app.configure(bootstrap_servers=manner.bootstrap_servers)
    settings, plan = app.settings, app.built_plan()
    name = settings.application_id
    with open_repair(settings) as repair:
        sight = repair.look()
        jobs, left = upgrades_of(repair.recorded(sight), plan, name, store)
        if not jobs:
            nothing = [*left, f"{name} has no rows to rewrite"]
            return report(manner, settings, left, nothing="\n".join(nothing))
        if not go_ahead(manner, settings, [*map(_job_told, jobs), *left], done="rewritten"):
            return ExitCode.OK
        repair.fence(sight)
        done: list[str] = []
        tell = done.append if manner.json else print
        repair.upgrade(sight, jobs, _reader(settings), tell)
    return report(manner, settings, done) if manner.json else ExitCode.OK


def _job_told(job: Upgrading) -> str:
    assert job.spec.row_versions is not None, job.store
    versions = ", ".join(map(str, job.versions))
    newest = job.spec.row_versions.written
    return f"rewrite rows of {job.spec.name} from version {versions} to {newest} in {job.topic}"


def _reader(settings: Settings) -> Callable[[str, int, int], Iterator[LogRow]]:
    from mustela.config.clients import client_properties
    from mustela.connectors.kafka.log import read_chunks

    properties = client_properties(settings, "consumer")

    def read(topic: str, partition: int, end: int) -> Iterator[LogRow]:
        for chunk in read_chunks(properties, topic, partition, 0, end, bare=True):
            for offset, key, row in zip(chunk.offsets, chunk.keys, chunk.values, strict=True):
                if key is not None:
                    yield offset, key, row

    return read
