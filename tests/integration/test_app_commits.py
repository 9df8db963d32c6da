"""What an application commits: offsets, epochs, headers; and what it does not."""

from __future__ import annotations

import time

import pytest

from mustela import StreamsBuilder
from mustela.model import TopicPartition
from mustela.runtime.events import AppState
from mustela_dev.broker.tools import run_tool
from tests.integration.app_world import World

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]


def counting(source: str, sink: str):
    """Count the records of each key."""

    def build(builder: StreamsBuilder) -> None:
        counted = builder.stream(source, key=str, value=str).group_by_key().count(store="counts")
        counted.to_stream().to(sink, key=str, value=int)

    return build


def test_kafkas_own_tool_shows_the_right_lag(world: World) -> None:
    """Group offsets are mirrored in the transaction; what came after the stop is the lag."""
    source, sink = world.topic("in", 2), world.topic("out")
    for partition in range(2):
        world.send(source, [("k", "v")] * 10, partition=partition)
    world.run(counting(source, sink))
    world.send(source, [("k", "v")] * 7, partition=1)
    arguments = ["--bootstrap-server", world.broker.bootstrap_servers, "--describe", "--group"]
    told = run_tool("kafka-consumer-groups", [*arguments, world.name])
    lines = [line.split() for line in told.splitlines() if source in line]
    shown = {
        int(line[2]): (int(line[3]), int(line[4]), int(line[5])) for line in lines
    }  # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG
    assert shown == {0: (10, 10, 0), 1: (10, 17, 7)}


def test_output_rows_carry_their_epoch_and_epochs_hold_their_offsets(world: World) -> None:
    """For every epoch the changes of the counts are the records between its offsets."""
    source, sink = world.topic("in"), world.topic("out")
    app, _ = world.app(counting(source, sink))
    with app:
        for size in (3, 40, 5):
            world.send(source, [("k", "v")] * size)
            world.drain(app)
    ends: dict[int, int] = {}
    for row in world.rows(sink):
        epoch = int(row.headers["mustela.epoch"] or b"")
        assert epoch not in ends
        ends[epoch] = int.from_bytes(row.value or b"", "big")
    records = {record.epoch: record for record in world.records() if record.epoch}
    assert ends == {
        epoch: record.partitions[0].end for epoch, record in records.items() if epoch in ends
    }
    assert max(ends.values()) == 48
    assert sorted(records) == list(range(1, len(records) + 1))


def test_an_idle_application_commits_nothing(world: World) -> None:
    """No epoch record, no offset, no transaction: the epochs topic does not grow."""
    source, sink = world.topic("in"), world.topic("out")
    app, watcher = world.app(counting(source, sink))
    epochs = TopicPartition(f"{world.name}-epochs", 0)
    with app:
        world.send(source, [("k", "v")])
        world.drain(app)
        world.rows(epochs.topic)  # with the mark of the commit
        before = world.admin.end_offsets([epochs])
        world.rest(app)
        assert world.admin.end_offsets([epochs]) == before
    assert len(watcher.epochs) == 1
    assert world.admin.end_offsets([epochs]) == before


def test_a_restart_goes_on_with_any_number_of_lanes_and_reads_no_changelog(world: World) -> None:
    """State belongs to key groups, never to lanes; a clean stop or not, nothing is restored."""
    source, sink = world.topic("in", 2), world.topic("out")
    for number, lanes in enumerate((1, 3, 2, 8), start=1):
        world.send(source, [(f"k{n}", "v") for n in range(40)], partition=number % 2)
        watcher = world.run(counting(source, sink), lanes=lanes)
        assert world.numbers(sink) == {f"k{n}": number for n in range(40)}
        restored = [r.restored for epoch in watcher.epochs for r in epoch.reports if r.restored]
        assert not restored
        assert {r.task for e in watcher.epochs for r in e.reports if r.stage} == set(range(lanes))
    incarnations = [record.incarnation for record in world.records()]
    assert incarnations == sorted(incarnations)
    assert set(incarnations) == {1, 2, 3, 4}


def test_state_that_was_deleted_is_read_back_from_the_changelog(world: World) -> None:
    """Up to the last epoch, key group by key group."""
    import shutil

    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [(f"k{n}", "v") for n in range(50)])
    world.run(counting(source, sink))
    shutil.rmtree(world.directory / "state")
    world.send(source, [(f"k{n}", "v") for n in range(50)])
    world.run(counting(source, sink))
    assert world.numbers(sink) == {f"k{n}": 2 for n in range(50)}


def test_order_behind_a_second_keying_does_not_depend_on_lanes(world: World) -> None:
    """The words of a line are changes of equal order: the key groups they leave tell them apart."""
    lines = world.topic("lines")
    text = [" ".join(f"w{(n * 7 + k) % 11}" for k in range(5)) for n in range(40)]
    world.send(lines, [(None, line, 1_000 + n) for n, line in enumerate(text)])
    chains = [_chain_of_counts(world, lines, lanes) for lanes in (1, 2, 4)]
    assert chains[0] == chains[1] == chains[2]
    assert len(chains[0]) == 200
    for word in {word for line in text for word in line.split()}:
        counts = [change.split("=")[1] for change in chains[0] if change.startswith(f"{word}=")]
        assert counts == [f"{n}" for n in range(1, len(counts) + 1)]


def _chain_of_counts(world: World, lines: str, lanes: int) -> list[str]:
    """Count words, and put every change of every count behind the others."""
    sink = world.topic(f"out-{lanes}")

    def build(builder: StreamsBuilder) -> None:
        words = builder.stream(lines, key=str, value=str).flat_map_values(str.split)
        counts = words.group_by(lambda _key, word: word, key=str).count(store="counts")
        told = counts.to_stream().map(lambda word, count: ("all", f"{word}={count}"), name="told")
        chain = told.group_by_key(key=str, value=str)
        chained = chain.reduce(lambda so_far, new: f"{so_far} {new}", store="chain")
        chained.to_stream().to(sink, key=str, value=str)

    world.run(build, lanes=lanes, emit="every", application_id=f"{world.name}-{lanes}")
    return world.values(sink)[-1].split()


@pytest.mark.parametrize(("emit", "several"), [("every", True), ("barrier", False)])
def test_a_table_forwards_every_update_or_one_for_each_key_and_epoch(
    world: World, emit: str, several: bool
) -> None:
    """As Kafka Streams with its cache off, or on."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", "v")] * 50)
    watcher = world.run(counting(source, sink), emit=emit)
    numbers = [int.from_bytes(row.value or b"", "big") for row in world.rows(sink)]
    assert numbers[-1] == 50
    if several:
        assert numbers == list(range(1, 51))
    else:
        assert len(numbers) == len(watcher.epochs)


def test_at_least_once_sends_rows_outside_of_the_transaction(world: World) -> None:
    """Counts and offsets stay in it; rows carry the epoch's header all the same."""
    source, sink, copies = world.topic("in", 2), world.topic("out"), world.topic("copies")
    for partition in range(2):
        rows = [(f"k{n % 5}", f"v{partition}-{n}") for n in range(100)]
        world.send(source, rows, partition=partition)

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream(source, key=str, value=str)
        stream.to(copies, key=str, value=str)
        stream.group_by_key().count(store="counts").to_stream().to(sink, key=str, value=int)

    world.run(build, processing_guarantee="at_least_once")
    world.send(source, [("k0", "v")] * 5)
    world.run(build, processing_guarantee="at_least_once")
    assert world.numbers(sink) == {"k0": 45, **{f"k{n}": 40 for n in range(1, 5)}}
    assert len(world.values(copies)) == 205
    assert all(row.headers["mustela.epoch"] for row in [*world.rows(copies), *world.rows(sink)])


def test_at_least_once_keeps_the_order_of_a_partition_that_tasks_could_share(
    world: World,
) -> None:
    """Tasks send rows by themselves: two for one partition would not wait for each other."""
    source, sink = world.topic("in"), world.topic("out")
    world.send(source, [("k", str(number)) for number in range(60_000)])

    def slow_at_first(value: str) -> str:
        if int(value) % 10_000 == 0:
            time.sleep(1)  # a second task would have sent all of its rows by then
        return value

    def build(builder: StreamsBuilder) -> None:
        builder.stream(source, key=str, value=str).map_values(slow_at_first).to(
            sink, key=str, value=str
        )

    world.run(build, processing_guarantee="at_least_once")
    assert [int(value) for value in world.values(sink)] == list(range(60_000))


def test_an_instance_without_anything_to_commit_notices_that_it_was_replaced(world: World) -> None:
    """Kafka tells only who commits: it looks for a claim itself, and leaves nothing to wait for."""
    source, sink = world.topic("in"), world.topic("out")
    first, _ = world.app(counting(source, sink), **{"topics.refresh": "1 s"})
    first.start()
    world.send(source, [("k", "v")] * 10)
    world.drain(first)
    second, _ = world.app(counting(source, sink))
    second.start()
    world.until(lambda: first.state.ended, "the first instance ends")
    assert getattr(first.error, "code", "") == "FENCED"
    world.drain(second)
    second.close()
    assert second.error is None


def test_a_second_instance_takes_over_and_the_first_one_says_so(world: World) -> None:
    """One application is one transaction at a time; nothing is counted twice."""
    source, sink = world.topic("in"), world.topic("out")
    first, _ = world.app(counting(source, sink))
    first.start()
    world.send(source, [("k", "v")] * 10)
    world.drain(first)
    second, _ = world.app(counting(source, sink))
    second.start()
    world.drain(second)
    world.send(source, [("k", "v")] * 10)
    world.until(lambda: first.state.ended, "the first instance ends")
    assert first.state is AppState.FAILED
    assert getattr(first.error, "code", "") == "FENCED"
    world.drain(second)
    second.close()
    assert second.error is None
    assert world.numbers(sink) == {"k": 20}


def test_a_backlog_is_read_in_epochs_of_bounded_size(world: World) -> None:
    """By records; each epoch is a commit of its own."""
    source, sink = world.topic("in", 2), world.topic("out")
    for partition in range(2):
        world.send(source, [(f"k{n % 3}", "v" * 20) for n in range(3_000)], partition=partition)
    watcher = world.run(counting(source, sink), epoch={"max_records": 1_500})
    assert max(epoch.records for epoch in watcher.epochs) <= 1_500
    assert len(watcher.epochs) >= 4
    assert watcher.epochs[-1].lag == 0
    assert sum(world.numbers(sink).values()) == 6_000
