"""Know who is online: repeats are left out, and a row expires after a minute of silence.

    mustela broker start
    mustela topics create e11_presence:app
    mustela run e11_presence:app

and in a second terminal, with times of the last hours:

    now=$(date +%s)
    mustela send heartbeats - --format json <<END
    {"key": "ann", "timestamp": $((now - 90))000, "value": "17"}
    {"key": "ann", "timestamp": $((now - 88))000, "value": "17"}
    {"key": "bob", "timestamp": ${now}000, "value": "1"}
    END
    mustela tail online --value int --from-beginning

A sender repeats a heartbeat until it is acknowledged: ``distinct`` passes each number once.
``ttl`` deletes a row that was not written for a minute, and the table emits a null value, so
everything derived from the row ends with it.
"""

from __future__ import annotations

from datetime import timedelta

from mustela import App, Materialized, StreamsBuilder

app = App("presence")


@app.topology
def build(builder: StreamsBuilder) -> None:
    beats = builder.stream("heartbeats", key=str, value=str)
    once = beats.distinct(
        within=timedelta(minutes=1), key=lambda user, beat: (user, beat), store="beats-heard"
    )
    lately = Materialized(store="online", ttl=timedelta(minutes=1))
    once.group_by_key().count(materialized=lately).to_stream().to("online")


if __name__ == "__main__":
    app.run()
