"""SIGKILL to a whole application at phases of the epoch protocol: nothing lost, nothing twice.

A slice of the long run: ``./dev faults`` kills applications of all kinds, at every phase, and many
more times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela_dev import DevelopmentBroker
from tests.faults.campaign import Campaign
from tests.faults.kills import run_kill
from tests.faults.shocks.shock import LANES_WRITE

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.crash,
    pytest.mark.slow,
]

CASES = {
    "word_count": ("in-lane-after-pending:2", "commit-sent:3", "in-recovery:1"),
    "stateless": ("half-produced:3", "flushed:3"),
    "shared": ("in-lane-before-pending:2", "offsets-added:3", "committed:5"),
}

LANES_WRITE_CASES = {
    "word_count": ("in-lane-writing:3", "commit-sent:3", "in-recovery:1"),
    "random_sums": ("in-lane-written:4", "transaction-begun:3"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_killed_application_goes_on_where_its_last_commit_was(
    kind: str, broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """Each epoch's rows are those that its offsets call for; a kill restores nothing."""
    with Campaign(kind, broker.bootstrap_servers, tmp_path, seed=5) as campaign:
        for point in CASES[kind]:
            run_kill(campaign, point)
        result = campaign.finish()

    assert not result.violations, "\n".join(result.violations)
    assert result.kills == len(CASES[kind])
    assert result.epochs > result.kills


@pytest.mark.parametrize("kind", LANES_WRITE_CASES)
def test_a_killed_application_whose_lanes_write_goes_on_where_its_last_commit_was(
    kind: str, broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """What a lane wrote before it died is in no epoch, and no lane's rows are missing in one."""
    servers = broker.bootstrap_servers
    with Campaign(kind, servers, tmp_path, seed=9, environment=LANES_WRITE) as campaign:
        for point in LANES_WRITE_CASES[kind]:
            run_kill(campaign, point)
        result = campaign.finish()

    assert not result.violations, "\n".join(result.violations)
    assert result.kills == len(LANES_WRITE_CASES[kind])
    assert result.epochs > result.kills


def test_readers_see_whole_committed_epochs_whatever_befalls_the_application(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """A kill, lost state, other lanes: each snapshot is what the model has after its epoch."""
    with Campaign("transfers", broker.bootstrap_servers, tmp_path, seed=16) as campaign:
        campaign.kill_at("commit-sent:6")
        campaign.lose_state(0.7)
        campaign.settings["MUSTELA__LANES"] = "3"
        result = campaign.finish()

    assert not result.violations, "\n".join(result.violations)
    assert result.reads > 3, result


def test_at_least_once_loses_nothing_and_repeats_one_epoch(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """What tasks have sent when the kill comes is sent again, and only that."""
    alo = {"MUSTELA__PROCESSING_GUARANTEE": "at_least_once"}
    servers = broker.bootstrap_servers
    with Campaign("stateless", servers, tmp_path, seed=6, environment=alo) as campaign:
        run_kill(campaign, "transaction-begun:3")
        result = campaign.finish()

    assert not result.violations, "\n".join(result.violations)
    assert result.kills == 1


def test_killed_applications_leave_nothing_in_memory_file_systems(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """State on tmpfs is used again by its application, and deleted when it is done."""
    memory = {"MUSTELA__STATE__BACKEND": "memory"}
    servers = broker.bootstrap_servers
    with Campaign("sequence", servers, tmp_path, seed=7, environment=memory) as campaign:
        run_kill(campaign, "committed:3")
        left = campaign.application_id
        # Any application that starts meanwhile deletes what a dead one has left in memory.
        campaign.is_damaged = True
        result = campaign.finish()

    assert not result.violations, "\n".join(result.violations)
    assert not list(Path("/dev/shm").glob(f"mustela-*{left}*"))
