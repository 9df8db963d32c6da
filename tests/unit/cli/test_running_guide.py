"""What the guide tells supervisors is what the program does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mustela import App
from mustela.cli.console import ExitCode
from mustela.config.settings import Settings
from mustela.deploy.manifests import Deployment, manifests

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
GUIDE = (GUIDES / "running.md").read_text(encoding="utf-8")
DEFAULTS = Settings.load({"application_id": "a"}, environ={})
LONGEST_STOP_S = (DEFAULTS.shutdown.grace + DEFAULTS.commit_timeout).total_seconds()


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found
    return found.group(1)


def unit() -> dict[str, str]:
    lines = (line.partition("=") for line in block("ini").splitlines() if "=" in line)
    return {name: value for name, _, value in lines}


def pod() -> dict[str, Any]:
    """What `mustela k8s` prints."""
    app = App("a", {"bootstrap.servers": "kafka:9092"})
    _, stateful_set = manifests(app, Deployment(target="shop:app", image="shop:1.4"))
    return stateful_set["spec"]["template"]["spec"]


def restarted() -> dict[int, bool]:
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", GUIDE, re.MULTILINE)
    return {int(code): answer.startswith("yes") for code, answer in rows}


ANSWERS = {ExitCode.STOPPED, ExitCode.GONE, ExitCode.NEVER_RAN}
"""What `mustela status` says of an application; no run ends with them."""


def test_every_exit_code_is_told_with_what_to_do() -> None:
    """Faults of data and surroundings may pass; the others end the same way again."""
    assert set(restarted()) == {int(code) for code in ExitCode} - ANSWERS
    assert {code for code, again in restarted().items() if again} == {
        ExitCode.FAULT,
        ExitCode.ENVIRONMENT,
    }


def test_the_first_steps_tell_the_codes_of_a_run_too() -> None:
    """In the same words, where they are short."""
    text = (GUIDES / "first_steps.md").read_text(encoding="utf-8")
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert told == {int(code) for code in ExitCode} - {ExitCode.INTERRUPTED, *ANSWERS}


def test_the_unit_restarts_after_what_may_pass_and_never_a_fenced_one() -> None:
    """As the table says; a stop that was asked for is no failure of the unit."""
    told = unit()
    assert told["Restart"] == "on-failure"
    kept_down = {int(code) for code in told["RestartPreventExitStatus"].split()}
    asked_for = {0, int(told["SuccessExitStatus"])}
    assert ExitCode.UNFINISHED in asked_for
    never = {*kept_down, *asked_for, ExitCode.INTERRUPTED, *ANSWERS}
    again = {int(code) for code in ExitCode} - never
    assert again == {code for code, yes in restarted().items() if yes}


def test_supervisors_wait_until_an_epoch_and_its_commit_are_over() -> None:
    """With the defaults of the settings."""
    assert int(unit()["TimeoutStopSec"]) > LONGEST_STOP_S
    assert pod()["terminationGracePeriodSeconds"] > LONGEST_STOP_S


def test_the_settings_of_the_pod_and_the_unit_exist() -> None:
    """And make a fenced pod wait, as Kubernetes restarts whatever the exit code."""
    environ = {entry["name"]: entry["value"] for entry in pod()["containers"][0]["env"]}
    settings = Settings.load({"application_id": "a"}, environ=environ)
    assert settings.standby
    assert settings.state_dir == Path("/state")
    name, _, value = unit()["Environment"].partition("=")
    assert Settings.load({"application_id": "a"}, environ={name: value}).state_dir == Path(
        "/var/lib/shop"
    )


@pytest.mark.parametrize("file", sorted(GUIDES.glob("*.md")), ids=lambda file: file.stem)
def test_guides_point_to_guides_that_exist(file: Path) -> None:
    """Links between them."""
    for target in re.findall(r"\]\(([a-z_]+\.md)", file.read_text(encoding="utf-8")):
        assert (GUIDES / target).is_file(), target
