"""An engine and a listener that do nothing, for tests of what the driver alone does."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["NoEngine", "Silent"]


class NoEngine:
    """An engine with one core and nothing to restore."""

    cores = 1
    owners = 0

    def __getattr__(self, _name: str) -> Callable[..., tuple[()]]:
        return lambda *_args, **_more: ()


class Silent:
    """A listener that does not listen."""

    def on_event(self, event: object) -> None:
        """Nobody listens."""

    def on_error(self, error: BaseException) -> None:
        """Nobody listens."""
