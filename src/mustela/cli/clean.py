"""mustela clean: remove all that an application ever made, so that nothing tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mustela.cli.asking import Application, Manner
from mustela.cli.clients import open_admin
from mustela.cli.foreign import WithoutRecord, refuse_foreign
from mustela.cli.repairing import report, settings_of
from mustela.cli.reset import delete_all, planned_lines, reset_plan

if TYPE_CHECKING:
    from mustela.cli.reset import ResetPlan
    from mustela.config.settings import Settings
    from mustela.connectors.kafka.admin import KafkaAdmin

__all__ = ["clean"]

_PLAIN = Manner()


def clean(
    application: Application,
    /,
    *,
    keep_dead_letters: Annotated[bool, Parameter(name="--keep-dead-letters", negative=())] = False,
    without_record: WithoutRecord = False,
    manner: Manner = _PLAIN,
) -> int:
    """Remove all an application made: topics, dead letters, group, open transaction, local state.

    What it reads and what its sinks write stays. Stop it first. As reset, for an application that
    does not come back: dead letters and files beside the state go too.

    Args:
        application: The application, or only its id.
        keep_dead_letters: Keep the topic of dead letters.
        without_record: Do so even if no epoch of Mustela explains changelogs and group.
        manner: How it is done.
    """
    settings = settings_of(application, manner.bootstrap_servers)
    with open_admin(settings.bootstrap_servers) as admin:
        plan = _plan(settings, admin, keep_dead_letters=keep_dead_letters)
        if not (plan.topics or plan.state or plan.group):
            nothing = f"nothing to remove: {plan.application_id} left nothing"
            return report(manner, settings, (), nothing=nothing)
        refuse_foreign(plan, settings, admin, without_record=without_record)
        told = [f"delete {line}" for line in planned_lines(plan)]
        if plan.topics:
            told.append(f"end an open transaction of {plan.application_id}")
        if not delete_all(plan, settings, admin, manner, told):
            return 0
    return report(manner, settings, told)


def _plan(settings: Settings, admin: KafkaAdmin, *, keep_dead_letters: bool) -> ResetPlan:
    from mustela.plan.dead_letter import replays_topic

    plan = reset_plan(settings, admin)
    name, letters = settings.application_id, settings.dead_letter_topic
    topics = set(plan.topics)
    if not keep_dead_letters:
        topics |= set(admin.describe([letters, replays_topic(letters)]))
    beside = (
        settings.state_dir / "~spool" / name,
        settings.state_dir / "~admin" / f"{name}.json",
    )
    state = [*plan.state, *(place for place in beside if place.exists() and not place.is_symlink())]
    return plan._replace(topics=sorted(topics), state=state)
