"""Join offers with the answers to them, and say which were never answered: two streams and time.

    mustela broker start
    mustela topics create e05_offers:app
    mustela run e05_offers:app

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send offers - --format json <<END
    {"key": "o-1", "timestamp": $((now - 9000))000, "value": "boat"}
    {"key": "o-2", "timestamp": $((now - 9000))000, "value": "house"}
    {"key": "o-3", "timestamp": ${now}000, "value": "bike"}
    END
    mustela send answers - --format json <<END
    {"key": "o-1", "timestamp": $((now - 8000))000, "value": "yes"}
    {"key": "o-3", "timestamp": ${now}000, "value": "no"}
    END
    mustela tail decided --from-beginning

An answer counts for an hour. ``grace`` is how late a record may arrive; an offer without an
answer is emitted when the hour and the grace have passed, never earlier, so "no answer" is final.
State is bounded: a record that can no longer meet a partner is removed.
"""

from __future__ import annotations

from datetime import timedelta

from mustela import App, JoinWindows, StreamsBuilder

AN_HOUR = JoinWindows(before=timedelta(0), after=timedelta(hours=1), grace=timedelta(minutes=5))

app = App("offers")


def decide(offer: str, answer: str | None) -> str:
    return f"{offer}: {answer or 'no answer'}"


@app.topology
def build(builder: StreamsBuilder) -> None:
    offers = builder.stream("offers", key=str, value=str)
    answers = builder.stream("answers", key=str, value=str)
    decided = offers.left_join(answers, decide, windows=AN_HOUR, name="decided")
    decided.to("decided", value=str)


if __name__ == "__main__":
    app.run()
