"""Mustela as a peer: runs one program until standard input says stop.

Run by `mustela_peer.py` as `python -m benchmarks.peers.mustela_app`; its settings come from the
environment, as an operator would give them.
"""

from __future__ import annotations

import os
from datetime import timedelta

from benchmarks.peers.app_protocol import AppArguments, emit, obey, parse_arguments
from benchmarks.peers.mustela_programs import PROGRAMS
from benchmarks.peers.store_asker import obeyed
from benchmarks.peers.store_reader import StoreReader, measured_gets
from mustela import App
from mustela.runtime.app import AppState
from mustela.runtime.events import Event, Restoring, StateChanged

_CLOSE_TIMEOUT = timedelta(seconds=60)


class Reporter:
    """Passes the application's states on to the harness."""

    def __init__(self, app: App) -> None:
        self._app = app

    def on_event(self, event: Event) -> None:
        """Say what the harness wants to know."""
        if isinstance(event, Restoring):
            if event.done == 0:
                emit("restore_start")
            else:
                emit("restore_end", groups=event.done, records=sum(event.records.values()))
        elif isinstance(event, StateChanged):
            if event.state is AppState.RESTORING:
                emit("session")
            elif event.state is AppState.RUNNING:
                emit("running")
            elif event.state is AppState.FAILED:
                emit("error", error=str(self._app.error))

    def on_error(self, error: BaseException) -> None:
        """A failure that is tried again; it shows in the log."""
        emit("retry", error=str(error).splitlines()[0])


def new_app(arguments: AppArguments) -> App:
    """The application, as a user writes it."""
    app = App(arguments.app_id)
    app.topology(PROGRAMS[arguments.program](arguments.input, arguments.output))
    app.add_listener(Reporter(app))
    return app


def main() -> None:
    """Run until standard input says stop."""
    emit("main")
    arguments = parse_arguments()
    apps: list[App] = []
    readers: list[StoreReader] = []

    def begin() -> None:
        apps.append(new_app(arguments))
        apps[-1].start()

        if rate := int(os.environ.get("BENCH_GETS_PER_S", "0")):
            readers.append(StoreReader(apps[-1], rate))
            readers[-1].start()

    def end() -> None:
        while readers:
            readers.pop().end()
        app = apps.pop()
        app.close(_CLOSE_TIMEOUT)
        if app.error is not None:
            raise app.error
        emit("closed")

    obey(
        begin,
        end,
        {
            "gets": lambda count: emit("gets", **measured_gets(apps[-1], int(count))),
            "ask": lambda asked: obeyed(apps[-1], asked),
        },
    )


if __name__ == "__main__":
    main()
