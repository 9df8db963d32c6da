"""A new release waits beside the old one, takes over, gives back, and is released in the end."""

from __future__ import annotations

from typing import Any

import pytest

from mustela import App, Materialized, StreamsBuilder
from mustela.runtime.events import AppState
from mustela.runtime.switching import NoStandbyError
from mustela.serdes.row_versions import version_of
from mustela.stores import Upgrade
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.broker_fixture", "tests.spark_fixture", "tests.integration.app_fixture"]


def totals(source: str, sink: str, version: int) -> Any:
    """Sums, which are whole numbers first and texts of them in version 2."""
    value: Any = (int, str)[version - 1]
    upgrade = Upgrade(value=int, by=str, back=int) if version == 2 else None

    def build(builder: StreamsBuilder) -> None:
        kept: Materialized[str, Any] = Materialized(
            store="totals", value=value, version=version, upgrade=upgrade
        )
        lines = builder.stream(source, key=str, value=str).group_by_key()
        sums = lines.aggregate(
            lambda: value(0), lambda _, text, sum: value(int(sum) + int(text)), materialized=kept
        )
        sums.to_stream(name="told").map_values(str, name="texts").to(sink, key=str, value=str)

    return build


def test_a_release_that_holds_its_format_can_be_switched_back_until_it_is_released(
    world: World,
) -> None:
    """Each release counts on from the other one's sums; the old one is refused in the end."""
    source, sink = world.topic("in"), world.topic("out")
    sums: list[int] = []

    def instance(version: int, place: str, **settings: Any) -> App:
        app, _ = world.app(
            totals(source, sink, version),
            standby=True,
            state_dir=world.directory / place,
            **settings,
        )
        app.start()
        return app

    def count() -> None:
        sums.append(sum(range(len(sums) + 2)))
        world.send(source, [("k", str(len(sums)))])
        world.until(lambda: world.values(sink)[-1:] == [str(sums[-1])], "it is counted")

    def versions() -> list[int]:
        rows = world.rows(f"{world.name}-totals-changelog")
        return [version_of((row.value or b"")[8:]) for row in rows]

    def switch(old: App, new: App) -> None:
        def asked() -> bool:
            try:
                old.hand_over()
            except NoStandbyError:
                return False
            return True

        world.until(lambda: new.state is AppState.STANDBY, "the other one waits", new)
        world.until(asked, "the other one is ready", new)
        world.until(lambda: new.state is AppState.RUNNING, "the other one runs", new)
        count()

    old = instance(1, "old")
    world.until(lambda: old.state is AppState.RUNNING, "the old release runs", old)
    count()
    new = instance(2, "new", hold_format=True)
    switch(old, new)
    assert new.store("totals").get("k") == str(sums[-1])
    switch(new, old)
    new.close()
    assert new.error is None
    assert set(versions()) == {1}
    released = instance(2, "released")
    switch(old, released)
    old.close()
    assert versions()[-1] == 2
    late = instance(1, "new")
    world.until(lambda: late.state.ended, "the old release is refused")
    assert getattr(late.error, "code", None) == "STORE_VERSION_FALLEN"
    assert released.state is AppState.RUNNING
    count()
