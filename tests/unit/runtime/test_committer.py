"""One epoch, one transaction: what is called in which order, and what becomes of refused rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from mustela.connectors.kafka.errors import (
    RefusedRow,
    RowsRefused,
    TransactionAborted,
    TransactionExpired,
    TransactionFenced,
    TransactionUnknown,
)
from mustela.connectors.kafka.production import (
    LETTER_HEADS,
    ChangelogRowError,
    ProductionError,
)
from mustela.connectors.kafka.row_checks import outline_of
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.errors import InvariantError
from mustela.model import TopicPartition
from mustela.plan.epoch import OwnerReport, TaskReport
from mustela.plan.sealed import SealedPart, SealedRows
from mustela.plan.ticket import Ticket
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.committer import Committer
from mustela.runtime.engine import EpochOutput
from mustela.runtime.record.epoch_record import EPOCH_RECORD_KEY, EpochRecord, decode_epoch_record
from mustela.spark.frames import FrameColumns
from tests.unit.runtime.fakes import FakeChecks, FakeSink, refused
from tests.unit.runtime.plans import some_state, word_count_plan

STATE = some_state(word_count_plan())
OFFSETS = {TopicPartition("lines", 0): 15}
ROWS = [
    FrameColumns("out", [b"a", b"b"], [b"1", b"2"], [5, 6], None, None),
    FrameColumns(["x", "out"], [b"c", None], [b"3", b"4"], [7, 8], [(("h", b"1"),), ()], [None, 3]),
]
OUTPUT = EpochOutput(
    reports=[],
    rows=ROWS,
    outlines=[outline_of(part) for part in ROWS],
    changelogs=[
        ("counts", FrameColumns("counts", [b"k"], [b"v"], None, None, 2)),
        ("counts", FrameColumns("counts", [b"l", b"m"], [None, b"w"], None, None, 3)),
    ],
    dead_letters=[FrameColumns("", [b"d"], [b"bad"], [9], [(("mustela.error.step", b"s"),)], None)],
    size=100,
)


def barrier_in_hand() -> Barrier:
    barrier = Barrier(incarnation=2, last_epoch=3)
    barrier.start()
    barrier.move(Phase.IN_HAND)
    return barrier


def commit(
    sink: FakeSink,
    *,
    handler: str = "fail",
    header: str = "epoch",
    barrier: Barrier | None = None,
    output: EpochOutput = OUTPUT,
    log_names: dict[str, str] | None = None,
    checks: FakeChecks | None = None,
) -> tuple[EpochRecord, dict[tuple[str, int], int], Committer]:
    committer = Committer(
        sink,  # pyright: ignore[reportArgumentType]
        application_id="app",
        dead_letter_topic="letters",
        header=header,
        handler=RowHandler(cast("Any", handler)),
        log_names=log_names,
        checks=checks,  # pyright: ignore[reportArgumentType]
    )
    told: dict[tuple[str, int], int] = {}

    def record(ends: Any) -> EpochRecord:
        told.update(ends)
        return STATE.to_record(1)

    written = committer.commit(
        output, barrier=barrier or barrier_in_hand(), offsets=OFFSETS, record=record
    )
    return written, told, committer


def test_the_epoch_record_is_the_last_row_and_knows_the_changelog_ends() -> None:
    """Everything is flushed before the record is made, and the commit comes last."""
    sink = FakeSink()
    barrier = barrier_in_hand()
    written, ends, _ = commit(sink, barrier=barrier)
    assert sink.calls == [
        *("begin", "rows", "rows", "rows", "tracked", "tracked"),
        *("offsets", "flush", "tracked", "flush", "commit"),
    ]
    assert ends == {("counts", 2): 101, ("counts", 3): 102}
    last = sink.committed[0][-1]
    assert (last["topics"], last["keys"]) == ("app-epochs", [EPOCH_RECORD_KEY])
    assert decode_epoch_record(last["values"][0]) == written
    assert (barrier.phase, barrier.last_epoch) == (Phase.IDLE, 4)
    assert sink.offsets == OFFSETS


def test_a_renamed_store_writes_to_the_changelog_that_it_had() -> None:
    """What is told of it has its new name."""
    sink = FakeSink()
    _, ends, _ = commit(sink, log_names={"counts": "totals"})
    topics = [row["topics"] for row in sink.committed[0] if row["topics"] != "app-epochs"]
    assert topics[-2:] == ["app-totals-changelog"] * 2
    assert set(ends) == {("counts", 2), ("counts", 3)}


def test_rows_carry_the_number_of_their_epoch() -> None:
    """Sink rows and dead letters do, changelogs and the record do not."""
    sink = FakeSink()
    commit(sink)
    headers = [row.get("header") for row in sink.committed[0]]
    assert headers == [("epoch", b"4")] * 3 + [None] * 3
    commit(quiet := FakeSink(), header="")
    assert not any(row.get("header") for row in quiet.committed[0])


def test_columns_reach_the_producer_as_they_are() -> None:
    """Topics, keys, values, times, headers and partitions; dead letters get their topic."""
    sink = FakeSink()
    commit(sink)
    _, second, letters, first_log, second_log, _ = sink.committed[0]
    assert second["topics"] == ["x", "out"]
    assert second["partitions"] == [None, 3]
    assert second["headers"] == [(("h", b"1"),), ()]
    assert (letters["topics"], letters["values"]) == ("letters", [b"bad"])
    assert first_log["topics"] == "app-counts-changelog"
    assert second_log["values"] == [None, b"w"]


def test_a_refused_row_stops_the_epoch_unless_a_handler_says_otherwise() -> None:
    """The error names the row, its topic and the broker's reason; nothing is committed."""
    sink = FakeSink(flush=[refused(("row", 0, 1))])
    with pytest.raises(ProductionError) as caught:
        commit(sink)
    assert "MSG_SIZE_TOO_LARGE" in str(caught.value)
    assert caught.value.code == "PRODUCTION"
    assert not sink.committed


def test_with_continue_the_epoch_is_produced_again_without_the_refused_rows() -> None:
    """By a new producer, under the same token; each refused row is left out from then on."""
    failures: list[Exception] = [refused(("row", 0, 1)), refused(("row", 1, 0), ("row", 0, 0))]
    sink = FakeSink(flush=failures[:1], commit=failures[1:])
    barrier = barrier_in_hand()
    _, _, committer = commit(sink, handler="continue", barrier=barrier)
    assert sink.calls.count("reopen") == 2
    assert [row.get("skip") for row in sink.committed[0]][:3] == [{0, 1}, {0}, frozenset()]
    assert sum(committer.left_out.values()) == 3
    assert barrier.last_epoch == 4


def test_with_dead_letter_refused_rows_go_to_the_dead_letters_in_the_same_transaction() -> None:
    """With their own bytes and headers, and what the broker said."""
    sink = FakeSink(commit=[refused(("row", 1, 0))])
    commit(sink, handler="dead_letter")
    letters = sink.committed[0][3]
    assert (letters["topics"], letters["keys"], letters["values"]) == ("letters", [b"c"], [b"3"])
    (headers,) = letters["headers"]
    assert dict(headers) == {
        "h": b"1",
        "mustela.error.class": b"MSG_SIZE_TOO_LARGE",
        "mustela.error.message": b"too large",
        "mustela.error.topic": b"out",
        "__streams.errors.exception": b"MSG_SIZE_TOO_LARGE",
        "__streams.errors.message": b"too large",
        "__streams.errors.topic": b"out",
    }
    assert letters["header"] == ("epoch", b"4")


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_dead_letter_that_is_refused_again_and_again_stops_the_epoch(handler: str) -> None:
    """There is nowhere else to put it."""
    with pytest.raises(ProductionError) as caught:
        commit(FakeSink(flush=[refused(("dead-letter", 0, 0))] * 3), handler=handler)
    assert "production_handler" not in (caught.value.fix or "")
    later = RefusedRow(("dead-letter", 0), 0, "letters", "POLICY_VIOLATION", "no")
    with pytest.raises(ProductionError):
        commit(FakeSink(flush=[RowsRefused.of([later])]), handler=handler)


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_dead_letter_that_is_too_large_keeps_its_head(handler: str) -> None:
    """Whole it would be refused for ever: headers say that it was cut, and how long it was."""
    long = FrameColumns("", [b"d"], [b"x" * 100_000], [9], [(("h", b"1"),)], None)
    sink = FakeSink(flush=[refused(("dead-letter", 0, 0))])
    commit(sink, handler=handler, output=replace(OUTPUT, dead_letters=[long]))
    letters = sink.committed[0][2]
    assert (letters["keys"], letters["values"]) == ([b"d"], [b"x" * LETTER_HEADS[0]])
    assert letters["headers"] == [(("h", b"1"), ("mustela.error.cut.value", b"100000"))]
    assert (letters["timestamps"], letters["skip"]) == ([9], frozenset())
    commit(sink := FakeSink(flush=[refused(("dead-letter", 0, 0))] * 2), handler=handler)
    assert sink.committed[0][2]["values"] == [b"bad"]  # the batch was too large, not the letter


def test_the_letter_of_a_row_that_is_too_large_keeps_its_head() -> None:
    """The broker refuses the row, and then the letter that carries it."""
    long = [FrameColumns("out", [b"k" * 2_000], [b"x" * 90_000], [9], None, None)]
    failures: list[Exception] = [refused(("row", 0, 0)), *[refused(("refused", 0, 0))] * 2]
    sink = FakeSink(flush=failures)
    output = replace(OUTPUT, rows=long, outlines=[outline_of(long[0])], dead_letters=[])
    _, _, committer = commit(sink, handler="dead_letter", output=output)
    assert committer.left_out == {"out": 1}
    row, letters, *_ = sink.committed[0]
    assert row["skip"] == {0}
    assert (letters["keys"], letters["values"]) == ([b"k" * 1024], [b"x" * 1024])
    told = dict(letters["headers"][0])
    assert told["mustela.error.topic"] == b"out"
    assert (told["mustela.error.cut.key"], told["mustela.error.cut.value"]) == (b"2000", b"90000")


def test_a_dead_letter_need_not_have_the_time_or_the_key_that_its_topic_wants() -> None:
    """A record may become a letter for its time; the letter must not fail for the same."""
    two = FrameColumns("", [None, b"k"], [b"1", b"2"], [9, 10], None, None)
    why = (("INVALID_TIMESTAMP", 1), ("INVALID_RECORD", 0))
    rows = [RefusedRow(("dead-letter", 0), row, "letters", name, "no") for name, row in why]
    sink = FakeSink(flush=[RowsRefused.of(rows)])
    commit(sink, output=replace(OUTPUT, dead_letters=[two]))
    letters = sink.committed[0][2]
    assert (letters["keys"], letters["timestamps"]) == ([b"", b"k"], None)
    times = [dict(headers)["mustela.error.timestamp"] for headers in letters["headers"]]
    assert times == [b"9", b"10"]


def test_headers_that_are_too_large_leave_what_went_wrong() -> None:
    """A text of the user's may be as long as he likes."""
    own = (("h", b"x" * 70_000), ("mustela.error.text", b"e" * 5_000))
    sink = FakeSink(flush=[refused(("dead-letter", 0, 0))])
    long = FrameColumns("", [b"k"], [b"v"], [9], [own], None)
    commit(sink, output=replace(OUTPUT, dead_letters=[long]))
    told = dict(sink.committed[0][2]["headers"][0])
    assert told == {"mustela.error.text": b"e" * 256, "mustela.error.cut.headers": b"75019"}


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_a_changelog_row_may_only_fail(handler: str) -> None:
    """State without it would be wrong after a restore; the error says which row of which store."""
    topic = "app-counts-changelog"
    row = RefusedRow(("changelog", 1), 1, topic, "MSG_SIZE_TOO_LARGE", "too large")
    with pytest.raises(ChangelogRowError) as caught:
        commit(FakeSink(flush=[RowsRefused.of([row])]), handler=handler)
    error = caught.value
    assert (error.fields["store"], error.fields["key"]) == ("counts", b"m")
    assert error.evidence["store"] == "counts"
    assert error.evidence["key"] == "b'm'"
    assert error.evidence["topic"] == f"{topic}, partition 3"
    assert "handler" not in (error.fix or "")
    assert topic in (error.fix or "")


def test_an_epoch_without_the_end_of_a_changelog_is_not_committed() -> None:
    """Whatever the sink says: the record would name an end that is too early."""
    sink = FakeSink()
    sink.forgets.add(("app-counts-changelog", 3))
    with pytest.raises(InvariantError, match="app-counts-changelog-3"):
        commit(sink)
    assert not sink.committed


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_when_the_broker_refuses_a_batch_the_rows_are_looked_for(handler: str) -> None:
    """The sink finds them in the next attempt; till then nothing is dropped and nothing fails."""
    later = RowsRefused.later("INVALID_TIMESTAMP", "too far")
    sink = FakeSink(flush=[later, later, refused(("row", 0, 0))])
    if handler == "fail":
        with pytest.raises(ProductionError, match="1 row"):
            commit(sink, handler=handler)
        return
    _, _, committer = commit(sink, handler=handler)
    assert sum(committer.left_out.values()) == 1
    assert sink.calls.count("begin") == 4


def test_rows_that_are_never_found_end_the_search() -> None:
    """A broker that refuses for ever does not keep the application for ever."""
    sink = FakeSink(flush=[RowsRefused.later("POLICY_VIOLATION", "no")] * 50)
    with pytest.raises(ProductionError):
        commit(sink, handler="continue")
    assert sink.calls.count("begin") < 12


@pytest.mark.parametrize("call", ["begin", "rows", "tracked", "offsets", "flush", "commit"])
@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (TransactionAborted, Phase.IDLE),
        (TransactionExpired, Phase.UNKNOWN),
        (TransactionUnknown, Phase.UNKNOWN),
        (TransactionFenced, Phase.IDLE),
    ],
)
def test_a_failed_transaction_leaves_the_barrier_with_what_is_known(
    call: str, error: type[Exception], phase: Phase
) -> None:
    """Whichever call it was: the epoch is not committed, or nobody knows; never committed."""
    sink = FakeSink(**{call: [error("no")]})
    barrier = barrier_in_hand()
    with pytest.raises(error):
        commit(sink, barrier=barrier)
    assert barrier.phase is (Phase.UNKNOWN if call == "commit" else phase)
    assert barrier.last_epoch == 3
    assert not sink.committed
    assert sink.calls[-1] == call


@pytest.mark.parametrize(
    ("error", "phase"), [(TransactionFenced, Phase.IDLE), (TransactionUnknown, Phase.UNKNOWN)]
)
def test_a_producer_that_does_not_open_again_leaves_the_barrier_with_what_is_known(
    error: type[Exception], phase: Phase
) -> None:
    """Rows were refused, and the next attempt could not begin."""
    sink = FakeSink(flush=[RowsRefused.later("POLICY_VIOLATION", "no")], reopen=[error("no")])
    barrier = barrier_in_hand()
    with pytest.raises(error):
        commit(sink, barrier=barrier)
    assert barrier.phase is phase


def test_a_claim_is_a_transaction_with_the_record_alone() -> None:
    """A new run says so before its first epoch."""
    sink = FakeSink()
    Committer(
        sink,  # pyright: ignore[reportArgumentType]
        application_id="app",
        dead_letter_topic="",
        header="",
        handler=RowHandler("fail"),
    ).claim(STATE.to_record(1))
    assert sink.calls == ["begin", "tracked", "commit"]
    assert sink.committed[0][0]["topics"] == "app-epochs"


@pytest.mark.parametrize("handler", ["fail", "continue", "dead_letter"])
def test_rows_that_would_be_refused_are_never_sent(handler: str) -> None:
    """They meet the production handler before a transaction begins, which does without them."""
    bad = RefusedRow(("row", 1), 0, "x", "INVALID_TIMESTAMP", "too far ahead")
    sink = FakeSink()
    committer = Committer(
        sink,  # pyright: ignore[reportArgumentType]
        application_id="app",
        dead_letter_topic="letters",
        header="",
        handler=RowHandler(cast("Any", handler)),
        checks=FakeChecks(bad),  # pyright: ignore[reportArgumentType]
    )

    def run() -> EpochRecord:
        return committer.commit(
            OUTPUT, barrier=barrier_in_hand(), offsets={}, record=lambda _ends: STATE.to_record(1)
        )

    if handler == "fail":
        with pytest.raises(ProductionError, match="too far ahead"):
            run()
        assert sink.calls == []
        return
    run()
    assert sum(committer.left_out.values()) == 1
    assert sink.calls.count("begin") == 1
    skipped = [sent for sent in sink.committed[0] if sent.get("skip")]
    assert [set(sent["skip"]) for sent in skipped] == [{0}]
    letters = [sent for sent in sink.committed[0] if sent["topics"] == "letters"]
    assert [sent["keys"] for sent in letters] == [
        [b"d"],
        *([[b"c"]] if handler != "continue" else []),
    ]


TICKET = Ticket("app", 7, 3, by_writing=True)


def lane_output(**changed: Any) -> EpochOutput:
    """The same epoch, one store of which was written by two lanes."""
    places = [{("counts", 5): 40}, {("counts", 6): 41, ("counts", 7): 9}]
    reports = [
        TaskReport(stage=1, task=n, written=own, written_bytes=10) for n, own in enumerate(places)
    ]
    return replace(OUTPUT, **{"reports": reports, "ticket": TICKET, **changed})


def test_the_record_names_the_ends_of_what_lanes_have_written() -> None:
    """Beside those of the rows that the driver writes, in the transaction that was lent."""
    sink = FakeSink()
    _, ends, _ = commit(sink, output=lane_output())
    driver = {("counts", 2): 101, ("counts", 3): 102}
    assert ends == {**driver, ("counts", 5): 40, ("counts", 6): 41, ("counts", 7): 9}
    assert sink.tickets == [TICKET]


@pytest.mark.parametrize("place", [("counts", 2), ("counts", 6)])
def test_a_partition_with_two_writers_is_refused(place: tuple[str, int]) -> None:
    """Whether the other one is the driver or a lane: nothing of the epoch is committed."""
    sink, output = FakeSink(), lane_output()
    output.reports[0].written[place] = 1
    with pytest.raises(InvariantError, match="two writers"):
        commit(sink, output=output)
    assert sink.committed == []


def test_rows_that_lanes_wrote_are_gone_with_a_transaction_that_is_refused() -> None:
    """So the epoch runs again; what the driver alone has sent it sends again."""
    for output, tries in ((lane_output(), 1), (lane_output(reports=[]), 2)):
        sink, barrier = FakeSink(flush=[refused(("row", 0, 1))]), barrier_in_hand()
        if tries == 1:
            with pytest.raises(RowsRefused):
                commit(sink, output=output, barrier=barrier, handler="continue")
            assert (barrier.phase, barrier.last_epoch) == (Phase.IDLE, 3)
        else:
            commit(sink, output=output, barrier=barrier, handler="continue")
        assert sink.tickets == [TICKET, None][:tries]


def owned(*topics: str) -> OwnerReport:
    places = tuple((topic, 0) for topic in topics)
    return OwnerReport(0, places, size=7, seconds=0.5, spark_stage=3, failure=None)


def test_an_epoch_with_two_writers_of_a_topic_runs_again() -> None:
    """Each would number its rows from 0: owners of partitions, and the driver with what it has."""
    sealed = SealedPart([SealedRows("sealed", 1, [])])
    output = replace(OUTPUT, rows=[*ROWS, sealed], owned=[owned("elsewhere")])
    commit(FakeSink(), output=output)
    for topic in ("x", "sealed", "letters"):
        with pytest.raises(RowsRefused, match="refused a batch"):
            commit(FakeSink(), output=replace(output, owned=[owned("elsewhere"), owned(topic)]))
    assert (output.all_bytes, output.worked) == (107, 0.5)


def test_rows_that_are_put_together_are_looked_at_by_their_summaries() -> None:
    """None can be left out of them, so the epoch runs again, with the driver choosing rows."""
    suspicious = outline_of(FrameColumns("bad", [b"k"], [b"v"], [1], None, None))
    output = replace(OUTPUT, sealed_outlines=[suspicious])
    sink, bad = FakeSink(), RefusedRow(("row", 9), 0, "bad", "MSG_SIZE_TOO_LARGE", "too large")
    with pytest.raises(RowsRefused):
        commit(sink, output=output, checks=FakeChecks(bad))
    assert sink.committed == []
