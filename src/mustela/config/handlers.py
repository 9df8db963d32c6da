"""Handlers of records that fail, as settings say them: words, functions, and their names."""

from __future__ import annotations

import pkgutil
from typing import Any, Final

__all__ = ["HANDLER_SETTINGS", "handler_text", "handler_word", "read_handler_setting"]

HANDLER_SETTINGS: Final = ("deserialization_handler", "processing_handler", "production_handler")

_WORDS: Final = {
    "fail": "fail",
    "continue": "continue",
    "resume": "continue",
    "dead_letter": "dead_letter",
    "log_and_fail": "fail",
    "log_and_continue": "continue",
}
_JAVA: Final = {
    "LogAndFailExceptionHandler": "fail",
    "LogAndFailProcessingExceptionHandler": "fail",
    "DefaultProductionExceptionHandler": "fail",
    "LogAndContinueExceptionHandler": "continue",
    "LogAndContinueProcessingExceptionHandler": "continue",
}
_ALLOWED = (
    "'fail', 'continue' or 'dead_letter', a function of (error, record, context) or its name as "
    "module:function, or one of Kafka's own: " + ", ".join(_JAVA)
)


def handler_word(given: object) -> str | None:
    """Return the word that a handler stands for; None where it stands for none.

    Example:
        >>> handler_word("log_and_continue"), handler_word("LogAndFailExceptionHandler")
        ('continue', 'fail')
        >>> handler_word("retry") is None
        True
    """
    if isinstance(given, str):
        text = str(getattr(given, "value", given))
        return _WORDS.get(text.lower()) or _JAVA.get(text.rsplit(".", 1)[-1])
    kind = given if isinstance(given, type) else type(given)
    return kind.__dict__.get("word") if kind.__name__ in _JAVA else None


def read_handler_setting(given: Any) -> Any:
    """Return the handler that a setting names: a word, or what is to be called.

    Raises:
        ValueError: If it names none.
    """
    word = handler_word(given)
    if word is not None:
        return word
    if not isinstance(given, str):
        if given is None or isinstance(given, bool | int | float | list | dict):
            raise ValueError(_ALLOWED)
        return given
    module, separator, _name = given.partition(":")
    if not separator or (not module.isidentifier() and not module.replace(".", "").isidentifier()):
        raise ValueError(_ALLOWED)
    try:
        return pkgutil.resolve_name(given)
    except (ImportError, AttributeError) as error:
        msg = f"the name of a function that can be imported ({error}), as module:function"
        raise ValueError(msg) from None


def handler_text(handler: object) -> str:
    """Return a handler as text, for those who print settings.

    Example:
        >>> handler_text("fail"), handler_text(handler_text)
        ('fail', 'mustela.config.handlers:handler_text')
    """
    if isinstance(handler, str):
        return str(getattr(handler, "value", handler))
    made: Any = handler
    name = getattr(handler, "__qualname__", None) or made.__class__.__qualname__
    return f"{made.__module__}:{name}"
