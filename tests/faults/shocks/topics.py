"""Source topics that are made anew, cut off or expired: a named stop, and the way on it names.

Each of these loses records. What was read of them before stays counted; results are right with
respect to what is left.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import time
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaException, TopicPartition

from mustela.cli.main import main
from mustela.connectors.kafka.admin import KafkaAdmin, TopicSpec
from mustela.errors import MustelaError
from mustela_dev.broker.settings import LOGS_DIRECTORY
from tests.faults.kinds.kind import Kind
from tests.faults.life import Life, require
from tests.faults.process import ChildEndedError
from tests.faults.shocks.shock import Profile, Shock
from tests.integration.kafka_rows import await_settled
from tests.patience import PATIENCE_S

__all__ = ["SHOCKS"]

Lose = Callable[[Life, KafkaAdmin], str]


def recreate(life: Life, admin: KafkaAdmin) -> str:
    """Delete the topic and make it again."""
    campaign = life.campaign
    before = admin.describe([campaign.input])[campaign.input].topic_id
    admin.delete([campaign.input])
    admin.create([TopicSpec(name=campaign.input, partitions=campaign.partitions("in"))])
    after = admin.describe([campaign.input])[campaign.input].topic_id
    require(before != after, "it is the same topic")
    return f"topic {before} is {after}"


def truncate(life: Life, admin: KafkaAdmin) -> str:
    """Take the log of its partitions away, as a broker that lost its disk does."""
    del admin
    campaign, broker = life.campaign, life.broker
    broker.kill()
    count = 0
    for partition in range(campaign.partitions("in")):
        place = broker.data_dir / LOGS_DIRECTORY / f"{campaign.input}-{partition}"
        require(place.is_dir(), f"{place} does not exist")
        shutil.rmtree(place)
        count += 1
    broker.start()
    return f"{count} logs were deleted"


def expire(life: Life, admin: KafkaAdmin) -> str:
    """Delete records that were not read, as retention does."""
    campaign = life.campaign
    campaign.feeder.write(200)
    places = [(campaign.input, p) for p in range(campaign.partitions("in"))]
    await_settled({"bootstrap.servers": campaign.servers}, campaign.input)
    ends = admin.end_offsets(places)
    wanted = [TopicPartition(place.topic, place.partition, end) for place, end in ends.items()]
    for future in admin._admin.delete_records(wanted).values():
        future.result(PATIENCE_S)
    first = admin.earliest_offsets(places)
    require(first == ends, f"the logs begin at {first}")
    return f"all is deleted up to {list(ends.values())}"


def lose(life: Life, how: Lose, code: str, *, anew: bool) -> str:
    """Lose records of the source, see the named stop, and follow the way on that it names.

    Args:
        life: The application.
        how: Loses them.
        code: Of the error that stops the start.
        anew: Whether offsets begin at 0 again.
    """
    campaign = life.campaign
    admin = KafkaAdmin({"bootstrap.servers": campaign.servers})
    try:
        child = life.child()  # while there is input: it waits for an epoch
        with campaign.feeder.resting():
            code_of_stop = child.stop()
            require(code_of_stop == 0, f"it stopped with {code_of_stop}")
            campaign.child = None
            campaign.watcher.read_to_end()
            campaign.keep_inputs(anew=anew)
            try:
                shown = how(life, admin)
                _renew(life)
                told = _see_stop(life, code)
                _follow(campaign.application_id, campaign.servers)
                campaign.resume_inputs()
            except (KafkaException, MustelaError) as error:
                # Half done it is no fault that could be left out of the count.
                msg = f"records were lost, then: {error}"
                raise ChildEndedError(msg) from error
    finally:
        admin.close()
    life.start()
    life.settle(life.epoch)
    return f"{shown}; {told}; then it went on"


def _renew(life: Life) -> None:
    """Let the feeder find the topic that is there now."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            life.campaign.feeder.renew()
            life.campaign.feeder.write(5)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        else:
            return


def _see_stop(life: Life, code: str) -> str:
    """Start; it must end with the error, and have written nothing."""
    campaign = life.campaign
    seen = campaign.watcher.seen
    before = len(seen.records), sum(map(len, seen.rows.values()))
    child = campaign.start("", **life.environment)
    deadline = time.monotonic() + PATIENCE_S
    while child.returncode is None and time.monotonic() < deadline:
        time.sleep(0.05)
    ends = [event.get("code") for event in child.events() if event["event"] == "end"]
    child.kill()
    campaign.child = None
    campaign.watcher.read_to_end()
    after = len(seen.records), sum(map(len, seen.rows.values()))
    if ends != [code] or after != before:
        msg = f"no stop {code}, but {ends}, rows {before} to {after}: {child.text()}"
        raise ChildEndedError(msg)
    return f"stopped by {code}"


def _follow(application_id: str, servers: str) -> None:
    """Type what the error advises."""
    words = ["offsets", "accept", application_id, "--truncated", "--yes", "-b", servers]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(words)
    if code != 0:
        msg = f"{words} ended with {code}: {said.getvalue()}"
        raise ChildEndedError(msg)


def _one_source(kind: Kind, _profile: Profile) -> bool:
    is_plain = kind.inputs == ("in",) and not kind.more_inputs and not kind.global_inputs
    return kind.model is not None and is_plain


SHOCKS = [
    Shock(
        name="recreate-topic",
        strike=partial(lose, how=recreate, code="SOURCE_TOPIC_RECREATED", anew=True),
        fits=_one_source,
    ),
    Shock(
        name="truncate-topic",
        strike=partial(lose, how=truncate, code="SOURCE_TRUNCATED", anew=True),
        fits=_one_source,
    ),
    Shock(
        name="expire-records",
        strike=partial(lose, how=expire, code="SOURCE_EXPIRED", anew=False),
        fits=_one_source,
    ),
]
