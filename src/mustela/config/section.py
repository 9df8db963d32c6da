"""What the sections of the settings are made of: their base, and kinds of values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from mustela.config.masking import mask_value
from mustela.config.units import parse_duration, parse_size

__all__ = ["Count", "Duration", "Section", "Size", "comma_joined"]


def _no_bool(value: object) -> object:
    """Pydantic would read True as 1, and YAML reads ``yes`` as True."""
    if isinstance(value, bool):
        msg = "a number is expected, not true or false"
        raise ValueError(msg)
    return value


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Size = Annotated[int, BeforeValidator(parse_size)]
Count = Annotated[int, BeforeValidator(_no_bool)]


class Section(BaseModel):
    """A group of settings; prints itself masked."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Mask what is secret: this is what repr, str and rich print."""
        for name, value in super().__repr_args__():
            yield name, mask_value(name or "", value)


def comma_joined(value: object) -> object:
    """Return several names as one text with commas between them."""
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(str(name) for name in value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value
