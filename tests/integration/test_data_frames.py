"""Stores of a running application as Spark data frames."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as f

from mustela import App, StreamsBuilder
from mustela.admin.access import access_file, read_access
from mustela.schemas import AvroSerde, SerdePlace
from mustela.spark_source import FrameOptionError, hold
from tests.integration.app_world import World
from tests.patience import SOON
from tests.registry_server import RegistryServer

pytestmark = [pytest.mark.broker, pytest.mark.spark]
pytest_plugins = ["tests.integration.app_fixture"]

ACCOUNTS = 40


class Town(pydantic.BaseModel):
    name: str
    code: int | None = None


class Shop(pydantic.BaseModel):
    town: Town = pydantic.Field(alias="inTown")
    sizes: dict[str, float] = {}


@dataclass
class Sale:
    city: str
    price: Decimal
    at: datetime
    tags: list[str]


def transfers(source: str) -> Callable[[StreamsBuilder], None]:
    """Each record moves an amount between two accounts: the sum of all balances is always zero."""

    def build(builder: StreamsBuilder) -> None:
        moves = builder.stream(source, key=str, value=str).flat_map(both_sides, name="sides")
        moves = moves.repartition(name="by-account", key=str, value=int)
        moves.group_by_key().reduce(add, store="balances")
        moves.group_by_key().count(store="moves")
        builder.table(f"{source}-shops", key=str, value=Shop, store="shops")
        builder.table(f"{source}-sales", key=str, value=AvroSerde(Sale), store="sales")

    def both_sides(_key: str, value: str) -> list[tuple[str, int]]:
        payer, payee, amount = value.split()
        return [(payer, -int(amount)), (payee, int(amount))]

    def add(one: int, other: int) -> int:
        return one + other

    return build


def sent(number: int) -> list[tuple[str, str]]:
    """Some moves between accounts."""
    found: list[tuple[str, str]] = []
    for each in range(ACCOUNTS):
        other = (each * 7 + number + 1) % ACCOUNTS
        found.append((f"m{each}", f"a{each:03} a{other:03} {each + number}"))
    return found


@pytest.fixture
def spark(spark_context: Any) -> SparkSession:
    """A session that nobody has told of the format."""
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session


def frame(spark: SparkSession, app: App, /, **options: Any) -> Any:
    """Return the data frame of a store of an application on this host."""
    place = {"app": app.settings.application_id, "stateDir": str(app.settings.state_dir)}
    return spark.read.format("mustela").options(**{**place, **options}).load()


@pytest.fixture
def registry() -> Generator[str]:
    """The address of a registry of schemas."""
    with RegistryServer() as server:
        yield server.url


def send_documents(world: World, source: str, registry: str) -> None:
    """Send a shop and a sale to the topics that `transfers` keeps."""
    shops, sales = (world.topic(f"in-{name}") for name in ("shops", "sales"))
    assert shops == f"{source}-shops"
    shop = Shop(inTown=Town(name="Rome", code=7), sizes={"m": 2})
    world.send(shops, [("s", shop.model_dump_json(by_alias=True))])
    sale = Sale("Oslo", Decimal("1.50"), datetime(2026, 1, 31, tzinfo=UTC), ["new"])
    serde = AvroSerde(Sale).bound(SerdePlace(sales), {"url": registry})
    world.send(sales, [("k", serde.serialize(sale))])


def test_a_data_frame_is_one_epoch_in_all_partitions_while_the_pipeline_goes_on(
    world: World, spark: SparkSession, registry: str, tmp_path: Path
) -> None:
    """No partition sees more than the others, two reads of one epoch agree, filters narrow."""
    source = world.topic("in", partitions=2)
    send_documents(world, source, registry)
    settings: Any = {"admin": {"enabled": True}, "schema.registry.url": registry}
    app, _ = world.app(transfers(source), **settings)
    with app:
        world.send(source, sent(0))
        assert app.wait_until_caught_up(SOON)
        for number in range(1, 4):
            balances = frame(spark, app, store="balances", partitions=4)
            world.send(source, sent(number))  # while Spark plans and reads
            placed = balances.withColumn("part", f.spark_partition_id())
            told = (f.sum("value"), f.count("*"), f.count_distinct("part"))
            [row] = placed.agg(*told).collect()
            assert tuple(row) == (0, ACCOUNTS, 4), "money is neither lost nor made"
        assert app.wait_until_caught_up(SOON)
        world.send(source, sent(4))  # an epoch that none of these data frames keeps
        assert app.wait_until_caught_up(SOON)

        place = {"app": app.settings.application_id, "stateDir": app.settings.state_dir}
        with hold(**place) as epoch:
            before = dict(app.store("moves").items())
            first = frame(spark, app, store="moves", epoch=epoch)
            world.send(source, sent(9))
            assert app.wait_until_caught_up(SOON)
            second = frame(spark, app, store="moves", epoch=epoch, columns="key, value")
            assert {row.key: row.value for row in first.collect()} == before
            assert {row.key: row.value for row in second.collect()} == before
            assert dict(app.store("moves").items()) != before
        with pytest.raises(PySparkException, match=f"epoch {epoch} is not there"):
            frame(spark, app, store="moves", epoch=epoch)

        now = dict(app.store("moves").items())
        access = read_access(access_file(app.settings))
        assert access is not None
        token = tmp_path / "token"
        token.write_text(access.tokens.query)
        remote: Any = spark.read.format("mustela").options(url=access.address, tokenFile=str(token))
        moves = remote.option("store", "moves").load()
        assert [field.name for field in moves.schema] == ["key", "timestamp", "value"]
        assert {row.key: row.value for row in moves.collect()} == now
        some = moves.where("key >= 'a010' and key < 'a012'")
        assert sorted(row.key for row in some.collect()) == ["a010", "a011"]
        one: Any = moves.where("key = 'a010' and value > 0")
        assert [(row.key, row.value) for row in one.collect()] == [("a010", now["a010"])]
        assert moves.count() == ACCOUNTS, "the filter of one query is not that of the next"
        assert access.tokens.query not in one._jdf.queryExecution().toString()

        wrong = {
            "has no column nothing": {"store": "moves", "columns": "nothing"},
            "there is no such store": {"store": "nothing"},
            "there is no option epok": {"store": "moves", "epok": 1},
            "the option token is not taken": {"store": "moves", "token": "secret"},
            "does not show itself": {"store": "moves", "app": "another"},
        }
        for said, options in wrong.items():
            with pytest.raises(PySparkException, match=said):
                frame(spark, app, **options)
        some = frame(spark, app, store="moves", keyFrom="a010", keyTo="a011")
        assert sorted(row.key for row in some.collect()) == ["a010", "a011"]

        [row] = frame(spark, app, store="shops").collect()
        assert (row.key, row.inTown.name, row.inTown.code, row.sizes) == ("s", "Rome", 7, {"m": 2})
        asked: Any = frame(spark, app, store="sales").where("price > 1 and tags[0] = 'new'")
        [row] = asked.selectExpr("city", "price * 2 as twice", "year(at) as year").collect()
        assert row.asDict() == {"city": "Oslo", "twice": Decimal("3.00"), "year": 2026}


def test_options_are_refused_with_what_to_do() -> None:
    """Before anything is asked."""
    with pytest.raises(FrameOptionError, match="neither app nor url"), hold(store="x"):
        pass
    with pytest.raises(FrameOptionError, match="both given"), hold(app="a", url="http://b"):
        pass
