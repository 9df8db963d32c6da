"""Local state that is lost, broken, old, new or another's: the answer stays right.

Each test runs an application, does something to its files, and runs it again.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mustela.connectors.kafka.log import read_last_record
from mustela.plan.keygroups import key_group
from mustela.processes import boot_id
from mustela.runtime.record.epoch_record import EPOCH_RECORD_KEY, decode_epoch_record, epochs_topic
from mustela.state.interfaces import Committed, Environment, EnvironmentSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_flat import unfold
from mustela_dev import DevelopmentBroker
from tests.faults.feed import read_all
from tests.faults.inside import Inside
from tests.faults.kinds.counting import SequenceModel, sequence, word_count
from tests.faults.kinds.kind import number
from tests.integration.kafka_rows import move_group

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

KEYS = [f"w{n}" for n in range(60)]
GROUPS = 8


class Counting:
    """A word count inside this process, and what it should have counted."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self.expected: Counter[str] = Counter()
        inside.build(word_count)

    def feed(self, times: int = 1) -> None:
        """Write every word so many times."""
        self.inside.send((f"l{n}", " ".join(KEYS)) for n in range(times))
        self.expected.update(dict.fromkeys(KEYS, times))

    def check(self) -> None:
        """The table is right, and so is each change on the way to it."""
        rows = self.inside.rows()
        last = {row.key: row.value for row in rows}
        assert last == {word.encode(): number(n) for word, n in self.expected.items()}
        by_key: dict[Any, list[int]] = {}
        for row in rows:
            by_key.setdefault(row.key, []).append(int.from_bytes(row.value or b"", "big"))
        assert all(counts == sorted(set(counts)) for counts in by_key.values())

    def files(self) -> list[Path]:
        """Return the files of rows that a clean stop left of all key groups."""
        return sorted(self.inside.state_dir.glob("*/*/[0-9]*/rows.flat"))

    def opened_files(self) -> list[Path]:
        """Return LMDB's files of all key groups, made of the files of rows as by an opening."""
        for file in self.files():
            unfold(file.parent, boot_id() or "")
            file.unlink()
        return sorted(self.inside.state_dir.glob("*/*/[0-9]*/data.mdb"))


@pytest.fixture
def counting(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Counting]:
    """A word count; its state is on disk, or on tmpfs with a copy on disk."""
    inside = Inside(broker.bootstrap_servers, spark_context, tmp_path, "counting")
    inside.settings["state"] = {"backend": getattr(request, "param", "lmdb")}
    yield Counting(inside)
    assert not list(Path("/dev/shm").glob(f"*-{inside.name}"))
    inside.close()


BOTH_BACKENDS = pytest.mark.parametrize("counting", ["lmdb", "memory"], indirect=True)


def delete(file: Path) -> None:
    shutil.rmtree(file.parent)


def truncate(file: Path) -> None:
    with file.open("r+b") as data:
        data.truncate(file.stat().st_size // 2)


def zero_pages(file: Path) -> None:
    """Zero every page but the two that describe the file."""
    with file.open("r+b") as data:
        size = file.stat().st_size
        data.seek(2 * 4096)
        data.write(bytes(max(0, size - 2 * 4096)))


def flip_bytes(file: Path) -> None:
    """Flip one bit behind each key: in the value, or in its check."""
    content = bytearray(file.read_bytes())
    for key in KEYS:
        at = content.find(key.encode())
        while at >= 0:
            content[at + len(key) + 5] ^= 0x10
            at = content.find(key.encode(), at + 1)
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "files"),
    [
        (delete, Counting.files),
        (truncate, Counting.files),
        (truncate, Counting.opened_files),
        (zero_pages, Counting.opened_files),
        (flip_bytes, Counting.opened_files),
    ],
)
def test_damaged_state_is_rebuilt_from_the_changelog(
    counting: Counting,
    damage: Callable[[Path], None],
    files: Callable[[Counting], list[Path]],
) -> None:
    """No damage to local files changes a result; what is broken is read from Kafka again."""
    counting.feed()
    counting.inside.run()
    found = files(counting)
    assert len(found) == GROUPS
    for file in found[::2]:
        damage(file)

    counting.feed()
    heard = counting.inside.run()

    counting.check()
    assert heard.restored() > 0


@BOTH_BACKENDS
def test_a_clean_stop_restores_nothing(counting: Counting) -> None:
    """State that is whole is used as it is."""
    counting.feed()
    counting.inside.run()
    counting.feed()
    heard = counting.inside.run()

    counting.check()
    assert heard.restored() == 0


@BOTH_BACKENDS
def test_state_that_is_epochs_behind_catches_up_by_the_difference(
    counting: Counting, tmp_path: Path
) -> None:
    """A copy from a backup reads what it lacks, not all of the changelog."""
    counting.feed()
    counting.inside.run()
    shutil.copytree(counting.inside.state_dir, tmp_path / "copy")
    counting.feed()
    between = counting.inside.run()
    shutil.rmtree(counting.inside.state_dir)
    shutil.copytree(tmp_path / "copy", counting.inside.state_dir)

    counting.feed()
    heard = counting.inside.run()

    counting.check()
    assert between.restored() == 0
    assert heard.restored() == len(KEYS) * len(between.epochs)


@BOTH_BACKENDS
def test_state_ahead_of_the_epochs_topic_is_a_named_stop(counting: Counting) -> None:
    """Where the epochs topic was set back, nothing is guessed."""
    inside = counting.inside
    counting.feed()
    inside.run()
    old = read_last_record({"bootstrap.servers": inside.servers}, epochs_topic(inside.name))
    assert old is not None
    assert old.value is not None
    counting.feed()
    inside.run()
    ends = {(p.topic, p.partition): p.end for p in decode_epoch_record(old.value).partitions}
    inside.produce(epochs_topic(inside.name), EPOCH_RECORD_KEY, old.value)
    move_group(inside.admin, inside.name, ends)
    before = len(inside.rows())

    error = inside.fail()

    assert error.code == "STATE_AHEAD"
    assert len(inside.rows()) == before


@BOTH_BACKENDS
def test_state_of_another_application_is_not_used(
    counting: Counting, broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Files that belong to another application are thrown away, whatever they say."""
    counting.feed()
    counting.inside.run()
    other = Counting(
        Inside(broker.bootstrap_servers, spark_context, tmp_path / "other", "counting")
    )
    other.feed(3)
    other.inside.run()
    mine, theirs = counting.inside, other.inside
    assert len(counting.files()) == GROUPS
    shutil.rmtree(mine.state_dir / mine.name)
    shutil.copytree(theirs.state_dir / theirs.name, mine.state_dir / mine.name)

    counting.feed()
    heard = mine.run()
    theirs.close()

    counting.check()
    assert heard.restored() > 0


def test_state_that_is_deleted_while_the_application_runs_costs_an_epoch(
    counting: Counting,
) -> None:
    """Somebody clears the disk: it is read again from Kafka, and nothing is missing."""
    inside = counting.inside
    app, heard = inside.app()
    with app:
        for _ in range(3):
            counting.feed()
            inside.await_caught_up(app)
            shutil.rmtree(inside.state_dir / inside.name)
        counting.feed()
        inside.await_caught_up(app)
    assert heard.restored() >= 3 * len(KEYS)
    counting.check()


def environments(inside: Inside, boot: str) -> list[tuple[LmdbEnvironment, Committed]]:
    """Open the application's environments as another process of it would, and say what they hold.

    Call it while no run of the application is up.
    """
    app, _ = inside.app()
    stage = next(stage for stage in app.built_plan().stages if stage.stores)
    last = read_last_record({"bootstrap.servers": inside.servers}, epochs_topic(inside.name))
    assert last is not None
    record = decode_epoch_record(last.value or b"")
    found: list[tuple[LmdbEnvironment, Committed]] = []
    for group, state in enumerate(record.groups[stage.identity]):
        spec = EnvironmentSpec(
            application_id=inside.name,
            cluster_id=inside.admin.cluster_id(),
            stage=stage.identity,
            group=group,
            groups=record.key_groups,
            stores=stage.stores,
            life=record.life,
            changelog_ids={name: record.stores[name].changelog_id for name in stage.logged},
        )
        assert state is not None
        committed = Committed(
            token=Token(state.incarnation, state.epoch, state.attempt),
            changelog_ends={name: ends[group] for name, ends in record.changelog_ends.items()},
            time_ms=state.time_ms,
        )
        found.append((LmdbEnvironment(inside.state_dir, spec, boot=boot), committed))
    return found


def test_state_that_another_boot_left_open_is_rebuilt(counting: Counting) -> None:
    """After a crash of the machine nobody knows what reached the disk."""
    counting.feed()
    counting.inside.run()
    for environment, committed in environments(counting.inside, "another boot"):
        _touch(environment, committed)
        environment.close(clean=False)

    counting.feed()
    heard = counting.inside.run()

    counting.check()
    assert heard.restored() == len(KEYS)


def _touch(environment: Environment, committed: Committed) -> None:
    """Write as little as can be written."""
    environment.fold(committed)


def test_an_abandoned_pending_is_void_when_its_epoch_number_comes_again(
    counting: Counting, boot: str
) -> None:
    """A crash leaves the pending of an epoch that never was; the next epoch has its number."""
    inside = counting.inside
    counting.feed()
    inside.run()
    for environment, committed in environments(inside, boot):
        assert committed.token is not None
        last = committed.token
        void = Token(last.incarnation, last.epoch + 1, 0)
        keys = [k.encode() for k in KEYS if key_group(k.encode(), GROUPS) == environment.spec.group]
        environment.write_pending(void, committed, {"counts": [(key, b"void") for key in keys]})
        environment.close(clean=False)

    counting.feed()
    heard = inside.run()

    counting.check()
    assert heard.restored() == 0


@pytest.fixture
def boot() -> str:
    from mustela.processes import boot_id

    return boot_id()


def test_any_number_of_lanes_gives_the_same_and_restores_nothing(
    broker: DevelopmentBroker, spark_context: Any, tmp_path: Path
) -> None:
    """Lanes come and go over restarts; key groups stay, and so do results."""
    inside = Inside(broker.bootstrap_servers, spark_context, tmp_path, "lanes")
    inside.build(sequence)
    numbers = iter(range(10_000))
    for lanes in (1, 2, 3, 8, 1):
        inside.send((f"k{n % 50}", f"n{n}") for n, _ in zip(numbers, range(400), strict=False))
        heard = inside.run(lanes=lanes, epoch={"max_records": 150})
        assert heard.restored() == 0
        assert len(heard.epochs) > 1

    model = SequenceModel()
    inputs = read_all(inside.servers, inside.input, 2)
    model.take([row for rows in inputs.values() for row in rows])
    assert inside.table() == {key: chain.encode() for key, chain in model.chains.items()}
    inside.close()


def test_a_restore_says_how_far_it_is(counting: Counting) -> None:
    """All keys come back from the changelog, and progress only grows."""
    inside = counting.inside
    keys = [f"key{n}" for n in range(3_000)]
    inside.send((str(n), " ".join(keys[n : n + 100])) for n in range(0, len(keys), 100))
    inside.run()
    rows = len(inside.rows())
    shutil.rmtree(inside.state_dir)

    heard = inside.run()

    done = [event.done for event in heard.restores]
    records = [sum(event.records.values()) for event in heard.restores]
    assert done == sorted(done)
    assert records == sorted(records)
    assert heard.restores[-1].done == heard.restores[-1].groups == GROUPS
    assert heard.restored() == rows >= len(keys)
