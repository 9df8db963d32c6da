"""mustela schemas: list and register the schemas with which an application writes."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cyclopts import App

from mustela.cli.applications import Target
from mustela.cli.console import ExitCode, Json, print_json, say
from mustela.cli.loading import load_app

if TYPE_CHECKING:
    from mustela.serdes.schemas.options import RegistryOptions
    from mustela.serdes.schemas.registered import RegisteredSerde

__all__ = ["group"]


def group() -> App:
    """Return the commands ``mustela schemas …``."""
    app = App(name="schemas", help="List and register the schemas of an application.")
    app.command(list_schemas, name="list")
    app.command(register)
    return app


def list_schemas(target: Target, /, *, json: Json = False) -> int:
    """List the subjects that an application writes to, with their schemas; no registry is asked.

    They are those of its sinks, of its changelogs and of the keys by which it regroups records. A
    registry must hold them beforehand where auto.register.schemas is false.

    Args:
        target: The module, and the name of the application in it.
        json: Print JSON, one document per subject.
    """
    found, open_ones = _wanted(_serdes(target))
    for subject, body in found:
        if json:
            print_json({"subject": subject, "schemaType": "AVRO", **body})
        else:
            print(f"{subject}\n  {body.get('schemaType', 'AVRO')} {body['schema']}")
    _say_open(open_ones)
    return ExitCode.OK


def register(target: Target, /, *, json: Json = False) -> int:
    """Register the schemas that `mustela schemas list` lists; those that are there stay.

    It does so with the registry of the settings, whatever auto.register.schemas says there.

    Args:
        target: The module, and the name of the application in it.
        json: Print the subjects as JSON.
    """
    serdes = _serdes(target)
    found, open_ones = _wanted(serdes)
    for serde in serdes:
        if not _is_latest(serde):
            serde.ensure(replace(serde.known_options(), auto_register=True))
    subjects = [subject for subject, _ in found]
    if json:
        print_json({"registered": subjects})
    for subject in () if json else subjects:
        say(f"registered {subject}")
    _say_open(open_ones)
    return ExitCode.OK


def _serdes(target: str) -> list[RegisteredSerde[Any]]:
    from mustela.plan.written import written_serdes

    return written_serdes(load_app(target).built_plan())


def _is_latest(serde: RegisteredSerde[Any]) -> bool:
    """Whether it writes with the latest schema that the registry has."""
    options = serde.options
    return options is not None and options.use_latest and not serde.place.internal


def _wanted(
    serdes: list[RegisteredSerde[Any]],
) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """Return subjects with schemas, and the places whose schemas only their values tell."""
    from mustela.serdes.schemas.mock import mock_transport
    from mustela.serdes.schemas.options import RegistryOptions

    scope = f"listed-{secrets.token_hex(8)}"
    here = (f"mock://{scope}",)
    open_ones: list[str] = []
    for serde in serdes:
        known: RegistryOptions = serde.options or RegistryOptions(urls=here)
        alone = replace(known, urls=here, auto_register=True, use_latest=False)
        if _is_latest(serde) or not serde.ensure(alone):
            open_ones.append(f"{serde.place.part}s of {serde.place.topic or 'a topic by function'}")
    return sorted(mock_transport(scope).registered()), sorted(set(open_ones))


def _say_open(places: list[str]) -> None:
    for place in places:
        say(f"not listed: {place}, whose schema each value or the registry decides")
