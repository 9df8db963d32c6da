"""A program of a user's, run as ``__main__``: its functions and classes are known only here.

``python app_program.py SETTINGS`` counts the records of each kind until it is told to stop. It says
"running" when it runs, and how it ended.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import msgspec

from mustela import App, StreamsBuilder
from mustela.runtime.events import AppState, Event, StateChanged


@dataclass
class Visit:
    """A value of this program's own."""

    kind: str
    weight: int


class Total(msgspec.Struct):
    """A result of this program's own."""

    weight: int = 0


def kind_of(_key: str, visit: Visit) -> str:
    """A function of this program's own."""
    return visit.kind


class Teller:
    """Prints states."""

    def on_event(self, event: Event) -> None:
        """Print a state."""
        if isinstance(event, StateChanged):
            print(event.state.value, flush=True)

    def on_error(self, error: BaseException) -> None:
        """Print an error."""
        print(f"error: {error}", flush=True)


def main(settings: dict[str, object], source: str, sink: str) -> None:
    """Run until a signal comes."""
    app = App(**settings)  # pyright: ignore[reportArgumentType]

    @app.topology
    def build(builder: StreamsBuilder) -> None:
        visits = builder.stream(source, key=str, value=Visit)
        weights = visits.group_by(kind_of, key=str).aggregate(
            Total,
            lambda _kind, visit, total: Total(total.weight + visit.weight),
            store="weights",
            value=Total,
        )
        weights.to_stream().to(sink, key=str, value=Total)

    app.add_listener(Teller())
    app.run()
    assert app.state is AppState.STOPPED
    print("the end", flush=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(given["settings"], given["source"], given["sink"])
