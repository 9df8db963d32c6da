"""What others do to the topics that an application reads, and to its group, while it runs."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Producer

from mustela.connectors.kafka.admin import KafkaAdmin
from tests.faults.campaign import Campaign
from tests.faults.kinds.kind import Kind
from tests.faults.kinds.moments import newest_moment
from tests.faults.life import Life, require
from tests.faults.shocks.shock import Profile, Shock
from tests.faults.watch import ends_of
from tests.integration.kafka_rows import add_partitions
from tests.patience import PATIENCE_S

__all__ = ["SHOCKS"]

OPEN_S = (1.0, 4.0)
RECORDS = 20
KEYS_MAY_MOVE = {"word_count", "transfers", "shared", "timers", "replies"}
"""Kinds that mean the same whichever partition a key's records are in."""


def _producer(life: Life, **more: str) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": life.campaign.servers,
        "partitioner": "murmur2_random",
        "log_level": 0,
        **more,
    }
    return Producer(settings)


def _produce(life: Life, producer: Producer, count: int, **where: int) -> None:
    """Write records that nobody else writes.

    Where records have times of their own, theirs are those of the records around them: a number far
    ahead would be a time far ahead, and all that comes after it late.
    """
    campaign = life.campaign
    for _ in range(count):
        campaign.more_records += 1
        sent = campaign.facts.make(life.random, 10_000_000 + campaign.more_records)
        now = newest_moment(campaign.feeder.made)
        when: dict[str, Any] = {} if sent.timestamp is None else {"timestamp": now}
        topic = f"{campaign.prefix}.{sent.topic}"
        producer.produce(topic, sent.value, key=sent.key, **where, **when)
    require(producer.flush(PATIENCE_S) == 0, "the broker takes nothing")


def hang_upstream(life: Life) -> str:
    """Let a producer hang with an open transaction; in the end it commits or aborts."""
    life.child()
    campaign = life.campaign
    campaign.hung += 1
    producer = _producer(life, **{"transactional.id": f"{campaign.prefix}-hung-{campaign.hung}"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    _produce(life, producer, RECORDS)
    time.sleep(life.random.uniform(*OPEN_S))
    places = [(campaign.input, p) for p in range(campaign.partitions("in"))]
    stable, ends = campaign.admin.end_offsets(places), campaign.admin.high_watermarks(places)
    held = sum(ends[place] - stable[place] for place in ends)
    if life.random.random() < 0.5:
        producer.commit_transaction(PATIENCE_S)
        how = "committed"
    else:
        producer.abort_transaction(PATIENCE_S)
        how = "aborted"
    require(held > 0, "nothing was held")
    return f"{held} records were held by an open transaction, which was {how}"


def delete_group(life: Life) -> str:
    """Delete the group's committed offsets, while the application runs or is down."""
    life.child()
    campaign = life.campaign
    is_down = life.random.random() < 0.5
    if is_down:
        life.kill_app()
        left = _delete_group(campaign)
    else:
        point = "committed"
        life.halt(point)
        try:
            left = _delete_group(campaign)
        finally:
            life.release(point)
    require(not left, f"the group has offsets: {left}")
    return f"the group has no offsets, {'while down' if is_down else 'while it ran'}"


def _delete_group(campaign: Campaign) -> object:
    """Delete the offsets, by a client of its own, as a tool does; return what is left."""
    admin = KafkaAdmin({"bootstrap.servers": campaign.servers})
    try:
        admin.delete_group(campaign.application_id)
        return admin.group_offsets(campaign.application_id)
    finally:
        admin.close()


def add_partition(life: Life) -> str:
    """Give the source one partition more, with records; the application reads them."""
    life.child()
    campaign = life.campaign
    count = campaign.partitions("in") + 1
    require(count <= 6, "it has enough")
    add_partitions({"bootstrap.servers": campaign.servers}, campaign.input, count)
    campaign.widened["in"] = count
    place = campaign.input, count - 1
    deadline = time.monotonic() + PATIENCE_S
    producer = _producer(life)
    while campaign.admin.partitions(campaign.input, refresh=True) < count:
        require(time.monotonic() < deadline, "the partition is not there")
        time.sleep(0.1)
    _produce(life, producer, RECORDS, partition=count - 1)
    while not ends_of(campaign.watcher.seen.records[-1]).get(place):
        child = campaign.child
        if child is None or child.returncode is not None or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    end = ends_of(campaign.watcher.seen.records[-1]).get(place, 0)
    return f"{place[0]} has {count} partitions, {end} records of the new one were read at once"


def _reads(kind: Kind, _profile: Profile) -> bool:
    return bool(kind.inputs)


def _may_widen(kind: Kind, _profile: Profile) -> bool:
    from tests.faults.kinds.registry import KINDS

    return any(KINDS.get(name) is kind for name in KEYS_MAY_MOVE)


SHOCKS = [
    Shock(name="hang-upstream", strike=hang_upstream, weight=2, fits=_reads),
    Shock(name="delete-group", strike=delete_group, weight=2, fits=_reads),
    Shock(name="add-partition", strike=add_partition, weight=1, fits=_may_widen),
]
