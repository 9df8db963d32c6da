"""Plain PySpark Structured Streaming as a peer: native expressions only, no Python per record.

Its Kafka sink is at-least-once. Run by `spark_peer.py` with the options that every peer takes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

sys.path.insert(0, str(Path(__file__).parent))

from app_protocol import AppArguments, emit, obey, parse_arguments

_CORES = 2
_HEAP = "2g"
_CATCH_UP_STEPS = 25
_JOIN_PROGRAMS = {
    "stream_join": "inner",
    "stream_left_join": "left_outer",
    "stream_outer_join": "full_outer",
}
_WINDOW_PROGRAMS = ("windows", "hopping", "sessions")
_GAP = "5 seconds"
_GRACE = "5 seconds"
_JOIN_GRACE = "10 seconds"
_FEWEST_PER_STEP = 1_000
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.shuffle.partitions": str(_CORES),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
}
_PAYMENT = StructType(
    [
        StructField("id", LongType()),
        StructField("ts", LongType()),
        StructField("amount", DoubleType()),
        *(
            StructField(name, StringType())
            for name in (
                "currency",
                "account",
                "merchant",
                "country",
                "channel",
                "status",
                "category",
                "device",
                "pad",
            )
        ),
    ]
)


def session(arguments: AppArguments) -> SparkSession:
    """The local session, with the connector on its class path."""
    builder = SparkSession.builder.appName(arguments.app_id).master(f"local[{_CORES}]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    # Only what is closed by event time has anything to say in a step without records.
    waits = arguments.program in (*_JOIN_PROGRAMS, *_WINDOW_PROGRAMS)
    name = "spark.sql.streaming.noDataMicroBatches.enabled"
    builder = builder.config(name, str(waits).lower())
    return (
        builder.config("spark.driver.memory", _HEAP)
        .config("spark.driver.extraClassPath", arguments.jars)
        .config("spark.local.dir", str(Path(arguments.state_dir) / "scratch"))
        .getOrCreate()
    )


def source(
    spark: SparkSession, arguments: AppArguments, topic: str, *, topics: int = 1
) -> DataFrame:
    """A topic, one of so many, cut into steps so that full topics are not one huge batch."""
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
    )
    if arguments.records:
        step = max(_FEWEST_PER_STEP, arguments.records // topics // _CATCH_UP_STEPS)
        reader = reader.option("maxOffsetsPerTrigger", str(step))
    return reader.load()


def program(spark: SparkSession, arguments: AppArguments) -> tuple[DataFrame, str]:
    """The rows to write and the output mode."""
    if arguments.program in _JOIN_PROGRAMS:
        return _joined(spark, arguments), "append"
    records = source(spark, arguments, arguments.input)
    if arguments.program in _WINDOW_PROGRAMS:
        return _closed(records, arguments.program), "append"
    if arguments.program == "passthrough":
        return records.select("key", "value"), "append"
    if arguments.program == "json":
        payments = _payments(records).where(F.col("amount") >= 100)
        return payments.select("key", F.to_json(_converted()).alias("value")), "append"
    if arguments.program == "advanced":
        return _advanced(records, arguments.output), "append"
    if arguments.program == "word_count":
        words = records.select(
            F.explode(F.split(F.rtrim(F.col("value").cast("string")), " ")).alias("key")
        )
        return _counted(words), "update"
    if arguments.program == "count":
        return _counted(records.select(F.col("key").cast("string").alias("key"))), "update"
    raise ValueError(arguments.program)


def _counted(keys: DataFrame) -> DataFrame:
    """Counts by key, as the eight bytes that every peer writes."""
    counts = keys.groupBy("key").count()
    return counts.select("key", F.col("count").cast("binary").alias("value"))


def _payments(records: DataFrame) -> DataFrame:
    parsed = F.from_json(F.col("value").cast("string"), _PAYMENT).alias("payment")
    return records.select("key", parsed).select("key", "payment.*")


def _converted(*more: Column) -> Column:
    """A payment with its euro amount and two fields renamed."""
    return F.struct(
        "id",
        "ts",
        "amount",
        "currency",
        F.col("account").alias("account_id"),
        F.col("merchant").alias("merchant_id"),
        "country",
        "channel",
        "status",
        "category",
        "device",
        "pad",
        F.round(F.col("amount") * 0.908, 3).alias("amount_eur"),
        *more,
    )


def _advanced(records: DataFrame, output: str) -> DataFrame:
    legs = _payments(records).select("*", F.explode(F.array(F.lit(0), F.lit(1))).alias("leg"))
    kept = legs.where((F.col("id") + F.col("leg")) % 5 != 0)
    branch = (
        F.when(F.col("currency") == "EUR", "eur")
        .when(F.col("currency") == "USD", "usd")
        .otherwise("other")
    )
    return kept.select(
        F.concat(F.lit(f"{output}-"), branch).alias("topic"),
        F.col("account").alias("key"),
        F.to_json(_converted(F.col("leg"))).alias("value"),
    )


def _joined(spark: SparkSession, arguments: AppArguments) -> DataFrame:
    """Orders with their payments, within five seconds to either side."""
    orders = _side(spark, arguments, arguments.input, "order")
    payments = _side(spark, arguments, f"{arguments.input}-payments", "payment")
    window = F.expr(
        "order_key = payment_key"
        " AND payment_time BETWEEN order_time - INTERVAL 5 SECONDS"
        " AND order_time + INTERVAL 5 SECONDS"
    )
    joined = orders.join(payments, window, _JOIN_PROGRAMS[arguments.program])
    nothing = F.lit(b"-")
    return joined.select(
        F.coalesce("order_key", "payment_key").alias("key"),
        F.concat(
            F.coalesce("order_value", nothing), F.lit(b"+"), F.coalesce("payment_value", nothing)
        ).alias("value"),
    )


def _side(spark: SparkSession, arguments: AppArguments, topic: str, name: str) -> DataFrame:
    records = source(spark, arguments, topic, topics=2)
    named = records.select(
        F.col("key").alias(f"{name}_key"),
        F.col("value").alias(f"{name}_value"),
        F.col("timestamp").alias(f"{name}_time"),
    )
    return named.withWatermark(f"{name}_time", _JOIN_GRACE)


def _closed(records: DataFrame, program: str) -> DataFrame:
    """One row for each key and window, or session, when it is over."""
    numbers = records.select(
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").cast("long").alias("number"),
        "timestamp",
    ).withWatermark("timestamp", _GRACE)
    if program == "sessions":
        span = F.session_window("timestamp", _GAP)
    elif program == "hopping":
        span = F.window("timestamp", "10 seconds", "2 seconds")
    else:
        span = F.window("timestamp", "10 seconds")
    rows = numbers.groupBy("key", span.alias("span")).agg(
        F.count("number").alias("count"),
        F.sum("number").alias("total"),
        F.min("number").alias("low"),
        F.max("number").alias("high"),
    )
    name = [F.col("key"), F.lit("@"), F.unix_millis("span.start").cast("string")]
    if program == "sessions":
        last = F.unix_millis(F.col("span.end") - F.expr(f"INTERVAL {_GAP}"))
        name += [F.lit("-"), last.cast("string")]
    return rows.select(
        F.concat(*name).alias("key"),
        F.concat_ws(",", "count", "total", "low", "high").alias("value"),
    )


def start(spark: SparkSession, arguments: AppArguments) -> StreamingQuery:
    """Start the query; it goes on from its checkpoint when there is one."""
    rows, mode = program(spark, arguments)
    writer = (
        rows.writeStream.format("kafka")
        .outputMode(mode)
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("checkpointLocation", str(Path(arguments.state_dir) / "checkpoint"))
        .trigger(processingTime=f"{arguments.commit_ms} milliseconds")
    )
    if arguments.program != "advanced":
        writer = writer.option("topic", arguments.output)
    return writer.start()


def main() -> None:
    """Run the query until standard input says stop."""
    emit("main")
    arguments = parse_arguments()
    spark = session(arguments)
    spark.sparkContext.setLogLevel("WARN")
    emit("session")
    queries: list[StreamingQuery] = []

    def begin() -> None:
        queries.append(start(spark, arguments))
        emit("running")

    def end() -> None:
        queries.pop().stop()
        emit("closed")

    obey(begin, end)
    spark.stop()


if __name__ == "__main__":
    main()
