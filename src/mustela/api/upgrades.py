"""What users say about older rows of a store: their types, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast, get_type_hints

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.errors import Origin, UsageError
from mustela.serdes.base import Serde
from mustela.serdes.resolve import resolve_serde
from mustela.serdes.row_versions import FIRST_VERSION, VERSION_MAX, OldRows, RowVersions

__all__ = ["Upgrade", "Upgrades", "check_named", "holding", "read_versions"]

OldV = TypeVar("OldV")
NewV = TypeVar("NewV")

_HOLDS: Final = ContextVar("holds", default=False)
_EXAMPLE: Final = "upgrade=Upgrade(value=OldType, by=function)"


@dataclass(frozen=True, kw_only=True)
class Upgrade(Generic[OldV, NewV]):
    """How rows of one version become rows of the next.

    Attributes:
        value: Type or serde that the older rows were written with.
        by: Makes the new value from an old one. It is called each time an old row is read, until
            the row is written in its new form, so its result must always be the same; it may not
            return None.
        back: Makes an old value from a new one, for rows that are written while ``hold_format`` is
            set: the release before this one can read them, and ``by`` must give the value again.

    Example:
        >>> from mustela import Materialized
        >>> in_cents = Upgrade(value=float, by=lambda euros: round(euros * 100))
        >>> prices = Materialized(store="prices", value=int, version=2, upgrade=in_cents)
    """

    value: type[OldV] | Serde[OldV]
    by: Callable[[OldV], NewV]
    back: Callable[[NewV], OldV] | None = None


Upgrades = (
    Callable[[Any], NewV]
    | Upgrade[Any, NewV]
    | Mapping[int, Callable[[Any], Any] | Upgrade[Any, Any]]
)
"""A function whose parameter is annotated with the older type, an `Upgrade`, or a dict of them."""


def read_versions(
    store: str, version: object, upgrade: object, *, at: Origin
) -> RowVersions | None:
    """Return the versions of a store's rows; None if there is only the first.

    Args:
        store: The store's name, for errors.
        version: What the user said.
        upgrade: What the user said.
        at: The user's line.

    Raises:
        BadOptionError: If the version is not a whole number from 1 on, if the upgrades have a gap,
            or if one does not say what it reads.
        FunctionError: If one cannot be called with a value.
    """
    if not isinstance(version, int) or isinstance(version, bool):
        raise _bad(store, f"version={version!r}, which is not a whole number", at=at)
    if not FIRST_VERSION <= version <= VERSION_MAX:
        raise _bad(store, f"version={version}, which is not between 1 and {VERSION_MAX}", at=at)
    steps = _steps(version, upgrade)
    if not steps:
        return None if version == FIRST_VERSION else RowVersions(version=version, older={})
    wrong = [step for step in steps if type(step) is not int or not 1 <= step < version]
    if wrong:
        msg = f"an upgrade from version {wrong[0]!r}, but is of version {version}"
        raise _bad(
            store, msg, fix=f"name the versions from 1 to {version - 1}, or raise version=", at=at
        )
    numbers = sorted(steps)
    missing = sorted(set(range(numbers[0], version)).difference(numbers))
    if missing:
        msg = f"version={version}, but no upgrade from version {missing[0]}"
        fix = f"add one: upgrade={{{missing[0]}: ..., }}; each makes a row of the next version"
        raise _bad(store, msg, fix=fix, at=at)
    older = {step: _old_rows(store, step, steps[step], at) for step in numbers}
    previous = older.get(version - 1)
    holds = _HOLDS.get() and previous is not None and previous.back is not None
    return RowVersions(version=version, older=older, held=version - 1 if holds else 0)


@contextmanager
def holding(*, holds: bool) -> Generator[None]:
    """Let rows be written as the release before wrote them, in topologies built in a block.

    Args:
        holds: Whether they are; only those with a way back can be.
    """
    token = _HOLDS.set(holds)
    try:
        yield
    finally:
        _HOLDS.reset(token)


def check_named(store: str, versions: RowVersions | None, *, explicit: bool, at: Origin) -> None:
    """Refuse versions of a store without an explicit name.

    Raises:
        BadOptionError: If it has none.
    """
    if versions is None or explicit:
        return
    raise _bad(
        store,
        f"version={versions.version}, but no explicit name",
        why="rows of an earlier program are found by the store's name",
        fix='name it: store="..."',
        at=at,
    )


def _steps(version: int, upgrade: object) -> dict[Any, object]:
    if upgrade is None:
        return {}
    if isinstance(upgrade, Mapping):
        return dict(cast("Mapping[Any, object]", upgrade))
    return {version - 1: upgrade}


def _old_rows(store: str, version: int, upgrade: object, at: Origin) -> OldRows:
    if isinstance(upgrade, Upgrade):
        said = cast("Upgrade[Any, Any]", upgrade)
        spec: object = said.value
        function: object = said.by
        back = said.back
        if back is not None:
            check_function(back, ("value",), role="back", verb="Upgrade", at=at)
    else:
        function, spec, back = upgrade, None, None
    check_function(function, ("value",), role="upgrade", verb="Materialized", at=at)
    if spec is None:
        spec = _parameter(function)
        if spec is None:
            msg = f"an upgrade from version {version} that does not say what it reads"
            raise _bad(
                store,
                msg,
                why="old rows are decoded with the type with which they were written",
                fix=f"annotate the function's parameter with the older type, or write {_EXAMPLE}",
                at=at,
            )
    try:
        serde = resolve_serde(spec)
    except UsageError as error:
        error.at = error.at or at
        raise
    return OldRows(serde=serde, upgrade=cast("Callable[[Any], Any]", function), back=back)


def _parameter(function: object) -> object:
    """Return the annotation of a function's first parameter, None if it has none."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return None
    names = [name for name in hints if name != "return"]
    return hints[names[0]] if names else None


def _bad(
    store: str,
    what: str,
    *,
    at: Origin,
    why: str | None = None,
    fix: str = "leave out version= for the first version, and count up from 2",
) -> BadOptionError:
    return BadOptionError(
        f"store {store!r} has {what}",
        at=at,
        why=why,
        fix=fix,
        fields={"option": "upgrade", "store": store},
    )
