"""Finds the topics that match the patterns of an application's sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mustela.config.settings import Settings
from mustela.plan.dead_letter import replays_topic
from mustela.plan.epoch import changelog_topics, history_topic
from mustela.plan.plan import Plan
from mustela.runtime.lease import lease_topic
from mustela.runtime.record.epoch_record import epochs_topic
from mustela.runtime.topics.neighbours import CHANGELOG

__all__ = ["internal_topics_of", "with_found"]

_KAFKAS_OWN = "__"


def internal_topics_of(
    application_id: str, topics: Iterable[str], own: Collection[str] = ()
) -> list[str]:
    """Return those of ``topics`` that an application created for itself, by name, in order.

    This includes the changelog of a store that is no longer in the program. The changelogs of
    ``a-b`` begin with ``a-`` too, but do not belong to ``a``: an application is recognized by its
    epochs topic.

    Args:
        application_id: The application.
        topics: All topics of the cluster.
        own: Topics that are known to be its own, whatever other applications exist.

    Example:
        >>> internal_topics_of("a", ["a-epochs", "a-lease", "a-n-changelog", "a-n", "ab-lease"])
        ['a-epochs', 'a-lease', 'a-n-changelog']
        >>> internal_topics_of("a", ["a-n-changelog", "a-b-n-changelog", "a-b-epochs"])
        ['a-n-changelog']
    """
    there = set(topics)
    named = (epochs_topic(application_id), lease_topic(application_id))
    mine = {*named, history_topic(application_id), *own} & there
    end = epochs_topic("")
    applications = (topic.removesuffix(end) for topic in there if topic.endswith(end))
    others = tuple(f"{name}-" for name in applications if name.startswith(f"{application_id}-"))
    logs = {
        topic
        for topic in there
        if topic.startswith(f"{application_id}-")
        and topic.endswith(CHANGELOG)
        and not topic.startswith(others)
    }
    return sorted(mine | logs)


def with_found(plan: Plan, settings: Settings, known: Iterable[str], there: Iterable[str]) -> Plan:
    """Return the plan with the topics that match its patterns.

    No pattern matches Kafka's internal topics, those that the application creates, or its
    dead-letter topic: a dead letter that fails again would be written endlessly.

    Args:
        plan: A plan, which may read found topics already.
        settings: Name the application and its dead-letter topic.
        known: Topics that were found before, in that order: it is the order of their records, so it
            is stored with each epoch.
        there: All topics of the cluster. New ones are added in the order of their names.

    Raises:
        SourceConflictError: If two sources match the same topic.
    """
    if not plan.has_patterns:
        return plan
    name, letters = settings.application_id, settings.dead_letter_topic
    topics = [*known, *sorted(there)]
    own = changelog_topics(name, plan)
    left_out = {*internal_topics_of(name, topics, own), letters, replays_topic(letters)}
    return plan.with_topics(
        topic for topic in topics if not (topic.startswith(_KAFKAS_OWN) or topic in left_out)
    )
