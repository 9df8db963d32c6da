"""mustela dlq: the dead letters of an application, shown, replayed and dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from mustela.cli.asking import Application, confirm
from mustela.cli.console import Bootstrap, ExitCode, Json, print_json, print_table, say
from mustela.cli.repairing import moment_ms, settings_of
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings
    from mustela.plan.dead_letter import Letter, LetterFilter
    from mustela.runtime.repairs.letter_box import LetterBox, Refused

__all__ = ["BadLetterError", "group"]

_TEXT_SHOWN = 60
_VALUE_SHOWN = 2_000


class BadLetterError(UsageError):
    """A dead letter that is named on the command line is none."""

    code = "CLI_LETTER"


Places = Annotated[str, Parameter(name="LETTER")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do not ask.")]
DryRun = Annotated[
    bool, Parameter(name="--dry-run", negative=(), help="Only show what would be done.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which letters are meant.

    Attributes:
        step: The step that failed.
        error: The class of the error, or its code.
        topic: The topic that the record was read from.
        key: The record's key.
        grep: A text in the record's value or in the error's message.
        since: The record's earliest time.
        until: The time before which the record is.
    """

    step: Annotated[str | None, Parameter(help="Only of this step.")] = None
    error: Annotated[
        str | None, Parameter(help="Only with this class of error, or this error code.")
    ] = None
    topic: Annotated[str | None, Parameter(help="Only of records of this topic.")] = None
    key: Annotated[str | None, Parameter(help="Only of records with this key.")] = None
    grep: Annotated[
        str | None, Parameter(help="Only with this text in the value or the error's message.")
    ] = None
    since: Annotated[
        str | None,
        Parameter(name="--from", help="Only of records from this time on: 2026-05-04T10:00:00Z."),
    ] = None
    until: Annotated[str | None, Parameter(help="Only of records before this time.")] = None

    def filter(self, places: Iterable[str] = ()) -> LetterFilter:
        """Return the filter."""
        from mustela.plan.dead_letter import LetterFilter

        return LetterFilter(
            places=frozenset(map(_checked, places)),
            step=self.step,
            error=self.error,
            topic=self.topic,
            key=self.key,
            grep=self.grep,
            since=None if self.since is None else moment_ms(self.since),
            until=None if self.until is None else moment_ms(self.until),
        )


_ALL = Which()


def group() -> App:
    """Return the commands ``mustela dlq …``."""
    app = App(name="dlq", help="Show, replay and drop dead letters.")
    app.command(list_letters, name="list")
    app.command(show)
    app.command(replay)
    app.command(drop)
    return app


def list_letters(  # noqa: PLR0913 - which, how many, and how they are shown
    application: Application,
    /,
    *,
    which: Which = _ALL,
    done: Annotated[
        bool, Parameter(name="--all", negative=(), help="Those replayed or dropped too.")
    ] = False,
    limit: int = 100,
    wide: Annotated[
        bool, Parameter(name="--wide", negative=(), help="Whole keys and messages.")
    ] = False,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """List the dead letters that wait, the oldest first.

    Args:
        application: The application, or only its id.
        which: Which letters.
        done: Those that were replayed or dropped too.
        limit: Show at most this many.
        wide: Show keys and messages whole.
        bootstrap_servers: The brokers.
        json: Print a JSON document per letter.
    """
    with _box(settings_of(application, bootstrap_servers)) as box:
        found = list(islice(box.letters(which.filter(), done=done), limit + 1))
        shown = found[:limit]
        if json:
            for letter in shown:
                print_json(_facts(box, letter))
            return ExitCode.OK
        head = ["letter", "time", "from", "step", "error", "attempts", "key", "message"]
        print_table(head, (_cells(box, letter, wide=wide) for letter in shown))
        if len(found) > limit:
            say(f"there are more: --limit {10 * limit}")
        if not shown:
            say(f"no dead letters wait in {box.topic}")
    return ExitCode.OK


def show(
    application: Application,
    letter: Places,
    /,
    *,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Show one dead letter: the record, its headers, and why it failed.

    Args:
        application: The application, or only its id.
        letter: Its place, as the list shows it: PARTITION:OFFSET.
        bootstrap_servers: The brokers.
        json: Print JSON.
    """
    with _box(settings_of(application, bootstrap_servers)) as box:
        found = next(box.letters(Which().filter([letter]), done=True), None)
        if found is None:
            what = f"there is no dead letter {letter} in {box.topic}"
            raise BadLetterError(what, fix="take one that mustela dlq list --all shows")
        facts = _facts(box, found)
        if json:
            print_json(facts)
            return ExitCode.OK
        for name, value in facts.items():
            if name == "headers":
                for header, content in value:
                    print(f"{'header':<10} {header}: {_shown(content)}")
            elif value is not None:
                print(f"{name:<10} {_shown(value)}")
    return ExitCode.OK


def replay(  # noqa: PLR0913 - its options are its interface
    application: Application,
    /,
    *letters: Places,
    which: Which = _ALL,
    to: str | None = None,
    rate: float | None = None,
    limit: int | None = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Send the records of dead letters back to the topics that they were read from.

    Each record is replayed exactly once: the record and the note that it was replayed are in one
    transaction. A replay that was killed is simply run again. The application may be running.

    Args:
        application: The application, or only its id.
        letters: Their places, PARTITION:OFFSET; all that wait if none is named.
        which: Which of them.
        to: A topic for all of them.
        rate: At most this many records a second.
        limit: At most this many records.
        yes: Do not ask.
        dry_run: Only show what would be replayed.
        bootstrap_servers: The brokers.
        json: Print what was done as JSON.
    """
    from mustela.runtime.repairs.letter_box import Refused

    if rate is not None and rate <= 0:
        what = f"--rate {rate:g} is not a number of records a second"
        raise BadLetterError(what, fix="write, for example, --rate 100")
    wanted, refused = which.filter(letters), Refused()
    settings = settings_of(application, bootstrap_servers)
    with _box(settings) as box:
        found = box.sendable(wanted, refused, to)
        counts = Counter(topic for _, topic in islice(found, limit))
        told = [f"{count} to {topic}" for topic, count in sorted(counts.items())]
        if dry_run or not counts:
            return _told_of_replay(box, counts, refused, done="would be replayed", json=json)
        if not yes:
            heading = f"{settings.application_id}: dead letters to be replayed"
            confirm([heading, *(f"  {line}" for line in told)], what="nothing replayed")
        sent, refused = Counter[str](), Refused()
        for batch in box.replay(wanted, refused, to=to, rate=rate, limit=limit):
            sent.update(topic for _, topic in batch)
            if not json:
                say(f"replayed {sum(sent.values())}")
        return _told_of_replay(box, sent, refused, done="replayed", json=json)


def drop(
    application: Application,
    /,
    *letters: Places,
    which: Which = _ALL,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap_servers: Bootstrap = None,
    json: Json = False,
) -> int:
    """Give dead letters up: they are not listed or replayed any more, and are deleted.

    Kafka deletes only the oldest records of a partition: those before the first letter that still
    waits. Letters after it are marked, and deleted by a later drop.

    Args:
        application: The application, or only its id.
        letters: Their places, PARTITION:OFFSET; all that wait if none is named.
        which: Which of them.
        yes: Do not ask.
        dry_run: Only show what would be dropped.
        bootstrap_servers: The brokers.
        json: Print what was done as JSON.
    """
    wanted = which.filter(letters)
    with _box(settings_of(application, bootstrap_servers)) as box:
        steps = Counter(letter.fact("step") or "-" for letter in box.letters(wanted))
        told = [f"{count} of step {step}" for step, count in sorted(steps.items())]
        if dry_run:
            if json:
                print_json({"would drop": sum(steps.values()), "steps": dict(steps)})
            else:
                print("\n".join(told) or "no dead letters would be dropped")
            return ExitCode.OK
        if not yes and steps:
            heading = f"{box.topic}: dead letters to be dropped for good"
            confirm([heading, *(f"  {line}" for line in told)], what="nothing dropped")
        count, cut = box.drop(wanted)
        if json:
            print_json({"dropped": count, "deleted_before": {str(p): o for p, o in cut.items()}})
        else:
            print(f"dropped {count} dead letter{'' if count == 1 else 's'}")
            for partition, offset in sorted(cut.items()):
                print(f"deleted {box.topic}-{partition} before offset {offset}")
    return ExitCode.OK


@contextmanager
def _box(settings: Settings) -> Generator[LetterBox]:
    from mustela.clock import SystemClock
    from mustela.runtime.repairs.letter_box import LetterBox

    box = LetterBox(settings, SystemClock())
    try:
        yield box
    finally:
        box.close()


def _told_of_replay(
    box: LetterBox, counts: Counter[str], refused: Refused, *, done: str, json: bool
) -> int:
    if json:
        left = {why: len(places) for why, places in refused.reasons.items()}
        print_json({done: sum(counts.values()), "topics": dict(counts), "left": left})
        return ExitCode.OK
    for topic, count in sorted(counts.items()):
        print(f"{count} {done} to {topic}")
    if not counts:
        print(f"no dead letters of {box.topic} {done}")
    for why, places in sorted(refused.reasons.items()):
        first = ", ".join(places[:3]) + (", …" if len(places) > 3 else "")
        print(f"{len(places)} left ({first}): {why}")
    return ExitCode.OK


def _checked(place: str) -> str:
    partition, separator, offset = place.partition(":")
    if separator and partition.isdigit() and offset.isdigit():
        return f"{int(partition)}:{int(offset)}"
    what = f"{place!r} does not name a dead letter"
    raise BadLetterError(what, fix="write PARTITION:OFFSET, such as 0:17")


def _facts(box: LetterBox, letter: Letter) -> dict[str, Any]:
    done = box.done_with(letter)
    facts = letter.facts()
    facts["state"] = "waiting" if done is None else done.what
    if done is not None:
        facts["done_at"] = done.at_ms
        facts["sent_to"] = done.topic or None
    return facts


def _cells(box: LetterBox, letter: Letter, *, wide: bool) -> tuple[object, ...]:
    facts, done = letter.facts(), box.done_with(letter)
    moment = datetime.fromtimestamp(letter.timestamp / 1000, UTC)
    place = ":".join(
        str(facts[name]) for name in ("topic", "partition", "offset") if facts[name] is not None
    )
    text = " ".join(str(facts["text"] or "").split())
    if not wide:
        text = _end_of(_cause_in(text, facts["class"]))
    text = text if done is None else f"({done.what}) {text}"
    return (
        letter.place,
        f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        place or "-",
        facts["step"] or "-",
        facts["class"] or facts["code"] or "-",
        facts["attempts"] or "-",
        _shown(letter.key, _VALUE_SHOWN if wide else _TEXT_SHOWN),
        text,
    )


def _cause_in(text: str, kind: str | None) -> str:
    """Return what was raised, without where: the step, the topic and the class have columns.

    Example:
        >>> _cause_in("step 'a' failed on a record of topic 'b': KeyError: 'c'", "KeyError")
        "'c'"
    """
    _, found, cause = text.partition(f": {kind}: ")
    return cause if kind and found else text


def _end_of(text: str) -> str:
    return text if len(text) <= _TEXT_SHOWN else f"…{text[1 - _TEXT_SHOWN :]}"


def _shown(value: object, length: int = _VALUE_SHOWN) -> str:
    if value is None:
        return "-"
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"
