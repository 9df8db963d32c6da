"""Whether values of one shape can be read as values of another.

The rule is deliberately narrow: what it allows, every serde with shapes reads without loss. A
missing field may have been renamed, so a shape without it is not a widening.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mustela.serdes.meaning import Shape, shape_text

# Shapes are JSON, whose types are known only at run time.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

__all__ = ["Widening", "widening"]

_ANY = "any"


@dataclass(slots=True)
class Widening:
    """How a shape differs from an older one.

    Attributes:
        gained: What the new shape has and the old one lacks, although old values can still be read.
        problems: Why old values cannot be read, or not without loss.
    """

    gained: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    @property
    def readable(self) -> bool:
        """Whether old values can be read without loss."""
        return not self.problems


def widening(then: Shape, now: Shape) -> Widening:
    """Compare the shape of stored values with the one that they are to be read as.

    Example:
        >>> widening(["list", "int"], ["list", ["union", "None", "int"]]).gained
        ['[]: None | int instead of int']
        >>> widening("int", "str").problems
        ['the value is str, but was int']
    """
    found = Widening()
    _compare(then, now, "", found)
    return found


def _compare(then: Shape, now: Shape, at: str, found: Widening) -> None:
    if then == now:
        return
    if now == _ANY or (then, now) == ("int", "float"):
        found.gained.append(_told(then, now, at))
        return
    match then, now:
        case ["union", *old], _:
            _all_of(old, now, at, found)
        case _, ["union", *new]:
            _one_of(then, new, now, at, found)
        case {"fields": _}, {"fields": _}:
            _classes(then, now, at, found)
        case ["rules", inner, *_], _ if not _is(now, "rules"):
            _compare(inner, now, at, found)
            found.gained.append(_told(then, now, at))
        case [str() as kind, *old], [str() as other, *new] if kind == other:
            _same_kind(kind, (old, new), (then, now), at, found)
        case _:
            found.problems.append(_other(then, now, at))


def _same_kind(
    kind: str,
    arguments: tuple[list[Shape], list[Shape]],
    whole: tuple[Shape, Shape],
    at: str,
    found: Widening,
) -> None:
    """Compare the contents of two containers, or the possible values."""
    old, new = arguments
    if kind in {"enum", "literal"}:
        gone = [str(value) for value in old if value not in new]
        if gone:
            found.problems.append(f"{at or 'the value'} may no longer be {', '.join(gone)}")
        else:
            found.gained.append(_told(*whole, at))
    elif kind == "classes":
        _named_classes(old, new, found)
    elif kind in {"rules", "inside"} or len(old) != len(new):
        found.problems.append(_other(*whole, at))
    else:
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            _compare(before, after, f"{at}{_step(kind, place)}", found)


def _all_of(old: list[Shape], now: Shape, at: str, found: Widening) -> None:
    """Each thing that the value may have been must be readable."""
    for member in old:
        _compare(member, now, at, found)
    if found.readable and not found.gained:
        found.gained.append(_told(["union", *old], now, at))


def _one_of(then: Shape, new: list[Shape], now: Shape, at: str, found: Widening) -> None:
    """The value was of one kind, and may now be of several."""
    if then in new:
        found.gained.append(_told(then, now, at))
        return
    tries = [widening(then, member) for member in new]
    fitting = [attempt for attempt in tries if attempt.readable]
    if fitting:
        found.gained += [f"{at}{gain}" for gain in fitting[0].gained]
    else:
        found.problems.append(_other(then, now, at))


def _classes(then: dict[str, Any], now: dict[str, Any], at: str, found: Widening) -> None:
    for what in ("form", "tag"):
        if then.get(what) != now.get(what):
            was, name = then.get(what), at or "the value"
            found.problems.append(f"{name} has {what} {now.get(what)}, but had {was}")
            return
    place = f"{at}." if at else ""
    if then["form"] == "array":
        _by_place(then["fields"], now["fields"], place, found)
        return
    new = {name: (shape, default) for name, shape, default in now["fields"]}
    for name, shape, default in then["fields"]:
        if name not in new:
            found.problems.append(f"field {place}{name} is gone")
            continue
        _default(f"{place}{name}", default, new[name][1], found)
        _compare(shape, new.pop(name)[0], f"{place}{name}", found)
    for name, (shape, default) in new.items():
        _gained(f"{place}{name}", shape, default, found)


def _by_place(old: list[Any], new: list[Any], place: str, found: Widening) -> None:
    """Fields of an array have no names in the bytes: only their order counts."""
    for (was, shape, _), (name, other, _) in zip(old, new, strict=False):
        if was != name:
            found.problems.append(f"field {place}{name} is where {was} was")
        _compare(shape, other, f"{place}{name}", found)
    found.problems.extend(f"field {place}{name} is gone" for name, _, _ in old[len(new) :])
    for name, shape, default in new[len(old) :]:
        _gained(f"{place}{name}", shape, default, found)


def _gained(name: str, shape: Shape, default: str, found: Widening) -> None:
    if default:
        found.gained.append(f"{name}: {shape_text(shape)} is new")
    else:
        found.problems.append(f"field {name} is new and has no default")


def _default(name: str, then: str, now: str, found: Widening) -> None:
    """If rows may lack a field, its default must stay the same."""
    if len(then) > 1 and then != now:
        was, new = then[1:], now[1:] or "another"
        found.problems.append(f"rows without {name} mean {was}, but its default is now {new}")
    elif then == "?" and now != "?":
        found.problems.append(f"rows may lack {name}")
    elif now == "?" and then != "?":
        found.gained.append(f"{name} may be missing")


def _named_classes(old: list[Any], new: list[Any], found: Widening) -> None:
    now = {shape["class"]: shape for shape in new if isinstance(shape, dict)}
    for shape in old:
        name = shape["class"] if isinstance(shape, dict) else None
        if name is None or name not in now:
            found.problems.append(f"{shape_text(shape)} is not among the classes of the store")
        else:
            _classes(shape, now[name], name, found)


def _is(shape: Shape, kind: str) -> bool:
    return isinstance(shape, list) and shape[0] == kind


def _step(kind: str, place: int) -> str:
    return "[]" if kind != "tuple" else f"[{place}]"


def _told(then: Shape, now: Shape, at: str) -> str:
    return f"{at or 'the value'}: {shape_text(now)} instead of {shape_text(then)}"


def _other(then: Shape, now: Shape, at: str) -> str:
    return f"{at or 'the value'} is {shape_text(now)}, but was {shape_text(then)}"
