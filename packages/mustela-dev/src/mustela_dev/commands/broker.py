"""mustela broker: a development broker that keeps running after the command ends."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mustela.cli.console import ExitCode, Json, print_json, print_table, say
from mustela_dev.broker.probe import LOOPBACK
from mustela_dev.commands.jars import jar_request

if TYPE_CHECKING:
    from mustela_dev.broker.daemon import BrokerStatus

__all__ = ["broker"]

Data = Annotated[
    Path | None,
    Parameter(
        name="--data", help="Where the broker keeps its data; by default a directory of the user."
    ),
]
Port = Annotated[
    int | None,
    Parameter(name="--port", help="Port for clients; by default 9092 if it is free."),
]
Listen = Annotated[
    str,
    Parameter(
        name="--listen",
        help="An IPv4 address of this host, for clients elsewhere; all but 127.0.0.1 need a login.",
    ),
]


def start(
    *,
    data: Data = None,
    port: Port = None,
    heap_mb: int = 512,
    secure: bool = False,
    listen: Listen = LOOPBACK,
    json: Json = False,
) -> int:
    """Start the broker and return when it answers; a running one is reported.

    With --secure, clients need TLS and a login: an authority, a certificate for 127.0.0.1 and
    localhost, and a user with a password are made, and written with the settings of an application
    into the data directory, for you alone.

    With --listen, programs on other hosts reach it too, and need the same: the certificate names
    the address, and the written settings with the authority's certificate go to those hosts.

    Args:
        data: Its data directory.
        port: Its port.
        heap_mb: Its Java heap, in megabytes.
        secure: Let in only who logs in, over TLS (SASL_SSL).
        listen: An IPv4 address of this host; any but 127.0.0.1 brings --secure with it.
        json: Print JSON.
    """
    from mustela_dev.broker.daemon import start_broker
    from mustela_dev.broker.process import BrokerOptions

    options = BrokerOptions(jars=jar_request(), secure=secure, listen=listen)
    return _report(start_broker(data, port=port, heap_mb=heap_mb, options=options), json=json)


def stop(*, data: Data = None, json: Json = False) -> int:
    """Stop the broker; its data stays.

    Args:
        data: Its data directory.
        json: Print JSON.
    """
    from mustela_dev.broker.daemon import broker_status, stop_broker

    stopped = stop_broker(data)
    place = broker_status(data).data_dir
    if json:
        print_json({"stopped": stopped, "data_dir": place})
    else:
        print(f"stopped the broker of {place}" if stopped else f"no broker of {place} is running")
    return ExitCode.OK


def status(*, data: Data = None, json: Json = False) -> int:
    """Say whether the broker is running, and where; exit with 1 if it is not.

    Args:
        data: Its data directory.
        json: Print JSON.
    """
    from mustela_dev.broker.daemon import broker_status

    return _report(broker_status(data), json=json)


def _report(found: BrokerStatus, *, json: bool) -> int:
    if json:
        print_json(asdict(found))
    else:
        rows = [(name.replace("_", " "), _shown(value)) for name, value in asdict(found).items()]
        print_table(["broker", ""], rows)
        if found.running and found.client_env is not None:
            _say_settings(found.client_env)
        if not found.running:
            say("start it: mustela broker start")
    return ExitCode.OK if found.answering else ExitCode.FAULT


def _say_settings(file: Path) -> None:
    """Say what an application needs; its password is in the file alone."""
    say("an application, and each command of mustela, needs these settings:")
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, text = line.partition("=")
        say(f"  {name}={'******' if 'PASSWORD' in name else text}")
    say(f"type: set -a; . {shlex.quote(str(file))}; set +a")


def _shown(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else value


broker = App(name="broker", help="A real Kafka broker for development: start, stop, status.")
broker.command(start)
broker.command(stop)
broker.command(status)
