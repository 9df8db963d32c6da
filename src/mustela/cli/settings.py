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
    app = App(name="config", help="Show and check the settings, or print their schema.")
    app.command(show)
    app.command(check)
    app.command(schema)
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
    settings = _settings_of(application)
    rows = [(key, value, settings.source_of(key)) for key, value in settings.masked().items()]
    if json:
        print_json({key: {"value": _shown(value), "source": source} for key, value, source in rows})
    else:
        print_table(["setting", "value", "source"], [(k, _shown(v), s) for k, v, s in rows])
    return 0


def check(
    application: Annotated[str | None, Parameter(name="APPLICATION", negative=())] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """Check the settings of the file, the environment and a program, without a broker.

    The exit code is 2 if a name or a value is wrong; the error says which, and where it stands.

    Args:
        application: module:app of a program whose own settings are included.
        json: Print JSON.
    """
    settings = _settings_of(application)
    given = {key: settings.source_of(key) for key in settings.masked()}
    set_somewhere = {key: source for key, source in given.items() if source != settings.DEFAULT}
    if json:
        print_json({"valid": True, "application_id": _id_of(settings), "set": set_somewhere})
    else:
        print(f"valid: {len(set_somewhere)} of {len(given)} settings are not at their default")
    return 0


def _settings_of(application: str | None) -> Settings:
    if application is None:
        return loose_settings()
    from mustela.cli.loading import load_app

    return load_app(application).settings


def _id_of(settings: Settings) -> str | None:
    return None if settings.application_id == _NOBODY else settings.application_id


def schema() -> int:
    """Print the JSON Schema of mustela.yaml, for editors and pipelines."""
    from mustela.config.schema import settings_schema

    print_json(settings_schema())
    return 0


def reference(*, json: Json = False) -> int:
    """Print the reference of all settings, in Markdown.

    Args:
        json: Print JSON.
    """
    from mustela.config.reference import render_reference, setting_rows

    if json:
        print_json(setting_rows())
    else:
        print(render_reference(), end="")
    return 0


def _shown(value: object) -> object:
    from datetime import timedelta
    from pathlib import Path

    from mustela.config.units import show_duration

    if isinstance(value, timedelta):
        return show_duration(value)
    return str(value) if isinstance(value, Path) else value
