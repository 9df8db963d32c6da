"""The program whose copies a reader of committed state opens."""

from __future__ import annotations

from pathlib import Path

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.admin import KafkaAdmin
from mustela.plan.epoch import Program, changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.topics.staleness import stale_ages

__all__ = ["program_of"]


def program_of(
    settings: Settings, plan: Plan, record: EpochRecord, admin: KafkaAdmin, root: Path
) -> Program:
    """Return the program as a reader's copies know it.

    Args:
        settings: Name the application and the brokers.
        plan: The stores.
        record: The last epoch, with the program's names of stores.
        admin: Queries for topics.
        root: The directory of the copies.
    """
    name = settings.application_id
    logs = [changelog_topic(name, spec.log_name) for _, spec in plan.stores.values() if spec.logged]
    there = admin.describe(logs)
    return Program(
        identity=f"replica of {name}",
        application_id=name,
        cluster_id=admin.cluster_id(),
        plan=plan,
        lanes=1,
        key_groups=record.key_groups,
        guarantee=settings.processing_guarantee,
        kernel={"event_time": record.event_time or settings.event_time},
        consumer=client_properties(settings, "consumer"),
        producer={},
        state_dir=str(root),
        saved_dir="" if root == settings.state_dir else str(settings.state_dir),
        map_size=settings.state.map_size,
        stale_after_ms=stale_ages(admin.configs(there)),
        life=record.life,
        changelog_ids={
            store: state.changelog_id
            for store, state in record.stores.items()
            if state.changelog_id
        },
        adopts_unnamed=record.adopts_unnamed,
    )
