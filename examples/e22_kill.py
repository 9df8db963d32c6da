"""Kill everything at any moment, or lose the broker: no number is missing and none is twice.

    mustela broker start
    mustela topics create e22_kill:app
    mustela run e22_kill:app & app=$!
    seq 1000000 | sed 's/.*/n &/' | mustela send numbers - --separator ' ' &

and while it works, as often as you like:

    kill -9 $app                        # its workers and Spark's JVM end, too
    mustela run e22_kill:app & app=$!   # continues after the last commit

or, when all is sent, take the broker away for a while; the application retries until it is back:

    mustela broker stop && sleep 20 && mustela broker start

At the end the last total is 500000500000, the sum of all numbers, whatever was killed when:

    mustela tail totals --value int --from-beginning

Offsets, stores and results are committed in one Kafka transaction. What was not committed when
everything was killed is aborted, and done again. If the disk is lost too (remove the directory that
``mustela config show`` calls ``state_dir``), the state is restored from the changelogs. A broker
that is away is a fault, which is retried; an error of the program ends it, with an exit code that
says so.
"""

from __future__ import annotations

from mustela import App, StreamsBuilder

app = App("kill")


def plus(_key: str, number: int, total: int) -> int:
    return total + number


@app.topology
def build(builder: StreamsBuilder) -> None:
    numbers = builder.stream("numbers", key=str, value=str).map_values(int, value=int, name="parse")
    totals = numbers.group_by_key().aggregate(int, plus, value=int, store="total", name="total")
    totals.to_stream().to("totals")


if __name__ == "__main__":
    app.run()
