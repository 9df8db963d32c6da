"""mustela run, describe and explain: commands about one application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from mustela.cli.console import ExitCode, Json, exit_code_of, print_json, say, show_error
from mustela.cli.loading import load_app
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.config.settings import Settings

__all__ = [
    "BadAssignmentError",
    "Start",
    "describe",
    "explain",
    "parse_assignments",
    "run",
    "topology",
]

Target = Annotated[str, Parameter(name="MODULE:APP")]
Debug = Annotated[bool, Parameter(name="--debug", negative=(), show=False)]
Assignments = Annotated[
    list[str] | None,
    Parameter(name="--set", negative=(), help="A setting for this run, as key=value; repeatable."),
]


class BadAssignmentError(UsageError):
    """Something given with ``--set`` is not ``key=value``."""

    code = "CLI_ASSIGNMENT"


class NoAdminServerError(UsageError):
    """No instance of the application shows itself on this host."""

    code = "ADMIN_NOT_RUNNING"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How an application is started.

    Attributes:
        standby: Wait while another instance runs, ready to take over.
        hold_format: Write what the release before can read, until it is started without this.
        master: Spark's master; by default the setting spark.master, and that is local[*].
        dry_run: Only show which of the program's files go to the executors of a cluster.
    """

    standby: Annotated[
        bool,
        Parameter(
            name="--standby", negative=(), help="Wait while another instance runs: standby=true."
        ),
    ] = False
    hold_format: Annotated[
        bool,
        Parameter(
            name="--hold-format",
            negative=(),
            help="Write what the release before can read: hold_format=true.",
        ),
    ] = False
    master: Annotated[
        str | None,
        Parameter(
            name="--master", help="Where epochs run, as in spark.master: spark://HOST:7077, yarn, …"
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Parameter(
            name="--dry-run",
            negative=(),
            help="Only show which files of the program a cluster's executors are given.",
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """Return what it means as settings."""
        said = {"standby": self.standby, "hold_format": self.hold_format}
        found: dict[str, Any] = {name: True for name, wanted in said.items() if wanted}
        return found if self.master is None else {**found, "spark.master": self.master}


def run(
    target: Target,
    /,
    *,
    start: Start | None = None,
    set: Assignments = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Run an application until it is stopped; Ctrl-C and SIGTERM let the epoch finish first.

    Args:
        target: The module, and the name of the application in it.
        start: How it is started.
        set: Settings for this run.
        json: Print events on standard output as JSON, one per line. The log goes to standard
            error; the settings log.level and log.format say what is in it.
        debug: Show Spark's own stack trace with Spark errors.
    """
    from mustela.cli.events import EventPrinter
    from mustela.logs.options import secrets_of

    app = load_app(target)
    app.debug = app.debug or debug
    start = start or Start()
    app.configure(**parse_assignments(set or ()) | start.settings())
    if start.dry_run:
        return _show_code(json=json)
    secrets = secrets_of(app.settings.model_dump())
    if json:
        app.add_listener(EventPrinter(app.settings.application_id, secrets))
    try:
        app.run()
    except Exception as error:  # noqa: BLE001 - all end as text and a code
        show_error(error, debug=app.debug, secrets=secrets)
        return exit_code_of(error)
    return ExitCode.OK


def _show_code(*, json: bool) -> int:
    """Show what the program has to be on the executors of a cluster for its functions to run."""
    from mustela.runtime.user_code import sum_of, user_code

    modules = user_code()
    if json:
        told = [{"module": one.name, "file": one.path, "bytes": len(one.text)} for one in modules]
        print_json({"sha256": sum_of(modules), "files": told})
    else:
        for one in modules:
            print(f"{one.path}  {one.name}  {len(one.text)} bytes")
        say(f"{len(modules)} files, SHA-256 {sum_of(modules)}")
    return ExitCode.OK


def describe(target: Target, /, *, json: Json = False) -> int:
    """Print the topology, in the text format of Kafka Streams.

    Args:
        target: The module, and the name of the application in it.
        json: Print the nodes as JSON.
    """
    from mustela.topology.facts import node_facts

    app = load_app(target)
    topology = app.built_topology()
    if json:
        document = {
            "application_id": app.settings.application_id,
            "fingerprint": topology.fingerprint,
            "nodes": [node_facts(node) for node in topology],
        }
        print_json(document)
    else:
        print(topology.describe(), end="")
    return ExitCode.OK


def explain(target: Target, /, *, json: Json = False) -> int:
    """Print the plan: stages, their steps, and the data exchanged between them.

    Args:
        target: The module, and the name of the application in it.
        json: Print the stages as JSON.
    """
    from mustela.planner.explain import explain as plan_text

    app = load_app(target)
    plan = app.built_plan()
    if json:
        stages = [
            {
                "stage": stage.index,
                "inputs": list(stage.inputs),
                "steps": [step.name for step in stage.steps],
                "exchanges": [
                    {"name": ex.name, "step": ex.step, "target": ex.target}
                    for ex in stage.exchanges
                ],
                "stores": [store.name for store in stage.stores],
            }
            for stage in plan.stages
        ]
        print_json({"application_id": app.settings.application_id, "stages": stages})
    else:
        print(plan_text(plan))
    return ExitCode.OK


def topology(
    target: Target,
    /,
    *,
    format: Literal["text", "json", "mermaid"] = "text",
    open: Annotated[bool, Parameter(name="--open", negative=())] = False,
    json: Json = False,
) -> int:
    """Print the topology as text, JSON or a Mermaid diagram; or show that of a running instance.

    Args:
        target: The module, and the name of the application in it.
        format: The form.
        open: Open the topology of the instance that runs on this host in a browser.
        json: The same as --format json.
    """
    from mustela.topology.mermaid import mermaid

    app = load_app(target)
    if open:
        return _open(target, app.settings)
    if json or format == "json":
        return describe(target, json=True)
    if format == "mermaid":
        print(mermaid(app.built_topology()), end="")
        return ExitCode.OK
    return describe(target)


def _open(target: str, settings: Settings) -> int:
    """Open the page of the admin server of the instance that runs here.

    Raises:
        NoAdminServerError: If none runs here with an admin server.
    """
    import webbrowser

    from mustela.admin.access import access_file, read_access

    access = read_access(access_file(settings))
    if access is None or not access.address:
        name = settings.application_id
        what = f"no instance of {name} with an admin server is running on this host"
        fix = f"start it with an admin server: mustela run {target} --set admin.enabled=true"
        raise NoAdminServerError(what, evidence={"looked in": access_file(settings)}, fix=fix)
    page = f"{access.address}/topology"
    say(page)
    webbrowser.open(page)
    return ExitCode.OK


def parse_assignments(given: Sequence[str]) -> dict[str, Any]:
    """Turn ``key=value`` texts into settings.

    Raises:
        BadAssignmentError: If one has no name or no ``=``.

    Example:
        >>> parse_assignments(["lanes=3", "kafka.client.rack=a=b"])
        {'lanes': '3', 'kafka.client.rack': 'a=b'}
    """
    settings: dict[str, Any] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            what = f"--set {text!r} is not key=value"
            raise BadAssignmentError(what, fix="write, for example, --set lanes=4")
        settings[key.strip()] = value
    return settings
