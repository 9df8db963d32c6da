"""What the fault tests expect of an epoch is what the test driver writes in it.

The models of `tests.faults.kinds` judge applications that are killed. Here each is held to the
kernel without a broker: random records, random epochs, crashes between them.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from mustela import StreamsBuilder, TopologyTestDriver
from mustela.compiled import form
from mustela.runtime.record.epoch_record import EpochRecord
from tests.faults.bugs import BUGS, planted
from tests.faults.kinds import chains, joins, tables, windows
from tests.faults.kinds.kind import Changes, KeyValue, Kind, Wanted
from tests.faults.oracle import compare, compare_repeated, is_repeated
from tests.faults.watch import Row

KINDS: dict[str, Kind] = {**joins.KINDS, **tables.KINDS, **windows.KINDS, **chains.KINDS}
RECORDS = 800
EPOCH_MAX = 60
SETTINGS = {"event_time": "watermark", "emit": "barrier", "idleness": "10m"}


def record_of(watermark: int | None) -> EpochRecord:
    """Return what a model asks an epoch record for."""
    return EpochRecord(
        incarnation=1,
        epoch=1,
        attempt=0,
        time_ms=0,
        partitions=[],
        topic_ids={},
        groups={},
        changelog_ends={},
        watermark=-1 if watermark is None else watermark,
        key_groups=4,
        lanes=2,
        fingerprint="",
        state_format=1,
    )


class Run:
    """An application in the test driver, and its model."""

    def __init__(self, kind: Kind, driver: TopologyTestDriver, seed: int) -> None:
        assert kind.model is not None
        self._kind, self._driver, self._model = kind, driver, kind.model()
        self.random = random.Random(seed)
        self._fed = iter(range(RECORDS))
        self._offsets: Counter[str] = Counter()
        self.rows = 0
        self._inputs = {
            short: driver.create_input_topic(f"p.{short}")
            for short in (*kind.inputs, *kind.global_inputs)
        }
        self._outputs = {
            short: driver.create_output_topic(
                "test-dead-letters" if short == "dead-letters" else f"p.{short}",
                key=bytes,
                value=bytes,
            )
            for short in kind.outputs
        }

    def epoch(self) -> list[str] | None:
        """Feed and run one epoch; return what is wrong, or None where nothing is left."""
        rows: list[Row] = []
        for number, _ in zip(self._fed, range(self.random.randrange(1, EPOCH_MAX)), strict=False):
            sent = self._kind.make(self.random, number)
            offset = self._offsets[sent.topic]
            self._offsets[sent.topic] += 1
            value = None if sent.value is None else sent.value.encode()
            time = number if sent.timestamp is None else sent.timestamp
            rows.append(Row(0, offset, sent.key.encode(), value, None, time, sent.topic))
        if not rows:
            return None
        with self._driver.epoch():
            for row in rows:
                value = None if row.value is None else row.value.decode()
                key = (row.key or b"").decode()
                self._inputs[row.topic].pipe_input(key, value, timestamp=row.timestamp)
        actual: dict[str, list[Row]] = defaultdict(list)
        for short, topic in self._outputs.items():
            for record in topic.read_records_to_list():
                actual[short].append(Row(0, 0, record.key, record.value, 1, record.timestamp))
        self.rows += sum(map(len, actual.values()))
        # As in the campaign, an epoch's input comes partition by partition.
        rows.sort(key=lambda row: (row.topic, row.offset))
        expected = self._model.step(rows, actual, record_of(self._driver.watermark))
        return [
            wrong
            for short in self._outputs
            for wrong in compare(short, expected.get(short, Counter()), actual[short])
        ]


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_model_of_an_application_under_faults_is_what_it_writes(name: str) -> None:
    """Each epoch's rows are those that the model calls for, wherever epochs are cut."""
    kind = KINDS[name]
    builder = StreamsBuilder()
    kind.build(builder, "p")
    for seed in range(2):
        with TopologyTestDriver(builder, settings=SETTINGS, key_groups=4, lanes=2) as driver:
            run = Run(kind, driver, seed)
            count = 0
            while (wrong := run.epoch()) is not None:
                count += 1
                assert not wrong, f"seed {seed}, epoch {count}: " + "\n".join(wrong[:4])
                if run.random.random() < 0.1:
                    driver.crash(lose_state=run.random.random() < 0.3)
            assert run.rows > RECORDS / 20


BUGS_HERE = (
    "met-and-alone",
    "rows-of-now-for-versions",
    "deletions-not-restored",
    "late-by-the-epoch",
    "held-for-ever",
    "sessions-told-early",
    "sinks-in-turn",
    "leavers-forgotten",
)


COMPILED = {"met-and-alone"}
"""Bugs that are planted in what may be compiled, which does not see them."""


@pytest.mark.parametrize("bug", BUGS_HERE)
def test_a_model_finds_a_bug_that_was_planted(bug: str) -> None:
    """Each family has a bug that its model sees: that it sees none elsewhere says something."""
    if bug in COMPILED and form().compiled:
        pytest.skip("it is planted in what is compiled")
    kind = KINDS[BUGS[bug].kind]
    builder = StreamsBuilder()
    kind.build(builder, "p")
    found: list[str] = []
    with (
        planted(bug),
        TopologyTestDriver(builder, settings=SETTINGS, key_groups=4, lanes=2) as driver,
    ):
        run = Run(kind, driver, 0)
        while not found and (wrong := run.epoch()) is not None:
            found = wrong
            driver.crash(lose_state=True)

    assert found


def rows_of(*pairs: KeyValue) -> list[Row]:
    return [Row(0, place, key, value, 1) for place, (key, value) in enumerate(pairs)]


ANT, BEE = (b"k", b"ant"), (b"k", b"bee")


@pytest.mark.parametrize(
    ("wanted", "got", "found"),
    [
        (Counter([ANT, BEE]), [BEE, ANT], ""),
        (Counter([ANT, BEE]), [ANT], "1 missing"),
        ([ANT, BEE], [BEE, ANT], "the order differs"),
        ([ANT, BEE], [ANT, BEE, BEE], "1 too many"),
        (Changes({b"k": b"bee"}, {}), [], "1 missing"),
        (Changes({b"k": b"bee"}, {}), [ANT, BEE], "1 too many"),
        (Changes({}, {b"k": b"ant"}), [], ""),
        (Changes({}, {b"k": b"ant"}), [ANT], ""),
        (Changes({}, {b"k": b"ant"}), [ANT, ANT], "1 too many"),
    ],
)
def test_rows_are_compared_as_what_they_are(
    wanted: Wanted, got: list[KeyValue], found: str
) -> None:
    """Rows in any order, rows in the order of their key, or the changes of a table."""
    wrong = compare("x", wanted, rows_of(*got))

    assert found in "".join(wrong)
    assert bool(wrong) == bool(found)


def test_of_an_epoch_that_was_repeated_the_last_rows_count() -> None:
    """With at_least_once a lost run of an epoch may have written some rows, and no run too few."""
    assert is_repeated([ANT, BEE], rows_of(ANT, ANT, BEE))
    assert not compare_repeated("x", [ANT, BEE], rows_of(ANT, ANT, BEE))
    assert compare_repeated("x", [ANT, BEE], rows_of(ANT, BEE, ANT))
    assert compare_repeated("x", Counter([ANT, BEE]), rows_of(ANT, ANT))
    assert compare_repeated("x", Changes({b"k": b"bee"}, {}), rows_of(ANT))
