"""Licences of what users install: the two distributions and all that these need."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from typing import NamedTuple

from packaging.requirements import Requirement

OURS = ("mustela", "mustela-dev")
EXTRAS = ("avro", "jsonschema", "protobuf", "otel", "new")
ACCEPTED = {
    "jinja2-ansible-filters": "copier needs it, which `mustela new` alone starts; nothing of it is "
    "in a project or an application",
}
_REFUSED = re.compile(r"(?<!L)A?GPL|SSPL|BUSL|non-?commercial|proprietary", re.IGNORECASE)
_SHOWN_MAX = 60


class Licence(NamedTuple):
    """What a distribution says of its licence."""

    name: str
    version: str
    text: str

    @property
    def is_refused(self) -> bool:
        """Whether it would bind those who use Mustela, or says nothing."""
        if self.name in ACCEPTED:
            return False
        either = re.split(r"\bOR\b", self.text)
        return not self.text or all(_REFUSED.search(part) for part in either)


def installed(names: Iterable[str] = OURS) -> list[Licence]:
    """Return the licences of distributions, and of what they need, by name."""
    found: dict[str, Licence] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [(name, ()) for name in names]
    while waiting:
        name, extras = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            known = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or Python
        if key == "mustela":
            extras = EXTRAS
        found[key] = Licence(key, known.version, _said(known.metadata))
        for text in known.requires or ():
            needed = Requirement(text)
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in ("", *extras)):
                waiting.append((needed.name, tuple(needed.extras)))
    return [found[key] for key in sorted(found)]


def _said(metadata: object) -> str:
    get = metadata.get  # type: ignore[attr-defined]
    if expression := get("License-Expression"):
        return str(expression)
    classified = [
        text.rpartition(" :: ")[2]
        for text in metadata.get_all("Classifier") or ()  # type: ignore[attr-defined]
        if text.startswith("License ::")
    ]
    if classified:
        return ", ".join(classified)
    lines = str(get("License") or "").strip().splitlines()
    return lines[0][:_SHOWN_MAX] if lines else ""
