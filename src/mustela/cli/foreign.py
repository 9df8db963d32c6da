"""What another program than Mustela made is not deleted by the names of its topics alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

from cyclopts import Parameter

from mustela.cli.living import watch_of
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.connectors.kafka.admin import KafkaAdmin

__all__ = ["Deletion", "ForeignApplicationError", "WithoutRecord", "refuse_foreign"]

_SHOWN = 5

WithoutRecord = Annotated[
    bool,
    Parameter(
        name="--without-record",
        negative=(),
        help="Go ahead even if no epoch of Mustela explains the changelogs and the group: they may"
        " be those of a Kafka Streams application with this id.",
    ),
]


class ForeignApplicationError(UsageError):
    """Changelogs or a group of this name exist, and nothing shows that Mustela made them."""

    code = "FOREIGN_APPLICATION"


class Deletion(Protocol):
    """What would be deleted."""

    @property
    def topics(self) -> list[str]:
        """The topics."""
        ...

    @property
    def group(self) -> bool:
        """Whether the group has offsets."""
        ...


def refuse_foreign(
    plan: Deletion, settings: Settings, admin: KafkaAdmin, *, without_record: bool
) -> None:
    """Refuse to delete changelogs with rows, and a group with offsets, that Mustela did not make.

    That it made them is shown by its epochs topic, or by the lease of an instance that made a
    claim, which is kept for an hour.

    Args:
        plan: What would be deleted.
        settings: Name the application.
        admin: Knows the ends of topics.
        without_record: Whether that was allowed.

    Raises:
        ForeignApplicationError: If nothing shows it.
    """
    from mustela.runtime.record.epoch_record import epochs_topic
    from mustela.runtime.topics.neighbours import CHANGELOG

    name = settings.application_id
    logs = [topic for topic in plan.topics if topic.endswith(CHANGELOG)]
    if without_record or not (logs or plan.group):
        return
    full = _with_rows(admin, [*logs, *({epochs_topic(name)} & {*plan.topics})])
    if epochs_topic(name) in full or not (full or plan.group):
        return
    with watch_of(settings) as watch:
        if watch.has_run():
            return
    what = [f"topic {topic}" for topic in full[:_SHOWN]]
    what += [f"{len(full) - _SHOWN} more topics"] if len(full) > _SHOWN else []
    what += [f"offsets of group {name}"] if plan.group else []
    msg = f"nothing shows that Mustela made what is called {name}"
    raise ForeignApplicationError(
        msg,
        evidence={"found": ", ".join(what), "epochs topic": f"{epochs_topic(name)} has no records"},
        why="a Kafka Streams application with this id has changelogs and a group of the same names",
        fix="check the application's id; if all of this may go, add --without-record",
    )


def _with_rows(admin: KafkaAdmin, topics: list[str]) -> list[str]:
    from mustela.model import TopicPartition

    places = [
        TopicPartition(topic, partition)
        for topic, found in admin.describe(topics).items()
        for partition in range(found.partitions)
    ]
    ends = admin.end_offsets(places) if places else {}
    return sorted({place.topic for place, end in ends.items() if end > 0})
