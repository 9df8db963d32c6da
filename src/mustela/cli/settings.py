"""mustela config: the current settings, each with its source, and their reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from mustela.cli.console import Json, print_json, print_table

if TYPE_CHECKING:
    from mustela.config.settings import Settings

__all__ = ["group", "loose_settings"]

_NOBODY = "mustela"


def group() -> App:
    """Return the commands ``mustela config …``."""
    app = App(name="config", help="Show the settings, or their reference.")
    app.command(show)
    app.command(reference)
    return app


def loose_settings(**code: Any) -> Settings:
    """Return the settings for a command that needs no application: its id may be missing."""
    from mustela.config.errors import SettingValueError
    from mustela.config.settings import Settings

    given = {name: value for name, value in code.items() if value is not None}
    try:
        return Settings.load(given)
    except SettingValueError as error:
        if error.fields.get("key") != "application_id" or "application_id" in given:
            raise
        return Settings.load({**given, "application_id": _NOBODY})


def show(
    application: Annotated[str | None, Parameter(name="APPLICATION", negative=())] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """Show every setting with its value and its source; secrets are masked.

    Args:
        application: module:app of a program whose own settings are included.
        json: Print JSON.
    """
    if application is None:
        settings = loose_settings()
    else:
        from mustela.cli.loading import load_app

        settings = load_app(application).settings
    rows = [(key, value, settings.source_of(key)) for key, value in settings.masked().items()]
    if json:
        print_json({key: {"value": _shown(value), "source": source} for key, value, source in rows})
    else:
        print_table(["setting", "value", "source"], [(k, _shown(v), s) for k, v, s in rows])
    return 0


def reference() -> int:
    """Print the reference of all settings, in Markdown."""
    from mustela.config.reference import render_reference

    print(render_reference(), end="")
    return 0


def _shown(value: object) -> object:
    from datetime import timedelta
    from pathlib import Path

    from mustela.config.units import show_duration

    if isinstance(value, timedelta):
        return show_duration(value)
    return str(value) if isinstance(value, Path) else value
