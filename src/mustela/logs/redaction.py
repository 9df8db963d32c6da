"""The step that every line passes: nothing secret stays in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from mustela.config.masking import MASK, is_secret_key, mask_text

__all__ = ["redact_text", "redactor"]

_DEEPEST: Final = 6
_LONGEST: Final = 20_000


def redactor(secrets: Sequence[str]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return what masks the facts of a line: by name, by look, and what is known to be secret.

    Args:
        secrets: Texts that are masked wherever they occur.

    Example:
        >>> redact = redactor(["trustno1"])
        >>> redact({"event": "login with trustno1", "token": "abc", "amount": 3})
        {'event': 'login with ******', 'token': '******', 'amount': 3}
    """
    known = tuple(secrets)
    return lambda facts: _masked(facts, known, 0)


def redact_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Mask what is, or looks like, a secret inside a text.

    Example:
        >>> redact_text("trustno1 at http://joe:hunter2@proxy:3128/", ["trustno1"])
        '****** at http://******@proxy:3128/'
    """
    return _text(text, tuple(secrets))


def _masked(facts: Mapping[Any, Any], secrets: tuple[str, ...], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in facts.items():
        secret = value not in (None, "") and is_secret_key(str(name))
        found[_text(str(name), secrets)] = MASK if secret else _plain(value, secrets, depth)
    return found


def _plain(value: object, secrets: tuple[str, ...], depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        return _text(value.decode(errors="backslashreplace"), secrets)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return _masked(cast("Mapping[Any, Any]", value), secrets, depth + 1)
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        items = cast("Sequence[object]", value)
        return [_plain(item, secrets, depth + 1) for item in items]
    return _text(value if isinstance(value, str) else _shown(value), secrets)


def _text(value: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if secret in value:
            value = value.replace(secret, MASK)
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]}… ({len(value)} characters)"
    return mask_text(value)


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - a value that cannot be shown does not lose its line
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
