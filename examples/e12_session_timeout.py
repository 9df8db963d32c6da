"""Notice when a visitor has done nothing for half an hour: a timer per key.

    mustela broker start
    mustela topics create e12_session_timeout:app
    mustela run e12_session_timeout:app

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send clicks - --format json <<END
    {"key": "ann", "timestamp": $((now - 9000))000, "value": "home"}
    {"key": "ann", "timestamp": $((now - 8000))000, "value": "cart"}
    {"key": "bob", "timestamp": ${now}000, "value": "home"}
    END
    mustela tail sessions --from-beginning

Each click moves the visitor's one timer to half an hour after it. When event time gets there,
there was no other click in between: the session is over, and an alert says how long it was. Event
time advances with the clicks of all visitors, also while this one is away.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mustela import App, ProcessorContext, Record, Stores, StreamsBuilder
from mustela.processors import ContextualProcessor, Timer
from mustela.stores import StoreBuilder

TIMEOUT = timedelta(minutes=30)

app = App("session-timeout")


@dataclass(frozen=True)
class Session:
    started: int
    clicks: int


@dataclass(frozen=True)
class Alert:
    clicks: int
    seconds: int


class SessionTimeout(ContextualProcessor[str, str, str, Alert]):
    @staticmethod
    def stores() -> list[StoreBuilder]:
        sessions = Stores.persistent_key_value_store("open-sessions")
        return [Stores.key_value_store_builder(sessions, key=str, value=Session)]

    def init(self, context: ProcessorContext[str, Alert]) -> None:
        super().init(context)
        self.sessions = context.state_store("open-sessions")

    def process(self, record: Record[str, str]) -> None:
        known = self.sessions.get(record.key) or Session(record.timestamp, 0)
        self.sessions.put(record.key, Session(known.started, known.clicks + 1))
        self.context.register_event_time_timer(record.time + TIMEOUT)

    def on_timer(self, timer: Timer[str], context: ProcessorContext[str, Alert]) -> None:
        session = self.sessions.delete(timer.key)
        seconds = (timer.timestamp - session.started) // 1_000
        context.forward(timer.with_value(Alert(session.clicks, seconds)))


@app.topology
def build(builder: StreamsBuilder) -> None:
    clicks = builder.stream("clicks", key=str, value=str)
    alerts = clicks.process(SessionTimeout, name="session-timeout")
    alerts.to("sessions", key=str, value=Alert)


if __name__ == "__main__":
    app.run()
