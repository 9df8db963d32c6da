"""What is known of planted bugs: which seed found each, as the few events that it takes."""

from __future__ import annotations

import json
import tomllib
from ast import literal_eval
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.simulation.script import Event, Script

__all__ = [
    "ITEMS",
    "LIST",
    "RESULTS",
    "Finding",
    "Planted",
    "findings",
    "keep",
    "planted",
    "script_of",
]

ITEMS = Path(__file__).with_name("items.toml")
LIST = Path(__file__).with_name("bugs.toml")
RESULTS = Path(__file__).parents[1] / "results" / "bugs.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What the list says of a bug, besides where it is.

    Attributes:
        name: Its name.
        guard: The invariant that is there to find it.
        kinds: Kinds of faults that it takes, besides those that are drawn anyway.
        among: The only kinds of faults that are drawn, if it takes rare ones together.
        program: The only program that can show it; None for any.
        not_reached: Why the simulator cannot show it, and what shows it instead.
        alone: Whether no other invariant finds it: what shows that its guard is needed.
        history: The commit that mended it, where the project once had it.
        reverses: What the bug is to that commit; see `history`.
        item: Of section 1 of the issue that asked for the simulator.
    """

    name: str
    guard: str
    kinds: frozenset[str]
    among: frozenset[str]
    program: str | None
    not_reached: str | None
    alone: bool
    history: str | None
    reverses: str | None
    item: int | None

    def drawn(self, usual: frozenset[str]) -> frozenset[str]:
        """Return the kinds of faults that are drawn to find it."""
        return self.among or usual | self.kinds


def planted() -> dict[str, Planted]:
    """Return every bug of the list by name."""
    table = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {
        name: Planted(
            name=name,
            guard=said.get("found_by", ""),
            kinds=frozenset(said.get("kinds", ())),
            among=frozenset(said.get("among", ())),
            program=said.get("program"),
            not_reached=said.get("not_reached"),
            alone=said.get("alone", False),
            history=said.get("history"),
            reverses=said.get("reverses"),
            item=said.get("item"),
        )
        for name, said in table.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How a bug was found.

    Attributes:
        bug: Its name.
        invariant: What was violated.
        seeds: How many seeds were played until it was.
        said: What was said.
        first: How many seeds were played until any invariant was violated, and which it was.
        missed: For a bug that one invariant finds alone: how many seeds do not find it without.
        program: What ran.
        options: What the world was like.
        events: What happened, made short.
        seed: What is not in the events is drawn from it.
        commit: The code that was played.
    """

    bug: str
    invariant: str
    seeds: int
    said: str
    first: tuple[int, str]
    missed: int | None = None
    seed: int
    program: str
    options: str
    events: list[str]
    commit: str = ""

    @classmethod
    def of(cls, bug: str, script: Script, **said: Any) -> Finding:
        """Return a finding that a script shows."""
        return cls(
            bug=bug,
            seed=script.seed,
            program=script.program,
            options=repr(dict(script.options)),
            events=[repr((event.at, event.kind, event.args)) for event in script.events],
            **said,
        )


def script_of(finding: Finding, seed: int | None = None) -> Script:
    """Return the script of a finding, perhaps with another seed for what it leaves open."""
    return Script(
        seed=finding.seed if seed is None else seed,
        program=finding.program,
        options=literal_eval(finding.options),
        events=tuple(Event(*literal_eval(event)) for event in finding.events),
    )


def findings() -> dict[str, Finding]:
    """Return what is known, by bug."""
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    found = [Finding(**{**json.loads(line)}) for line in lines]
    return {known.bug: replace(known, first=tuple(known.first)) for known in found}  # type: ignore[arg-type]


def keep(news: Iterable[Finding]) -> None:
    """Write what was found in place of what was known of the same bugs; bugs gone are forgotten."""
    known = findings() | {finding.bug: finding for finding in news}
    lines = [json.dumps(asdict(known[name])) for name in sorted(known) if name in planted()]
    RESULTS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
