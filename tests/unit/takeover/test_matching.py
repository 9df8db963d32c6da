"""Which store of an old application becomes which store of a program."""

from __future__ import annotations

import pytest

from mustela.runtime.takeover.matching import BadMapError, Match, matched, names_given
from tests.unit.takeover.test_bearers import APP

PLAN = APP.built_plan()
REFUSED = {"closed", "lately"}
NAMES = {"counts", "headed", "minutes", "sessions", "prices", "final-store"}
NAMES |= {"both-this-join-store", "both-other-join-store", "albums", "sliding"}
NAMES |= {name for name in PLAN.stores if name.startswith("either")}
LEFT = [name for name in PLAN.stores if name.startswith(("itself", "listed"))] + sorted(REFUSED)


def match(names: set[str], **more: object) -> dict[str, Match]:
    """Match stores of an old application that read visits and tracks, by their names here."""
    logs = {name: f"old-{name}-changelog" for name in names}
    options = {"maps": {}, "without": LEFT, **more}
    found = matched(PLAN, logs, ["visits", "tracks"], **options)  # type: ignore[arg-type]
    return {one.spec.name if one.spec else f"-{one.old}": one for one in found}


def test_stores_are_matched_by_name_as_kafka_streams_names_them() -> None:
    """A suppression's store has the suffix that Kafka Streams gives it."""
    found = match(NAMES)
    assert [one.old for one in found.values() if one.stops] == []
    assert found["final"].old == "final-store"
    assert found["counts"].topic == "old-counts-changelog"


def test_a_table_without_a_changelog_is_taken_from_its_topic() -> None:
    """That is Kafka Streams' optimisation: the source topic serves as the changelog."""
    found = match(NAMES)["tracks"]
    assert (found.topic, found.from_source) == ("tracks", True)
    assert not match(NAMES | {"tracks"})["tracks"].from_source


def test_a_store_of_another_name_is_guessed_and_the_fix_helps() -> None:
    """The stop names the option that ends it."""
    names = (NAMES - {"counts"}) | {"count-store"}
    stops = [stop for one in match(names).values() for stop in one.stops]
    assert len(stops) == 2
    for stop in stops:
        assert "--map count-store=counts" in stop.fix
    found = match(names, maps=names_given(["count-store=counts"]))
    assert found["counts"].topic == "old-count-store-changelog"
    assert not any(one.stops for one in found.values())


def test_a_store_that_is_left_out_stops_nothing() -> None:
    """Neither one of the old application nor one of the program."""
    names = (NAMES - {"counts"}) | {"gone"}
    assert not any(one.stops for one in match(names, without=[*LEFT, "gone", "counts"]).values())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_store_that_is_refused_is_named_with_a_way_on(name: str) -> None:
    """The fix leaves it out."""
    left = [one for one in LEFT if one != name]
    found = match(NAMES | {name}, without=left)[name]
    assert name in found.stops[0].what
    assert f"--without {name}" in found.stops[0].fix
    assert not any(one.stops for one in match(NAMES | {name}).values())


@pytest.mark.parametrize("text", ["counts", "=counts", "counts=", ""])
def test_a_map_without_two_names_is_refused_and_the_example_is_one(text: str) -> None:
    """The fix of the refusal is read."""
    with pytest.raises(BadMapError) as caught:
        names_given([text])
    assert caught.value.code == "MIGRATE_MAP"
    example = (caught.value.fix or "").rpartition("--map ")[2]
    assert names_given([example]) == {"old-counts": "counts"}


def test_a_name_that_nobody_has_is_refused_with_those_there_are() -> None:
    """In both options."""
    for options in ({"maps": {"gone": "counts"}}, {"maps": {"counts": "gone"}}):
        with pytest.raises(BadMapError) as caught:
            match(NAMES, **options)
        assert "counts" in (caught.value.fix or "")
    with pytest.raises(BadMapError) as caught:
        match(NAMES, without=["nobody"])
    assert "counts" in (caught.value.fix or "")
