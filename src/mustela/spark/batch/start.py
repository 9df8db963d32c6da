"""A batch on Spark: the session that it runs in, and what has to be installed."""

from __future__ import annotations

import atexit
from dataclasses import replace
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mustela.runtime.batch import BatchRefusedError, BatchRequest, BatchResult
from mustela.runtime.engine import EngineOptions
from mustela.spark.batch.run import BatchRunner, check_request, run_batch
from mustela.spark.session import lingers, open_context

__all__ = ["start_batch"]


class _Engine(BatchRunner, Protocol):
    def start(self, options: EngineOptions) -> None: ...

    def stop(self) -> None: ...


def start_batch(engine: _Engine, request: BatchRequest) -> BatchResult:
    """Run a batch in the session of its inputs, of the program, or a new one.

    Args:
        engine: The engine, not yet started.
        request: What to run.

    Raises:
        BatchRefusedError: If the application cannot run as a batch, or Spark runs on other hosts.
    """
    check_request(request)
    session = _session(request)
    context: Any = session.sparkContext
    if not str(context.master).startswith("local"):
        msg = f"a batch runs on this host, and Spark's master is {context.master}"
        raise BatchRefusedError(
            msg,
            why="records and state are in files that all tasks share",
            fix="give a session with master local[*]",
        )
    options = EngineOptions.of(
        request.settings, session=session, debug=request.debug, say=_say_nothing
    )
    engine.start(replace(options, logs=None))
    try:
        return run_batch(request, engine, lambda: session)
    finally:
        engine.stop()


def _session(request: BatchRequest) -> Any:
    """Return a session: a new one lives as long as the process, as DataFrames are read later."""
    if request.session is not None:
        given = request.session
        return SparkSession(given) if isinstance(given, SparkContext) else given
    for given in request.inputs.values():
        session = getattr(given.data, "sparkSession", None)
        if session is not None:
            return session
    active: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if active is None or lingers(active):
        active = open_context(request.settings.application_id, dict(request.settings.spark))
        atexit.register(active.stop)
    return SparkSession(active)


def _say_nothing(_text: str) -> None:
    """Nobody is told."""
