"""mustela check: could an application continue from where its last run left off, and how?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mustela.cli.applications import Assignments, Target, parse_assignments
from mustela.cli.console import ExitCode, Json, exit_code_of, print_json, say
from mustela.cli.loading import load_app
from mustela.clock import SystemClock

if TYPE_CHECKING:
    from mustela.runtime.gate.differences import Difference

__all__ = ["check"]


def check(target: Target, /, *, set: Assignments = None, json: Json = False) -> int:
    """Compare the program with what its last run left in Kafka, without starting anything.

    Prints each difference with what a start would do: go on, migrate, or stop. Meant to run before
    a release: the exit code is 0 if a start would go on; otherwise it is that of the stop.

    Args:
        target: The module, and the name of the application in it.
        set: Settings, as for a run.
        json: Print one JSON document.
    """
    from mustela.runtime.gate.answers import stop_of
    from mustela.runtime.gate.gate import Gate
    from mustela.runtime.kafka_world import kafka_world

    app = load_app(target)
    app.configure(**parse_assignments(set or ()))
    settings = app.settings
    name = settings.application_id
    world = kafka_world(settings, SystemClock())
    try:
        seen = Gate(settings, world).look(app.built_plan())
    finally:
        world.cluster.close()
    stop = stop_of(seen.found, name)
    if json:
        document = {
            "application_id": name,
            "epoch": seen.record.epoch if seen.record else None,
            "goes_on": stop is None,
            "differences": [_document(difference, name) for difference in seen.found],
        }
        print_json(document)
        return ExitCode.OK if stop is None else exit_code_of(stop)
    for difference in seen.found:
        row = _document(difference, name)
        print(f"{row['answer']}: {row['text']}")
    if stop is not None:
        say(str(stop))
        return exit_code_of(stop)
    if seen.record is None:
        print(f"{name} has not run on these brokers yet: a start would begin from scratch")
    else:
        print(f"{name} goes on after epoch {seen.record.epoch}")
    return ExitCode.OK


def _document(difference: Difference, application_id: str) -> dict[str, Any]:
    from mustela.runtime.gate.answers import ANSWERS, told

    answer = ANSWERS[difference.kind]
    code = {"code": answer.error.code} if answer.why else {}
    return {
        "kind": difference.kind.value,
        "subject": difference.subject,
        "answer": answer.verdict.value,
        "then": difference.then,
        "now": difference.now,
        "text": told(difference, application_id),
        **code,
    }
