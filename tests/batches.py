"""Batches without Spark: the same road, with the tasks in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mustela import App
from mustela.runtime.batch import BatchRequest, BatchResult, request_of
from mustela.spark.arrow import arrow as pa
from mustela.spark.batch.run import check_request, run_batch
from tests.inline_engine import InlineEngine

__all__ = ["batched", "rows", "table"]


def batched(app: App, inputs: Mapping[str, Any], **options: Any) -> BatchResult:
    """Run a batch as `mustela.batch` does."""
    request: BatchRequest = request_of(app, inputs, **options)
    check_request(request)
    engine = InlineEngine()
    try:
        return run_batch(request, engine, _no_spark)
    finally:
        engine.close()


def _no_spark() -> Any:
    msg = "this needs Spark"
    raise AssertionError(msg)


def table(*records: tuple[Any, Any, int]) -> Any:
    """Return records of key, value and timestamp as an Arrow table."""
    keys, values, times = zip(*records, strict=True) if records else ((), (), ())
    return pa.table({"key": list(keys), "value": list(values), "timestamp": list(times)})


def rows(result: BatchResult, topic: str) -> list[tuple[Any, Any, int]]:
    """Return key, value and timestamp of what was written, in order."""
    found = result.to_arrow(topic).to_pylist()
    return [(r["key"], r["value"], round(r["timestamp"].timestamp() * 1000)) for r in found]
