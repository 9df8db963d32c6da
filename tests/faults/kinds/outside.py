"""Applications that ask others: a service, and somebody behind a topic."""

from __future__ import annotations

import os
import random
import urllib.request
from collections import Counter, defaultdict
from datetime import timedelta

from mustela import StreamsBuilder
from mustela.calls import AsyncCall, AsyncOptions, RequestReply
from tests.faults.kinds.kind import (
    SHOWN_MAX,
    Inputs,
    Kind,
    Rows,
    Sent,
    differences,
    every,
    text,
)
from tests.faults.watch import Seen


def asking(builder: StreamsBuilder, prefix: str) -> None:
    """Ask a service for each record; what is not answered in time is parked."""
    url = os.environ["FAULTS_URL"]

    def ask(path: str, call: AsyncCall) -> str:
        headers = {"Idempotency-Key": call.idempotency_key}
        request = urllib.request.Request(f"{url}/{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            return str(answer.read().decode())

    paths = builder.stream(f"{prefix}.in", key=str, value=str)
    patient = AsyncOptions(timeout=timedelta(minutes=5))
    paths.map_values_async(ask, patient, value=str, name="ask").to(
        f"{prefix}.out", key=str, value=str
    )


def asked_path(rng: random.Random, number: int) -> Sent:
    """Make a path of a service; for some the answer takes longer than an epoch waits."""
    delay = rng.choices((0, 0.1, 0.6), (7, 2, 1))[0]
    return Sent(f"k{rng.randrange(400)}", f"p{number}?delay={delay}" if delay else f"p{number}")


class Answers:
    """Each record has one answer, and those of a key are in the order of its records."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        return sum(map(len, inputs.values())) - len(rows["out"])

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        wanted: dict[str, list[str]] = defaultdict(list)
        for row in every(inputs):
            wanted[text(row.key)].append(text(row.value).partition("?")[0].upper())
        got: dict[str, list[str]] = defaultdict(list)
        for row in rows["out"]:
            got[text(row.key)].append(text(row.value))
        return [
            f"key {key}: {got[key][:SHOWN_MAX]}... is not {wanted[key][:SHOWN_MAX]}..., "
            f"{len(got[key])} answers to {len(wanted[key])} records"
            for key in sorted(wanted.keys() | got.keys())
            if got[key] != wanted[key]
        ]


def joined(value: str, reply: str) -> str:
    """Show a value beside its reply."""
    return f"{value}={reply}"


def replies(builder: StreamsBuilder, prefix: str) -> None:
    """Ask somebody else by topic for each record, and wait for the reply."""
    values = builder.stream(f"{prefix}.in", key=str, value=str)
    told = builder.stream(f"{prefix}.replies", key=bytes, value=str)
    asking_for = RequestReply(topic=f"{prefix}.requests", timeout=timedelta(hours=1))
    found = values.request_reply(told, joined, asking_for, name="ask")
    found.to(f"{prefix}.out", key=str, value=str)


def key_of_its_own(_rng: random.Random, number: int) -> Sent:
    """Make a record of a key that no other has."""
    return Sent(f"r{number}", f"v{number}")


class Replies:
    """Each record has asked once, and goes on once with the reply to what it asked."""

    def left(self, inputs: Inputs, rows: Rows) -> int:
        return sum(map(len, inputs.values())) - len(rows["out"])

    def violations(self, inputs: Inputs, rows: Rows, seen: Seen) -> list[str]:
        asked = Counter(text(row.value) for row in every(inputs))
        wanted = Counter(
            (text(row.key), f"{text(row.value)}={text(row.value).upper()}") for row in every(inputs)
        )
        got = Counter((text(row.key), text(row.value)) for row in rows["out"])
        requests = Counter(text(row.value) for row in rows["requests"])
        return [
            *differences("requests", asked, requests),
            *differences("joined with replies", wanted, got),
        ]


KINDS = {
    "asking": Kind(build=asking, make=asked_path, outcome=Answers()),
    "replies": Kind(
        build=replies,
        make=key_of_its_own,
        outcome=Replies(),
        more_inputs=("replies",),
        outputs=("out", "requests"),
    ),
}
