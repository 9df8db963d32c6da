"""What Spark's JVM and the workers behind it print, in the form of the application's log.

The JVM writes its log, as JSON lines, to its standard output; what workers write comes out of its
standard error. Both are pipes that threads of the driver read, mask and write on. So lines of
several processes do not run into each other, and what is no log line becomes one.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Final

from mustela.clock import Clock, SystemClock
from mustela.logs.form import iso
from mustela.logs.options import LogOptions
from mustela.logs.output import Relay

__all__ = ["is_relayed", "relay", "relay_stream", "set_levels"]

_LINE_MAX: Final = 1 << 20
_LEVELS: Final = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}
_PYTHONS: Final = "mustela"


def relay(
    process: subprocess.Popen[bytes], options: LogOptions, clock: Clock | None = None
) -> list[threading.Thread]:
    """Write on what a JVM prints, in threads that end with it.

    Args:
        process: The JVM; its outputs are pipes.
        options: How the application logs.
        clock: Says when a line without a time came.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    streams = (process.stdout, "spark.stdout"), (process.stderr, "spark.stderr")
    return [relay_stream(stream, source, options, clock) for stream, source in streams]


def relay_stream(
    stream: IO[bytes], source: str, options: LogOptions, clock: Clock | None = None
) -> threading.Thread:
    """Write on what comes out of a pipe, in a thread that ends with it.

    Args:
        stream: The end of the pipe.
        source: What is said of where lines come from.
        options: How the application logs.
        clock: Says when a line without a time came.
    """
    thread = threading.Thread(
        target=_write_on,
        args=(stream, Relay(options, source).line, clock or SystemClock()),
        name=f"mustela-{source}",
        daemon=True,
    )
    thread.start()
    return thread


def _write_on(stream: IO[bytes], line: Callable[[str, str], str], clock: Clock) -> None:
    with stream:
        while data := stream.readline(_LINE_MAX):
            text = data.decode(errors="backslashreplace").rstrip("\r\n")
            with suppress(OSError, ValueError):  # nobody reads standard error any more
                sys.stderr.write(f"{line(text, iso(clock.now_ms() / 1000))}\n")
                sys.stderr.flush()


def is_relayed(context: Any) -> bool:
    """Return whether what the JVM of a context prints is written on by this process."""
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    return process is not None and process.stderr is not None


def set_levels(context: Any, options: LogOptions) -> None:
    """Set the levels of the JVM's loggers that the settings name."""
    log4j = context._jvm.org.apache.logging.log4j
    for name, level in options.loggers:
        if name.partition(".")[0] != _PYTHONS:
            wanted = log4j.Level.valueOf(_LEVELS[level])
            log4j.core.config.Configurator.setLevel(name, wanted)
