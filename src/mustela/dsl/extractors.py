"""How a join finds the key of the other side's row: the same options in all joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mustela.api.errors import BadOptionError
from mustela.api.functions import check_function
from mustela.api.origin import user_origin
from mustela.errors import Origin

__all__ = ["Extractor", "check_extractor", "read_extractor"]


class Extractor(NamedTuple):
    """A function that gives the key.

    Attributes:
        function: The user's.
        with_key: Whether it is called with key and value instead of the value alone.
    """

    function: Callable[..., Any]
    with_key: bool

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return ("key", "value") if self.with_key else ("value",)

    @property
    def option(self) -> str:
        """The option by which it was given."""
        return "foreign_key_with_key" if self.with_key else "foreign_key"


def check_extractor(extractor: Extractor, *, verb: str, at: Origin) -> None:
    """Check that it can be called with its arguments.

    Raises:
        FunctionError: If it cannot.
    """
    role = extractor.option
    check_function(extractor.function, extractor.arguments, role=role, verb=verb, at=at)


def read_extractor(
    verb: str, by_value: Callable[..., Any] | None, by_both: Callable[..., Any] | None
) -> Extractor | None:
    """Return the function that gives the key, None if there is none.

    Args:
        verb: The join.
        by_value: What was given as ``foreign_key``.
        by_both: What was given as ``foreign_key_with_key``.

    Raises:
        BadOptionError: If both are given.
    """
    if by_value is not None and by_both is not None:
        msg = f"{verb} is given two foreign keys"
        raise BadOptionError(
            msg,
            at=user_origin(),
            why="foreign_key= and foreign_key_with_key= say the same thing in two ways",
            fix="leave out one of them",
            fields={"verb": verb},
        )
    if by_both is not None:
        return Extractor(by_both, with_key=True)
    return None if by_value is None else Extractor(by_value, with_key=False)
