"""Faults around a running application: its instances, its offsets, its rows, its broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest

from mustela import App, StreamsBuilder
from mustela.connectors.kafka.errors import TransactionFenced
from mustela.connectors.kafka.transaction import TransactionalSink, TransactionOptions
from mustela.errors import DataError, EnvironmentFault, MustelaError
from mustela.runtime.events import AppState
from mustela_dev import BrokerOptions, DevelopmentBroker
from tests.broker_fixture import HEAP_MB, PROPERTIES
from tests.faults.feed import read_all
from tests.faults.inside import Inside, await_condition
from tests.faults.kinds.counting import word_count
from tests.faults.kinds.kind import number
from tests.faults.spark_workers import kill_workers
from tests.integration.kafka_proxy import END_TXN, KafkaProxy
from tests.integration.kafka_rows import move_group
from tests.patience import PATIENCE_S, SOON

pytest_plugins = ["tests.integration.app_fixture"]
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

HOUR_MS = 3_600_000


def feed(inside: Inside, times: int = 1) -> None:
    inside.send((f"l{n}", "ant bee cat") for n in range(times))


def counts(times: int) -> dict[bytes | None, bytes | None]:
    return {word.encode(): number(times) for word in ("ant", "bee", "cat")}


def changes(inside: Inside) -> list[int]:
    """Return the changes of one count; with no epoch lost or repeated they only grow."""
    return [int.from_bytes(row.value or b"", "big") for row in inside.rows() if row.key == b"ant"]


# -- instances -------------------------------------------------------------------------------------


def test_a_second_instance_takes_over_and_the_first_says_that_it_was_fenced(
    inside: Inside,
) -> None:
    """The newer instance goes on; the older one ends with a code of its own, and writes nothing."""
    inside.build(word_count)
    older, _ = inside.app()
    older.start()
    feed(inside, 5)
    inside.await_caught_up(older)

    newer, _ = inside.app()
    with newer:
        assert newer.wait_until(AppState.RUNNING, SOON)
        feed(inside, 5)
        assert older.wait(SOON)
        inside.await_caught_up(newer)

    assert isinstance(older.error, MustelaError)
    assert older.error.code == "FENCED"
    assert newer.error is None
    assert inside.table() == counts(10)
    assert changes(inside) == sorted(set(changes(inside)))


def test_two_instances_that_restart_each_other_still_make_progress(inside: Inside) -> None:
    """A supervisor that restarts both makes each fence the other; epochs go on all the same."""
    inside.build(word_count)
    feed(inside)
    runs: list[App] = []
    for _ in range(6):
        app, _ = inside.app()
        app.start()
        assert app.wait_until(AppState.RUNNING, SOON)
        runs.append(app)
        feed(inside)
    inside.await_caught_up(runs[-1])
    for app in runs[:-1]:  # each has seen that there is something to commit
        assert app.wait(SOON)
    runs[-1].close()

    ends: list[Any] = [app.error for app in runs[:-1]]
    codes = {getattr(error, "code", None) for error in ends}
    assert None not in ends
    assert codes == {"FENCED"}, "\n".join(line for end in ends for line in format_exception(end))
    assert runs[-1].error is None
    assert inside.table() == counts(7)


def test_a_producer_that_fences_and_never_claims_ends_nobody(
    inside: Inside, broker: DevelopmentBroker
) -> None:
    """An instance that ends before its first transaction has not taken over: the older goes on."""
    inside.build(word_count)
    app, heard = inside.app()
    with app:
        feed(inside, 3)
        inside.await_caught_up(app)
        intruder = TransactionalSink(
            {"bootstrap.servers": broker.bootstrap_servers}, app.settings.application_id
        )
        intruder.open()
        feed(inside, 4)
        inside.await_caught_up(app)
        intruder.close()

    assert any(isinstance(error, TransactionFenced) for error in heard.errors)
    assert inside.table() == counts(7)
    assert changes(inside) == sorted(set(changes(inside)))


def test_a_start_is_not_held_up_by_what_a_killed_instance_left_open(
    inside: Inside, broker: DevelopmentBroker
) -> None:
    """Kafka would end its transaction only after minutes; the start fences it, and goes on."""
    inside.build(word_count)
    feed(inside, 3)
    inside.run()
    killed = TransactionalSink(
        {"bootstrap.servers": broker.bootstrap_servers},
        inside.name,
        options=TransactionOptions(commit_timeout=600.0),
    )
    killed.open()
    killed.begin()
    killed.produce_columns(f"{inside.name}.out", [b"ant"], [number(99)])
    killed.send_offsets({(inside.input, 0): 99})
    killed.flush()
    feed(inside, 4)
    heard = inside.run(commit_timeout="600s")
    killed.close()

    assert not heard.errors
    assert inside.table() == counts(7)
    assert changes(inside) == sorted(set(changes(inside)))


# -- workers ---------------------------------------------------------------------------------------


def test_a_python_worker_that_is_killed_costs_an_attempt_and_nothing_else(
    inside: Inside,
) -> None:
    """The epoch is run again whole; no row is lost or doubled."""
    inside.build(word_count)
    app, heard = inside.app()
    killed = 0
    sent = 0
    with app:
        for _ in range(5):
            feed(inside, 3)
            sent += 3
            inside.await_caught_up(app)
            killed += kill_workers()
        feed(inside)
        inside.await_caught_up(app)

    assert killed
    assert inside.table() == counts(sent + 1)
    assert changes(inside) == sorted(set(changes(inside)))
    assert heard.restored() == 0


# -- offsets ---------------------------------------------------------------------------------------


def test_group_offsets_that_a_tool_has_reset_are_a_named_stop(inside: Inside) -> None:
    """The group only mirrors the epoch record; who moves it must say what is meant."""
    inside.build(word_count)
    feed(inside, 5)
    inside.run()
    move_group(inside.admin, inside.name, {(inside.input, 0): 0, (inside.input, 1): 0})

    error = inside.fail()

    assert error.code == "OFFSETS_MOVED"
    assert inside.table() == counts(5)


def test_group_offsets_that_have_expired_change_nothing(inside: Inside) -> None:
    """A group without members is forgotten after a week; the epoch record is not."""
    inside.build(word_count)
    feed(inside, 5)
    inside.run()
    inside.admin.delete_group(inside.name)
    feed(inside, 5)
    inside.run()

    assert inside.table() == counts(10)
    assert changes(inside) == sorted(set(changes(inside)))


# -- rows that the broker refuses ------------------------------------------------------------------


def copy(builder: StreamsBuilder, prefix: str) -> None:
    """Write every record to a topic that does not take all of them."""
    builder.stream(f"{prefix}.in", key=str, value=str).to(f"{prefix}.picky", key=str, value=str)


def too_large(inside: Inside) -> None:
    inside.create("picky", max_message_bytes="2000")
    inside.send([("a", "fine"), ("b", "x" * 5000), ("c", "fine"), ("d", "y" * 5000)])


def too_far_ahead(inside: Inside) -> None:
    inside.create("picky")
    inside.admin.delete([inside.input])
    inside.create("in", message_timestamp_after_max_ms=str(2**62))
    inside.send([("a", "fine"), ("c", "fine")])
    inside.send([("b", "late"), ("d", "late")], timestamp=int(time.time() * 1000) + 24 * HOUR_MS)


def without_key(inside: Inside) -> None:
    inside.create("picky", cleanup_policy="compact")
    inside.send([("a", "fine"), (None, "no key"), ("c", "fine"), (None, "nor here")])


PICKY = pytest.mark.parametrize("prepare", [too_large, too_far_ahead, without_key])


@PICKY
def test_a_refused_row_stops_the_application_and_nothing_of_its_epoch_is_seen(
    inside: Inside, prepare: Any
) -> None:
    """By default a row that the broker does not take is an error that names it."""
    prepare(inside)
    inside.build(copy)

    error = inside.fail()

    assert error.code == "PRODUCTION"
    assert isinstance(error, DataError)
    assert f"{inside.name}.picky" in str(error)
    assert inside.rows("picky") == []


@PICKY
def test_refused_rows_can_be_left_out(inside: Inside, prepare: Any) -> None:
    """With ``continue`` the other rows of the epoch are committed."""
    prepare(inside)
    inside.build(copy)
    inside.run(production_handler="continue")

    assert sorted(row.key or b"" for row in inside.rows("picky")) == [b"a", b"c"]


@PICKY
def test_refused_rows_can_go_to_the_dead_letters(inside: Inside, prepare: Any) -> None:
    """With ``dead_letter`` they go there with their own bytes, once."""
    prepare(inside)
    inside.build(copy)
    inside.run(production_handler="dead_letter")

    letters = read_all(inside.servers, f"{inside.name}-dead-letters", 2)
    inputs = read_all(inside.servers, inside.input, 2)
    good = {row.key for row in inside.rows("picky")}
    assert good == {b"a", b"c"}
    assert sorted(row.value or b"" for rows in letters.values() for row in rows) == sorted(
        row.value or b"" for rows in inputs.values() for row in rows if row.key not in good
    )


# -- user code -------------------------------------------------------------------------------------


def explode(value: str) -> str:
    """Fail on one value."""
    if value == "bomb":
        raise ValueError("this one explodes")
    return value


def exploding(builder: StreamsBuilder, prefix: str) -> None:
    stream = builder.stream(f"{prefix}.in", key=str, value=str)
    stream.map_values(explode, name="careful").to(f"{prefix}.out", key=str, value=str)


def test_a_function_that_raises_ends_its_epoch_and_says_where(inside: Inside) -> None:
    """The error names step, line, topic, partition, offset and key; the epoch is invisible."""
    inside.build(exploding)
    inside.send([("k", "fine"), ("k", "bomb"), ("k", "fine")])

    error = inside.fail()

    inputs = read_all(inside.servers, inside.input, 2)
    (place,) = [row for rows in inputs.values() for row in rows if row.value == b"bomb"]
    text = str(error)
    assert error.code == "PROCESSING"
    assert "careful" in text
    assert "test_recovery_faults.py" in text
    assert 'raise ValueError("this one explodes")' in text
    assert (error.fields["topic"], error.fields["partition"], error.fields["offset"]) == (
        inside.input,
        place.partition,
        place.offset,
    )
    assert "'k'" in text
    assert inside.rows() == []


# -- the broker ------------------------------------------------------------------------------------


def test_a_broker_that_restarts_is_waited_for(
    fresh_broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """An application outlives its broker's restart and loses nothing."""
    inside = Inside(fresh_broker.bootstrap_servers, spark_context, tmp_path, "restart")
    inside.build(word_count)
    app, heard = inside.app(commit_timeout="180s")
    with app:
        feed(inside, 3)
        inside.await_caught_up(app)
        fresh_broker.kill()
        await_condition(lambda: bool(heard.errors), app)
        fresh_broker.start()
        feed(inside, 3)
        inside.await_caught_up(app)
    assert inside.table() == counts(6)
    inside.close()


def test_a_broker_that_is_killed_under_load_costs_no_row(
    fresh_broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Whatever an epoch was doing when the broker went, it is done once when it is back."""
    inside = Inside(fresh_broker.bootstrap_servers, spark_context, tmp_path, "load")
    inside.build(word_count)
    app, heard = inside.app(commit_timeout="180s", epoch={"max_records": 50})
    with app:
        sent = 0
        for _ in range(3):
            epochs = len(heard.epochs)
            feed(inside, 500)
            sent += 500
            await_condition(lambda: len(heard.epochs) > epochs + 1, app)  # noqa: B023 - called here
            fresh_broker.kill()
            fresh_broker.start()
        inside.await_caught_up(app)
    assert inside.table() == counts(sent)
    assert changes(inside) == sorted(set(changes(inside)))
    inside.close()


def test_a_broker_that_is_gone_ends_the_application_within_limits(
    fresh_broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """After the commit timeout the application gives up, and says that the broker is gone."""
    inside = Inside(fresh_broker.bootstrap_servers, spark_context, tmp_path, "gone")
    inside.build(word_count)
    app, _ = inside.app(commit_timeout="8s")
    app.start()
    feed(inside, 3)
    inside.await_caught_up(app)
    fresh_broker.kill()
    assert app.wait(SOON), "it goes on without a broker"
    assert isinstance(app.error, EnvironmentFault)
    assert app.error.retryable or "broker" in str(app.error).lower()
    inside.close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[KafkaProxy]:
    """A proxy in front of a broker that advertises it."""
    made = KafkaProxy()
    listener = f"PLAINTEXT://127.0.0.1:{made.port}"
    broker = DevelopmentBroker(
        tmp_path / "broker",
        heap_mb=HEAP_MB,
        properties={**PROPERTIES, "advertised.listeners": listener},
        options=BrokerOptions(fast_start=True),
    )
    try:
        broker.start()
        made.target = broker.port
        yield made
    finally:
        made.close()
        broker.kill()


def test_a_commit_whose_answer_is_lost_counts_once(
    proxy: KafkaProxy, spark_context: Any, tmp_path: Path
) -> None:
    """The epoch record says whether the commit was; nothing is sent twice or forgotten."""
    inside = Inside(f"127.0.0.1:{proxy.port}", spark_context, tmp_path, "lost-answer")
    inside.build(word_count)
    app, heard = inside.app(commit_timeout="8s")
    with app:
        feed(inside, 3)
        inside.await_caught_up(app)
        proxy.drop_answers(END_TXN)
        feed(inside, 3)
        assert proxy.seen.wait(PATIENCE_S)
        await_condition(lambda: bool(heard.errors), app)
        proxy.mend()
        feed(inside, 3)
        inside.await_caught_up(app)
    assert inside.table() == counts(9)
    assert changes(inside) == sorted(set(changes(inside)))
    inside.close()


def test_a_commit_whose_answer_comes_late_counts_once(
    proxy: KafkaProxy, spark_context: Any, tmp_path: Path
) -> None:
    """An answer that comes when the next producer is already there changes nothing."""
    inside = Inside(f"127.0.0.1:{proxy.port}", spark_context, tmp_path, "late-answer")
    inside.build(word_count)
    app, heard = inside.app(commit_timeout="8s")
    with app:
        feed(inside, 3)
        inside.await_caught_up(app)
        proxy.hold_answers(END_TXN)
        feed(inside, 3)
        assert proxy.held.wait(PATIENCE_S)
        await_condition(lambda: bool(heard.errors), app)
        proxy.release()
        feed(inside, 3)
        inside.await_caught_up(app)
    assert inside.table() == counts(9)
    assert changes(inside) == sorted(set(changes(inside)))
    inside.close()


# -- two faults at once ----------------------------------------------------------------------------


def test_a_killed_worker_while_state_is_broken_still_gives_the_right_counts(
    inside: Inside,
) -> None:
    """The state that is rebuilt and the epoch that is run again do not mix."""
    inside.build(word_count)
    feed(inside, 2)
    inside.run()
    for file in inside.state_dir.glob("*/*/[0-9]*/rows.flat"):
        file.write_bytes(b"\0" * file.stat().st_size)
    app, heard = inside.app()
    with app:
        assert app.wait_until(AppState.RUNNING, SOON)
        kill_workers()
        feed(inside, 2)
        inside.await_caught_up(app)
    assert heard.restored() > 0
    assert inside.table() == counts(4)
    assert changes(inside) == sorted(set(changes(inside)))


# -- state that does not fit -----------------------------------------------------------------------


def test_changelogs_without_an_epoch_record_are_a_named_stop(inside: Inside) -> None:
    """Where the epochs topic is gone, nobody knows how far the state goes."""
    inside.build(word_count)
    feed(inside)
    inside.run()
    inside.admin.delete([f"{inside.name}-epochs"])

    error = inside.fail()

    assert error.code == "STATE_WITHOUT_RECORD"


def test_another_number_of_key_groups_is_a_named_stop(inside: Inside) -> None:
    """The number of key groups decides where each key's state is."""
    inside.build(word_count)
    feed(inside)
    inside.run()

    error = inside.fail(key_groups=16)

    assert error.code in {"KEY_GROUPS_CHANGED", "TOPIC_INTERNAL_DIFFERS"}


def test_a_source_topic_that_was_made_anew_is_a_named_stop(inside: Inside) -> None:
    """Its offsets mean other records now."""
    inside.build(word_count)
    feed(inside)
    inside.run()
    inside.admin.delete([inside.input])
    inside.create("in")

    assert inside.fail().code == "SOURCE_TOPIC_RECREATED"
