"""SQL over stores: tables, columns, bounds, and what is refused."""

from __future__ import annotations

import os
import weakref
from datetime import UTC, datetime, timedelta

import pytest

from mustela import App, StreamsBuilder, TopologyTestDriver
from mustela.admin.data.hidden import Hidden
from mustela.sql import tables
from mustela.sql.asking import ask
from mustela.sql.errors import SqlStatementError
from mustela.sql.process import SqlLimits
from mustela.state.kinds.read_only import ReadOnlyVersionedStore
from tests.unit.admin.data.shown import Order, stores
from tests.unit.sql.inside import statements_run_here


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    statements_run_here(monkeypatch)


def moment(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.fixture(scope="module")
def driver():
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder) as made:
        words = made.create_input_topic("words", start=0, auto_advance=timedelta(seconds=4))
        for key in ("b", "a", "c", "a", "b", "a"):
            words.pipe_input(key, key)
        orders = made.create_input_topic("orders", start=7)
        for key in (3, -1, 0, 12):
            orders.pipe_input(key, Order(key * 10, f"{key}@example.org"))
        prices = made.create_input_topic("prices")
        for value, at in ((1.5, 1_000), (2.5, 2_000)):
            prices.pipe_input("pen", value, timestamp=at)
        yield made


def test_each_kind_of_store_is_a_table_with_the_rows_that_its_handle_gives(driver):
    """Keys, windows, times and values: nothing more, nothing less, nothing different."""
    counts = driver.sql("select * from counts")
    shown = [(k, moment(v.timestamp), v.value) for k, v in _all(driver, "counts", timestamps=True)]
    assert counts.columns == ("key", "timestamp", "value")
    assert counts.rows == shown
    for name in ("windowed", "sessions"):
        found = driver.sql(f"select key, window_start, window_end, value from {name}").rows
        assert found == [
            (w.key, moment(w.start), moment(w.end), value) for w, value in _all(driver, name)
        ]
    orders = driver.sql("select key, total, email from orders")
    assert orders.rows == [(k, v.total, v.email) for k, v in _all(driver, "orders")]
    assert orders.types == ("int64", "int64", "string")
    prices = driver.sql("select key, timestamp, valid_to, value from prices").rows
    assert prices == [("pen", moment(2_000), None, 2.5)]


def _all(driver, name, **shown):
    return list(driver.store(name, **shown).all())


def test_tables_are_joined_and_grouped(driver):
    """A join of two stores, of one snapshot, with names in any case."""
    found = driver.sql(
        "select c.key, c.value, count(*) from COUNTS c join windowed w using (key)"
        " group by all order by c.value desc, c.key limit 2"
    )
    assert found.rows == [("a", 3, 3), ("b", 2, 2)]
    assert found.epoch == driver.snapshot().epoch


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("counts where key = 'a'", "1 key"),
        ("counts where key in ('a', 'c', 'x') and value > 1", "3 keys"),
        ("counts where key >= 'b' and key < 'z'", "a range of keys"),
        ("counts where key like '%a%'", "all rows"),
        ("orders where key between 0 and 5", "a range of keys"),
        ("orders where key <= 3", "all rows"),
        ("windowed where window_start >= timestamptz '1970-01-01 00:00:10Z'", "a range of times"),
        ("sessions where key = 'a' and window_end > timestamptz '1970-01-01 00:00:09Z'",
         "1 key and a range of times"),
    ],
)  # fmt: skip
def test_bounds_of_keys_and_windows_reach_the_store_and_change_no_result(driver, condition, read):
    """`EXPLAIN` says what is read; the rows are those of a scan that is filtered afterwards."""
    name, _, rest = condition.partition(" where ")
    plan = [line for (line,) in driver.sql(f"explain select * from {condition}").rows]
    assert f"  read of the store: {read}" in plan, plan
    found = driver.sql(f"select * from {condition}").rows
    assert found
    assert sorted(found) == sorted(
        driver.sql(f"with t as materialized (select * from {name}) select * from t where {rest}")
    )


@pytest.mark.parametrize(
    "statement",
    [
        "select read_text('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('/etc/passwd')",
        "select * from read_blob('/proc/self/environ')",
        "select * from glob('/*')",
        "select * from '/etc/passwd'",
        "select * from 'data.parquet'",
        "copy (select 1) to '/tmp/mustela-sql-escape'",
        "copy counts from '/etc/passwd'",
        "export database '/tmp/mustela-sql-escape'",
        "attach '/tmp/mustela-sql-escape' as other",
        "attach ':memory:' as other",
        "set threads = 8",
        "reset memory_limit",
        "set enable_external_access = true",
        "install httpfs",
        "load httpfs",
        "pragma database_list",
        "call pragma_version()",
        "select getenv('PATH')",
        "select * from driver",
        "select * from arrow",
        "select * from tables",
        "select * from query('select 1')",
        "select * from json_execute_serialized_sql(json_serialize_sql('select 1'))",
        "select * from duckdb_settings()",
        "select * from arrow_scan(1, 2, 3)",
        "select 1; select 2",
        "select 1; drop table counts",
        "",
        "-- nothing",
        "create table t as select 1",
        "create macro f() as 1",
        "insert into counts values (1)",
        "with x as (insert into counts values (1) returning *) select * from x",
        "delete from counts",
        "update counts set value = 1",
        "drop view counts",
        "prepare p as select 1",
        "explain analyze select 1",
        "explain copy (select 1) to '/tmp/mustela-sql-escape'",
        "select * from (pivot counts on key using sum(value))",
        "begin",
        "use memory",
        "select '\x00'",
        "select " + "(" * 5_000 + "1" + ")" * 5_000,
    ],
)  # fmt: skip
def test_only_one_select_over_the_tables_is_run(driver, statement):
    """Files, settings, extensions, this process's variables, and whatever writes, are refused."""
    with pytest.raises(SqlStatementError):
        driver.sql(statement)
    assert not os.path.exists("/tmp/mustela-sql-escape")


def test_what_is_wrong_is_said_with_its_place(driver):
    """Line and column of a word that is wrong, the tables that there are, and a fix that helps."""
    with pytest.raises(SqlStatementError, match="syntax error") as refused:
        driver.sql("select key\nfrm counts")
    assert (refused.value.fields["line"], refused.value.fields["column"]) == (2, 5)
    with pytest.raises(SqlStatementError, match="nokey") as refused:
        driver.sql("explain select\n  'ä', nokey from counts")
    assert (refused.value.fields["line"], refused.value.fields["column"]) == (2, 8)
    with pytest.raises(SqlStatementError, match="nothere") as refused:
        driver.sql("select * from nothere")
    assert "counts" in refused.value.evidence["tables"]
    with pytest.raises(SqlStatementError, match="customer") as refused:
        driver.sql("select 1 from counts join orders using (customer)")
    assert "counts (key, timestamp, value); orders (key, " in (refused.value.fix or "")
    assert driver.sql("select count(*) from counts").rows == [(3,)]


def test_hidden_stores_and_fields_are_not_there(driver):
    """Neither selected nor compared, in whatever way they are named."""
    hidden = Hidden(stores=["counts"], fields=["orders:email"])

    def sql(statement):
        return ask(driver.queries, statement, limits=SqlLimits(), hidden=hidden)

    assert sql("select * from orders where key = 3").columns == ("key", "timestamp", "total")
    told = sql("select table_name, column_name from information_schema.columns").rows
    assert not [row for row in told if row[0] == "counts" or row[1] == "email"]
    for statement in (
        "select email from orders",
        "select key from orders where email like '3%'",
        "select columns('em.*') from orders",
        "select orders.email from orders",
        "select key from counts",
    ):
        with pytest.raises(SqlStatementError):
            sql(statement)


def test_all_versions_of_a_store_are_a_table_of_their_own(versioned):
    """With the times between which they were valid; deletions are gaps."""
    sql, history = versioned.sql, list(versioned.store("prices").history())
    wanted = [
        (key, moment(each.timestamp), each.valid_to and moment(each.valid_to), each.value)
        for key, each in history
    ]
    assert len(wanted) == 5
    assert sql("select * from prices_versions").rows == wanted
    assert sql("select key from prices").rows == [("pad",), ("pen",)]
    for first, last in (("a", "pad"), ("pad", "pen"), ("q", "z"), ("pen", "pen")):
        bounds = f"key >= '{first}' and key <= '{last}'"
        found = sql(f"select * from prices_versions where {bounds}").rows
        assert found == [row for row in wanted if first <= row[0] <= last]
    found = sql("select value from prices_versions where key in ('pen', 'none')").rows
    assert found == [(row[3],) for row in wanted if row[0] == "pen"]
    for at in range(500, 5_000, 500):
        as_of = f"timestamp <= make_timestamptz({at}000)"
        as_of += f" and (valid_to is null or valid_to > make_timestamptz({at}000))"
        found = dict(sql(f"select key, value from prices_versions where {as_of}").rows)
        keys = ("ink", "pad", "pen")
        then = {key: versioned.store("prices").get(key, as_of=at) for key in keys}
        assert found == {key: record.value for key, record in then.items() if record}, at


def test_a_range_of_a_versioned_store_reads_the_range(versioned, monkeypatch):
    """Not all keys of it."""
    plan = versioned.sql("explain select * from prices_versions where key >= 'pen'").rows
    assert ("  read of the store: a range of keys",) in plan
    read = []
    history = ReadOnlyVersionedStore.history
    monkeypatch.setattr(
        ReadOnlyVersionedStore,
        "history",
        lambda self, low=None, high=None: read.append((low, high)) or history(self, low, high),
    )
    assert len(versioned.sql("select * from prices_versions where key >= 'pen'")) == 2
    assert read == [("pen", None)]


def test_an_application_that_does_not_run_has_no_rows():
    """The same error as for a store."""
    from mustela.queries.errors import StateUnavailableError

    with pytest.raises(StateUnavailableError):
        App("nothing-runs").sql("select 1")


@pytest.fixture(scope="module")
def versioned():
    builder = StreamsBuilder()
    stores(builder)
    with TopologyTestDriver(builder) as made:
        prices = made.create_input_topic("prices")
        for key, value, at in (
            *(("pen", 1.5, 1_000), ("pad", 7.0, 1_500), ("ink", 3.0, 2_000), ("pen", 2.5, 2_500)),
            *(("ink", None, 3_000), ("pad", None, 3_500), ("pad", 8.0, 4_000)),
        ):
            prices.pipe_input(key, value, timestamp=at)
        yield made


def test_rows_are_read_as_they_are_needed_and_never_all_at_once(driver, monkeypatch):
    """A LIMIT ends the scan; of a large store few batches are in memory at any time."""
    read, alive = [0], []

    def rows(_handle, _kind, _range):
        for number in range(60_000):
            read[0] += 1
            yield f"k{number:07}", number

    batch_of = tables.StoreTable._batch

    def batch(self, *given):
        made = batch_of(self, *given)
        alive.append(weakref.ref(made))
        most.append(sum(ref() is not None for ref in alive))
        return made

    most: list[int] = []
    monkeypatch.setattr(tables, "rows_in", rows)
    monkeypatch.setattr(tables.StoreTable, "_batch", batch)
    assert driver.sql("select key from counts limit 3").rows[0] == ("k0000000",)
    assert read[0] < 20_000
    assert driver.sql("select count(*), sum(value) from counts where value >= 10").rows == [
        (59_990, sum(range(10, 60_000)))
    ]
    assert read[0] >= 60_000
    assert max(most) <= 3
