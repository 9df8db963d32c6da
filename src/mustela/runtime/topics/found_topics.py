"""Which topics do the patterns of an application's sources match?"""

from __future__ import annotations

from collections.abc import Iterable

from mustela.config.settings import Settings
from mustela.plan.plan import Plan
from mustela.runtime.lease import lease_topic
from mustela.runtime.record.epoch_record import epochs_topic

__all__ = ["is_internal", "with_found"]

_KAFKAS_OWN = "__"
_CHANGELOG = "-changelog"


def is_internal(application_id: str, topic: str) -> bool:
    """Whether a topic is one that an application makes for itself, by its name.

    So also the changelog of a store that no step of the program has any more is one.

    Example:
        >>> [t for t in ("a-epochs", "a-n-changelog", "a-n", "ab-lease") if is_internal("a", t)]
        ['a-epochs', 'a-n-changelog']
    """
    return topic in {epochs_topic(application_id), lease_topic(application_id)} or (
        topic.startswith(f"{application_id}-") and topic.endswith(_CHANGELOG)
    )


def with_found(plan: Plan, settings: Settings, known: Iterable[str], there: Iterable[str]) -> Plan:
    """Return the plan that reads the topics which its patterns match.

    No pattern matches a topic of Kafka's own, one that the application makes for itself, or the
    one that its dead letters go to: a letter that fails again would be written for ever.

    Args:
        plan: A plan, which may read found topics already.
        settings: Name the application and its dead-letter topic.
        known: Topics that were found before, in the order in which they were found: it is the
            order of their records, so it is kept with each epoch.
        there: All topics of the cluster. New ones come in the order of their names.

    Raises:
        SourceConflictError: If two sources match the same topic.
    """
    if not plan.has_patterns:
        return plan
    name, letters = settings.application_id, settings.dead_letter_topic
    return plan.with_topics(
        topic
        for topic in [*known, *sorted(there)]
        if not (topic.startswith(_KAFKAS_OWN) or topic == letters or is_internal(name, topic))
    )
