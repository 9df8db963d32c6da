"""Keep all cores busy with a topic of one partition: work is spread by key, in order per key.

    mustela broker start
    mustela topics create e21_one_partition:app --partitions 1
    seq 20000 | sed 's/.*/& &/' | mustela send work-items - --separator ' '
    mustela run e21_one_partition:app --set lanes=1 --set admin.enabled=true

and in a second terminal:

    mustela top one-partition

It shows one busy lane, and the records per second. Stop the application with Ctrl-C, send the
numbers again, and run it without ``--set lanes=1``: there are as many lanes as Spark has cores,
all of them are busy, and the rate grows with the cores. No topic got more partitions, and no
state was moved: keys belong to 32 key groups, and key groups to lanes.

``repartition`` sends each record to the lane of its key before the slow step; without it the step
runs where the partition is read, in one task. The records of one key stay in order.
"""

from __future__ import annotations

from hashlib import pbkdf2_hmac

from mustela import App, StreamsBuilder

ROUNDS = 2_000  # about a millisecond

app = App("one-partition")


def work(key: str, number: str) -> str:
    """Take a while, as a model or a parser would."""
    return pbkdf2_hmac("sha256", number.encode(), key.encode(), ROUNDS).hex()


@app.topology
def build(builder: StreamsBuilder) -> None:
    numbers = builder.stream("work-items", key=str, value=str).repartition(name="by-key")
    worked = numbers.map_values_with_key(work, value=str, name="work")
    worked.to("worked")
    worked.group_by_key().count(store="done").to_stream().to("done")


if __name__ == "__main__":
    app.run()
