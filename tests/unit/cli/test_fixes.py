"""What the errors of commands and of applications advise, followed to the letter: it helps."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mustela import App
from mustela.cli import asking, offsets, repairing
from mustela.cli.applications import BadAssignmentError, parse_assignments
from mustela.cli.console import ExitCode
from mustela.cli.main import main
from mustela.cli.records import BadValueError, parse_value
from mustela.cli.reset import Start
from mustela.errors import MustelaError
from mustela.events import AppState
from mustela.runtime.app import AppStateError, UnnamedStepError
from tests.unit.cli.test_main import here  # noqa: F401 - a fixture

BROKEN = "raise RuntimeError('no')\n"
WHOLE = (
    "from mustela import App\napp = App('app')\n"
    "@app.topology\ndef build(builder):\n    builder.stream('lines', key=str, value=str)\n"
)
BARE = "from mustela import App\napp = App('app')\n"


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A command that is refused, what its fix says, and the command or module that follows it."""

    code: str
    fix: str
    wrong: tuple[str, ...]
    right: tuple[str, ...]
    module: str = ""
    mended: str = ""


COMMANDS = [
    Typed(
        code="APP_NOT_FOUND",
        fix="did you mean sampleapp?",
        wrong=("describe", "sampleap:app"),
        right=("describe", "sampleapp:app"),
    ),
    Typed(
        code="APP_NOT_FOUND",
        fix="change to the file's directory and name the module: sampleapp:app",
        wrong=("describe", "./sampleapp.py"),
        right=("describe", "sampleapp:app"),
    ),
    Typed(
        code="APP_NOT_FOUND",
        fix="did you mean sampleapp:app?",
        wrong=("describe", "sampleapp:other"),
        right=("describe", "sampleapp:app"),
    ),
    Typed(
        code="APP_NOT_FOUND",
        fix='write app = App("…")',
        wrong=("describe", "mine:app"),
        right=("describe", "mine:app"),
        module="builder = 1\n",
        mended=WHOLE,
    ),
    Typed(
        code="APP_IMPORT",
        fix="correct the module; --debug shows the full stack trace",
        wrong=("describe", "mine:app"),
        right=("describe", "mine:app"),
        module=BROKEN,
        mended=WHOLE,
    ),
    Typed(
        code="APP_NO_TOPOLOGY",
        fix="decorate a function that takes the builder with @app.topology",
        wrong=("describe", "mine:app"),
        right=("describe", "mine:app"),
        module=BARE,
        mended=WHOLE,
    ),
]


@pytest.mark.parametrize("typed", COMMANDS, ids=lambda typed: typed.code)
def test_the_fix_of_a_command_that_is_refused_helps(
    typed: Typed,
    here: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Typed as the error says, the command does it."""
    module = here / "mine.py"
    if typed.module:
        module.write_text(typed.module)
    assert main([*typed.wrong]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert typed.code in said
    assert typed.fix in said
    if typed.mended:
        module.write_text(typed.mended + "# another length than before\n")
        sys.modules.pop("mine", None)
        importlib.invalidate_caches()
    assert main([*typed.right]) == ExitCode.OK
    sys.modules.pop("mine", None)


def test_a_module_that_lies_elsewhere_is_found_from_there(
    here: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """APP_NOT_FOUND names the directory to change to by the file that it holds."""
    (here / "apps").mkdir()
    (here / "apps" / "faraway.py").write_text(WHOLE)
    assert main(["describe", "faraway:app"]) == ExitCode.USAGE
    assert "change to the directory that holds faraway.py" in capsys.readouterr().err
    monkeypatch.chdir(here / "apps")
    assert main(["describe", "faraway:app"]) == ExitCode.OK
    sys.modules.pop("faraway", None)


def test_a_setting_is_assigned_as_the_refusal_says() -> None:
    """CLI_ASSIGNMENT gives an example that can be typed."""
    fix = refused(BadAssignmentError, parse_assignments, ["lanes"])
    assert parse_assignments([fix.removeprefix("write, for example, --set ")]) == {"lanes": "4"}


def refused(kind: type[MustelaError], make: Callable[..., Any], *args: Any, **more: Any) -> str:
    """Return the fix of what is refused."""
    with pytest.raises(kind) as caught:
        make(*args, **more)
    return caught.value.fix or ""


def goal(**more: Any) -> Any:
    return repairing.goal_of(**{"to_earliest": False, "to_latest": False, "to_time": None, **more})


def test_offsets_are_typed_as_the_refusal_of_others_says() -> None:
    """CLI_OFFSETS: by place, by time with its zone, by one goal alone."""
    wrong = repairing.BadOffsetsError
    fix = refused(wrong, offsets._triples, ["a", "0"])
    typed = fix.removeprefix("write, for example, ").partition(", or name topics")[0]
    assert offsets._triples(typed.split()) == {("lines", 0): 42, ("lines", 1): 17}
    fix = refused(wrong, offsets._triples, ["a", "x", "5"])
    assert fix == "an offset is given as TOPIC PARTITION OFFSET"
    assert offsets._triples(["a", "0", "5"]) == {("a", 0): 5}
    assert refused(wrong, goal, to_earliest=True, to_latest=True) == "choose one of them"
    assert goal(to_latest=True) is not None
    fix = refused(wrong, goal, to_time="yesterday")
    assert goal(to_time=fix.removeprefix("write it like ")) is not None
    ways = refused(wrong, goal, to_time="2026-05-04T10:00").removeprefix("write ").split(", or ")
    for way in (ways[0].removesuffix(" for UTC"), ways[1]):
        assert goal(to_time=way) is not None
    fix = refused(wrong, repairing.offsets_given, ["lines"])
    typed = fix.removeprefix("write, for example, --to-offsets ")
    assert repairing.offsets_given([typed]) == {("lines", 0): 42, ("lines", 1): 7}
    fix = refused(wrong, Start(keep_state=True).goal)
    assert fix == "add --to-earliest, --to-time or --to-offsets"
    assert Start(keep_state=True, to_earliest=True).goal() is not None
    assert Start(keep_state=True, to_time="2026-05-04T10:00:00Z").goal() is not None
    assert Start(keep_state=True, to_offsets=["lines-0=4"]).goal() is None
    assert refused(wrong, Start(to_latest=True, to_offsets=["a-0=1"]).goal) == "choose one of them"


def test_a_yes_that_nobody_typed_can_be_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """NOT_CONFIRMED, and RESET_NOT_CONFIRMED of reset: --yes exists wherever somebody is asked."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    kind = asking.NotConfirmedError
    assert refused(kind, asking.confirm, ["a"], what="nothing is changed") == "add --yes"
    assert asking.Manner(yes=True).yes


def test_a_value_is_sent_as_what_it_is_or_by_another_type() -> None:
    """CLI_VALUE: the text is corrected, or the type."""
    from mustela.cli.sending import encode_typed
    from mustela.serdes.resolve import resolve_serde

    fix = refused(BadValueError, encode_typed, resolve_serde(int, key=False), "seven")
    assert fix == "correct it, or name another type"
    assert encode_typed(resolve_serde(int, key=False), "7")
    assert encode_typed(resolve_serde(str, key=False), "seven") == b"seven"
    assert parse_value("7", "int") == 7


def test_an_application_is_configured_before_it_starts_and_started_once() -> None:
    """APP_STATE, both times; and APP_UNNAMED_STEP, whose three ways pass the check."""

    def made(**settings: Any) -> App:
        app = App("app", bootstrap_servers="127.0.0.1:1", engine="none", **settings)

        @app.topology
        def build(builder: Any) -> None:
            builder.stream("lines", key=str, value=str).group_by_key().count(**named)

        return app

    def beyond(app: App) -> None:
        """See that what is named is not what is wrong any more: that is the engine."""
        with pytest.raises(MustelaError) as caught:
            app.run()
        assert caught.value.code == "ENGINE_MISSING"

    named: dict[str, str] = {}
    fix = refused(UnnamedStepError, made().start)
    assert fix == 'give store="…" or name="…", or set naming.strict to false'
    beyond(made(naming={"strict": False}))
    for named in ({"store": "counts"}, {"name": "counts"}):  # noqa: B007 - read by `build`
        beyond(made())
    app = made()
    app.configure(lanes=2)
    app._standing.state = AppState.RUNNING
    assert refused(AppStateError, app.configure, lanes=3) == "configure before run() or start()"
    assert refused(AppStateError, app.start) == "call restart(), or create a new App"
    beyond(made())
