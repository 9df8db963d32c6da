"""Changes of other lanes' keys: made in the key's lane, once, in the order of the records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mustela import Stores, StreamsBuilder, TopologyTestDriver
from mustela.api.errors import (
    BadOptionError,
    SharedStoreError,
    StoreAccessError,
    UnknownChildError,
    UnknownStoreError,
)
from mustela.api.stores import StoreBuilder
from mustela.errors import DataError
from mustela.processors import ContextualProcessor

WAYS: list[dict[str, Any]] = [
    {},
    {"key_groups": 8, "lanes": 3},
    {"key_groups": 8, "lanes": 3, "crash_after_every_record": True},
    {"key_groups": 8, "lanes": 8, "settings": {"event_time": "stream-time"}},
    {"key_groups": 8, "lanes": 2, "settings": {"emit": "every"}},
]

Op = tuple[str, str, int]
Script = list[list[tuple[str, list[Op]]]]


def kv_store(name: str, *, timed: bool = False) -> StoreBuilder:
    supplier = Stores.persistent_key_value_store(name)
    if timed:
        return Stores.timestamped_key_value_store_builder(supplier, key=str, value=list)
    return Stores.key_value_store_builder(supplier, key=str, value=list)


def append(old: list[Any] | None, item: Any) -> list[Any]:
    return [*(old or []), item]


def append_in_place(old: list[Any] | None, item: Any) -> list[Any]:
    """Change what it gets: nobody else may see that."""
    old = [] if old is None else old
    old.append(item)
    return old


def forget(_old: list[Any] | None, _item: Any) -> None:
    return None


FUNCTIONS = {"append": append, "in place": append_in_place, "forget": forget}


class Send(ContextualProcessor[Any, Any, Any, Any]):
    """Sends the operations that a record lists; says what it read of the store before."""

    def process(self, record: Any) -> None:
        seen = dict(self.context.any_key_store("lists").all())
        self.context.forward(record.with_value(seen))
        for what, key, item in record.value:
            self.context.update(
                "lists", key, FUNCTIONS[what], item, reply_to="done", reply_key=record.key
            )


def topology(*, stateful: bool) -> StreamsBuilder:
    builder = StreamsBuilder()
    stores = [kv_store("own")] if stateful else []
    stream = builder.stream("in", key=str, value=list)
    sent = stream.process(Send, stores=stores, updates=[kv_store("lists")], replies=["done"])
    sent.to("seen", key=str, value=dict)
    done = sent.reply("done").map_values(list)
    done.to("done", key=str, value=list)
    return builder


def serial(script: Script) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """Do the same in one dict, one operation after the other."""
    state: dict[str, list[Any]] = {}
    seen: list[Any] = []
    done: list[Any] = []
    for epoch in script:
        before = {key: list(items) for key, items in state.items()}
        for sender, ops in epoch:
            seen.append((sender, before))
            for what, key, item in ops:
                old = state.get(key)
                new = None if what == "forget" else [*(old or []), item]
                done.append((sender, [key, old, new]))
                if new is None:
                    state.pop(key, None)
                else:
                    state[key] = new
    return state, seen, done


ops = st.lists(
    st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.sampled_from("abcd"), st.integers(0, 9)),
    max_size=3,
)
scripts = st.lists(st.lists(st.tuples(st.sampled_from("xyz"), ops), max_size=4), max_size=4)


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=15)
@given(script=scripts)
def test_the_outcome_is_that_of_one_operation_after_the_other(
    way: dict[str, Any], script: Script, stateful: bool
) -> None:
    """State, replies and their order per key do not depend on lanes, crashes or where it is cut."""
    state, seen, done = serial(script)
    with TopologyTestDriver(topology(stateful=stateful), **way) as driver:
        pipe = driver.create_input_topic("in")
        for epoch in script:
            with driver.epoch():
                pipe.pipe_key_value_list(epoch)
        assert dict(driver.get_key_value_store("lists").all()) == state
        told = driver.create_output_topic("seen").read_key_values_to_list()
        replied = driver.create_output_topic("done").read_key_values_to_list()
    by_sender = {name: [row for row in seen if row[0] == name] for name in "xyz"}
    assert {name: [row for row in told if row[0] == name] for name in "xyz"} == by_sender
    by_key = {key: [row for row in done if row[1][0] == key] for key in "abcd"}
    assert {key: [row for row in replied if row[1][0] == key] for key in "abcd"} == by_key


@pytest.mark.parametrize("way", WAYS[:3], ids=str)
def test_records_that_were_one_before_keep_their_order_whatever_lane_sends(
    way: dict[str, Any],
) -> None:
    """The parts of a record go to several lanes, and all change the same key."""

    class Log(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.update("lists", "log", append, record.key)

    builder = StreamsBuilder()
    parts = builder.stream("in", key=str, value=list).flat_map(
        lambda _key, value: [(part, part) for part in value]
    )
    parts.process(Log, stores=[kv_store("own")], updates=[kv_store("lists")], name="log")
    with TopologyTestDriver(builder, **way) as driver:
        driver.create_input_topic("in").pipe_input("k", list("hgfedcba"))
        found = driver.get_key_value_store("lists").get("log")
        assert found is not None
        assert sorted(found) == list("abcdefgh")
        if way.get("key_groups"):
            one_lane = dict(way, lanes=1, crash_after_every_record=False)
            with TopologyTestDriver(builder, **one_lane) as other:
                other.create_input_topic("in").pipe_input("k", list("hgfedcba"))
                assert other.get_key_value_store("lists").get("log") == found


def test_two_steps_may_change_one_store() -> None:
    """The changes of both are made in the order of their records."""

    class Log(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.update("lists", "log", append, record.value, reply_to="done")

    builder = StreamsBuilder().add_state_store(kv_store("lists", timed=True))
    left = builder.stream("left", key=str, value=str)
    left = left.process(Log, updates=["lists"], replies=["done"], name="log-left")
    right = builder.stream("right", key=str, value=str)
    right = right.process(Log, updates=["lists"], replies=["done"], name="log-right")
    left.reply("done").map_values(lambda change: change.new).to("left-done", value=list)
    right.reply("done").map_values(lambda change: change.new).to("right-done", value=list)
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        lefts, rights = driver.create_input_topic("left"), driver.create_input_topic("right")
        with driver.epoch():
            rights.pipe_input("b", "second", timestamp=2)
            lefts.pipe_input("a", "first", timestamp=1)
            lefts.pipe_input("a", "third", timestamp=3)
        stored = driver.get_timestamped_key_value_store("lists").get("log")
        assert stored == (["first", "second", "third"], 3)
        told = driver.create_output_topic("left-done").read_values_to_list()
        assert told == [["first"], ["first", "second", "third"]]
        assert driver.create_output_topic("right-done").read_values_to_list() == [
            ["first", "second"]
        ]


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("way", WAYS[:3], ids=str)
def test_steps_that_share_a_store_change_another_one_in_turn(
    way: dict[str, Any], cut: bool
) -> None:
    """Each record passes both; its changes are those of the first step, then of the second."""

    class Log(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            own = self.context.state_store("own")
            step, number = self.context.step_name, len(own.get(record.key) or [])
            own.put(record.key, [*(own.get(record.key) or []), step])
            self.context.update("lists", "log", append, f"{record.value} {step} {number}")
            self.context.forward(record)
            self.context.update("lists", "log", append, f"{record.value} {step} again")

    builder = StreamsBuilder().add_state_store(kv_store("own")).add_state_store(kv_store("lists"))
    first = builder.stream("in", key=str, value=str)
    first = first.process(Log, stores=["own"], updates=["lists"], name="first")
    first.process(Log, stores=["own"], updates=["lists"], name="second")
    with TopologyTestDriver(builder, **way) as driver:
        pipe = driver.create_input_topic("in")
        records = [("a", "r1"), ("b", "r2"), ("a", "r3")]
        if cut:
            pipe.pipe_key_value_list(records)
        else:
            with driver.epoch():
                pipe.pipe_key_value_list(records)
        log = driver.get_key_value_store("lists").get("log")
    numbers = {"r1": (0, 1), "r2": (0, 1), "r3": (2, 3)}
    assert log == [
        told
        for record, (one, two) in numbers.items()
        for told in (
            *(f"{record} first {one}", f"{record} first again"),
            *(f"{record} second {two}", f"{record} second again"),
        )
    ]


def test_one_step_may_change_two_stores_and_hear_of_both_by_one_reply() -> None:
    """What comes back from both is one stream."""

    class Both(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.update("first", record.key, append, 1, reply_to="done")
            self.context.update("second", record.value, append, 2, reply_to="done")

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    sent = stream.process(Both, updates=[kv_store("first"), kv_store("second")], replies="done")
    sent.reply("done").map_values(lambda change: [change.key, change.new]).to("out", value=list)
    assert sent.reply("done") is sent.reply("done")
    with TopologyTestDriver(builder, key_groups=8, lanes=3) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")
        told = driver.create_output_topic("out").read_values_to_list()
    assert sorted(told) == [["a", [1]], ["b", [2]]]


def fail_on(old: list[Any] | None, item: Any) -> list[Any]:
    """Raise on what cannot be."""
    if item == "bad":
        msg = "not this one"
        raise ValueError(msg)
    return append_in_place(old, item)


class SendValue(ContextualProcessor[Any, Any, Any, Any]):
    """Has the value appended to a list."""

    def process(self, record: Any) -> None:
        self.context.update("lists", record.key, fail_on, record.value)


def test_a_change_that_fails_changes_nothing_and_names_the_record_that_sent_it() -> None:
    """Its line is that of the function; the handler decides, as for any function."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(SendValue, updates=[kv_store("lists")])
    with TopologyTestDriver(builder) as driver:
        pipe = driver.create_input_topic("in")
        pipe.pipe_input("a", "good")
        with pytest.raises(DataError, match="ValueError: not this one") as caught:
            pipe.pipe_input("a", "bad")
        fields = caught.value.fields
        assert (fields["topic"], fields["offset"]) == ("in", 1)
        assert fields["line"].file == __file__
        assert driver.get_key_value_store("lists").get("a") == ["good"]
    handled = {"processing_handler": "dead_letter"}
    with TopologyTestDriver(builder, settings=handled, key_groups=8, lanes=3) as driver:
        pipe = driver.create_input_topic("in")
        pipe.pipe_key_value_list([("a", "good"), ("a", "bad"), ("a", "better")])
        assert driver.get_key_value_store("lists").get("a") == ["good", "better"]
        letters = driver.create_output_topic(next(iter(driver.produced_topic_names)))
        (letter,) = letters.read_records_to_list()
        told = dict(letter.headers)
        assert told["mustela.error.topic"] == b"in"
        assert told["mustela.error.offset"] == b"1"


def moment_store(kind: str) -> StoreBuilder:
    hour = timedelta(hours=1)
    if kind == "session":
        supplier = Stores.persistent_session_store("lists", hour)
        return Stores.session_store_builder(supplier, key=str, value=list)
    if kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store("lists", history_retention=hour)
        return Stores.versioned_key_value_store_builder(supplier, key=str, value=list)
    supplier = Stores.persistent_window_store("lists", retention=hour, window_size=hour)
    return Stores.window_store_builder(supplier, key=str, value=list)


PLACES: dict[str, list[Any]] = {
    "window": [0, 10],
    "session": [(0, 5), (0, 10)],
    "versioned": [None, 3, 7],
}


class SendTo(ContextualProcessor[Any, Any, Any, Any]):
    """Sends operations to windows, sessions or versions."""

    def process(self, record: Any) -> None:
        for what, key, at in record.value:
            place = tuple(at) if isinstance(at, list) else at
            function = FUNCTIONS[what]
            self.context.update("lists", key, function, record.timestamp, at=place, reply_to="done")


def modelled(kind: str, records: Sequence[tuple[int, list[Any]]]) -> tuple[list[Any], Any]:
    """Return the replies and the final state, by going through the operations in plain Python."""
    values: dict[Any, Any] = {}
    versions: dict[str, dict[int, Any]] = {}
    replies: list[Any] = []
    for time, operations in records:
        for what, key, at in operations:
            if kind == "versioned":
                own, since = versions.setdefault(key, {}), time if at is None else at
                old = (
                    own[max(t for t in own if t <= since)] if any(t <= since for t in own) else None
                )
                own[since] = FUNCTIONS[what](None if old is None else list(old), time)
                new = own[since]
            else:
                old = values.get((key, at))
                new = FUNCTIONS[what](None if old is None else list(old), time)
                values[key, at] = new
            replies.append((key, old, None if new is None else list(new)))
    if kind == "versioned":
        newest = {key: own[max(own)] for key, own in versions.items() if own}
        return replies, {key: value for key, value in newest.items() if value is not None}
    return replies, {place: value for place, value in values.items() if value is not None}


@settings(deadline=None, max_examples=30)
@given(st.data(), st.sampled_from(sorted(PLACES)), st.sampled_from(WAYS[:4]))
def test_windows_sessions_and_versions_are_changed_from_other_lanes(
    data: st.DataObject, kind: str, way: dict[str, Any]
) -> None:
    """As if one operation came after the other, whichever lane the key is in."""
    operation = st.tuples(
        st.sampled_from(sorted(FUNCTIONS)), st.sampled_from("abc"), st.sampled_from(PLACES[kind])
    )
    scripts = data.draw(st.lists(st.lists(operation, max_size=4), min_size=1, max_size=6))
    builder = StreamsBuilder()
    sent = builder.stream("in", key=str, value=list).process(
        SendTo, updates=[moment_store(kind)], replies=["done"]
    )
    sent.reply("done").map_values(list).to("done", key=str, value=list)
    times = [10 + number for number in range(len(scripts))]
    expected, state = modelled(kind, list(zip(times, scripts, strict=True)))
    with TopologyTestDriver(builder, **way) as driver:
        pipe = driver.create_input_topic("in")
        for number, (time, script) in enumerate(zip(times, scripts, strict=True)):
            pipe.pipe_input(f"k{number}", script, timestamp=time)
        told = driver.create_output_topic("done").read_values_to_list()
        for key in "abc":
            assert [(k, o, n) for k, o, n in told if k == key] == [
                r for r in expected if r[0] == key
            ]
        if kind == "versioned":
            store = driver.get_versioned_key_value_store("lists")
            assert {key: row.value for key, row in store.all()} == state
        elif kind == "session":
            found = driver.get_session_store("lists").all()
            assert {(w.key, (w.start, w.end)): value for w, value in found} == state
        else:
            found = driver.get_window_store("lists").all()
            assert {(w.key, w.start): value for w, value in found} == state


@pytest.mark.parametrize("at", [None, 5, (5, None)])
def test_an_update_of_a_session_says_which(at: Any) -> None:
    """Its record meets the handler."""

    class Vague(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.update("lists", "k", append, 1, at=at)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Vague, updates=[moment_store("session")])
    with TopologyTestDriver(builder) as driver, pytest.raises(DataError, match="which window"):
        driver.create_input_topic("in").pipe_input("a", "b")


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda ctx: ctx.update("other", "k", append, 1), StoreAccessError, "updates 'other'"),
        (
            lambda ctx: ctx.update("lists", "k", append, 1, reply_to="no"),
            UnknownChildError,
            "no reply 'no'",
        ),
        (lambda ctx: ctx.update("lists", "k", 1), TypeError, "takes a function"),
    ],
)
def test_an_update_that_cannot_be_is_refused(call: Any, kind: type[Exception], says: str) -> None:
    """Before it leaves."""
    caught: list[Exception] = []

    class Wrong(ContextualProcessor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            try:
                call(self.context)
            except kind as error:
                caught.append(error)

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(Wrong, updates=[kv_store("lists")])
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")
    assert says in str(caught[0])


def test_an_update_outside_of_a_record_is_refused() -> None:
    """There is no order in which it could be made."""
    caught: list[Exception] = []

    class Early(ContextualProcessor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            try:
                context.update("lists", "k", append, 1)
            except StoreAccessError as error:
                caught.append(error)

        def process(self, record: Any) -> None: ...

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(Early, updates=[kv_store("lists")])
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")
    assert "there is no current record" in str(caught[0])


def test_a_store_that_is_changed_from_other_lanes_is_connected_to_no_processor() -> None:
    """The topology cannot be built, whichever comes first."""
    for reverse in (False, True):
        builder = StreamsBuilder().add_state_store(kv_store("lists"))
        stream = builder.stream("in", key=str, value=str)
        ties: Sequence[dict[str, Any]] = [{"updates": ["lists"]}, {"stores": ["lists"]}]
        for number, tie in enumerate(reversed(ties) if reverse else ties):
            stream.process(SendValue, name=f"step-{number}", **tie)
        with pytest.raises(SharedStoreError, match="'lists' is changed from other lanes") as caught:
            builder.build()
        assert caught.value.at is not None
        assert caught.value.at.file == __file__


def test_a_store_of_a_table_is_not_changed_from_other_lanes() -> None:
    """The table's own records say what it holds."""
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices")
    builder.stream("in", key=str, value=str).process(SendValue, updates=["prices"])
    with pytest.raises(SharedStoreError, match="'prices' uses it too"):
        builder.build()


def test_updates_that_hang_on_their_own_replies_are_refused() -> None:
    """A reply goes on when all changes of the epoch are made."""
    builder = StreamsBuilder().add_state_store(kv_store("lists"))
    stream = builder.stream("in", key=str, value=str)
    sent = stream.process(SendValue, updates=["lists"], replies=["done"], name="first")
    sent.reply("done").process(SendValue, updates=["lists"], name="second")
    with pytest.raises(SharedStoreError, match="depend on replies of the same store"):
        builder.build()


def test_what_is_said_of_updates_is_checked_at_once() -> None:
    """Unknown stores, other kinds of stores, replies without updates, names that are none."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    with pytest.raises(UnknownStoreError, match="updates store 'nope', which was not added"):
        stream.process(SendValue, updates=["nope"], name="a")
    forgetful = Stores.key_value_store_builder(Stores.lru_map("recent", 9), key=str, value=int)
    with pytest.raises(SharedStoreError, match="it forgets keys"):
        stream.process(SendValue, updates=[forgetful], name="b")
    with pytest.raises(BadOptionError, match="no updates"):
        stream.process(SendValue, replies=["done"], name="c")
    with pytest.raises(BadOptionError, match="updates lists 7"):
        stream.process(SendValue, updates=[7], name="d")  # pyright: ignore[reportArgumentType]
    sent = stream.process(SendValue, updates=[kv_store("lists")], replies=["done"], name="e")
    with pytest.raises(UnknownChildError, match="has no reply 'undone'"):
        sent.reply("undone")
