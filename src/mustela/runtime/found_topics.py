"""Which topics do the patterns of an application's sources match?"""

from __future__ import annotations

from collections.abc import Iterable

from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.epoch_record import epochs_topic
from mustela.runtime.lease import lease_topic

__all__ = ["with_found"]

_KAFKAS_OWN = "__"


def with_found(plan: Plan, application_id: str, known: Iterable[str], there: Iterable[str]) -> Plan:
    """Return the plan that reads the topics which its patterns match.

    Args:
        plan: A plan, which may read found topics already.
        application_id: The application, whose internal topics no pattern matches.
        known: Topics that were found before, in the order in which they were found: it is the
            order of their records, so it is kept with each epoch.
        there: All topics of the cluster. New ones come in the order of their names.

    Raises:
        SourceConflictError: If two sources match the same topic.
    """
    if not plan.has_patterns:
        return plan
    internal = {changelog_topic(application_id, log) for log in plan.log_names.values()}
    internal |= {epochs_topic(application_id), lease_topic(application_id)}
    new = sorted(
        topic for topic in there if topic not in internal and not topic.startswith(_KAFKAS_OWN)
    )
    return plan.with_topics([*known, *new])
