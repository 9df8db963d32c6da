"""The command line's entry: which command is meant, and what its end means."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["main"]

_EPILOGUE = "--debug, with any command, shows the stack trace of an error.\n\n"
_KAFKA_TOOLS = (
    "Kafka's own tools run as commands too, by their names: mustela kafka-topics, "
    "kafka-consumer-groups, kafka-console-consumer and others. They ask the broker of the "
    "settings unless told otherwise.\n"
)
_WITHOUT_THEM = (
    "{line} adds commands for development: a Kafka broker on this machine, a demonstration, and "
    "Kafka's own tools.\n"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: What stands behind ``mustela`` on the command line.
    """
    _survive_any_locale()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0].startswith("kafka-"):
        return _run(lambda: _kafka_tool(given), debug=False)
    given, debug = _without_debug(given)
    return _run(lambda: _command(given), debug=debug)


def _command(given: list[str]) -> int:
    from cyclopts import CycloptsError

    from mustela.cli.development import is_of_development, missing

    app = own_commands()
    if not given or given[0].startswith("-") or given[0] not in app:
        app = command_line()  # what others add is loaded only where it is meant
    if given and given[0] not in app and is_of_development(given[0]):
        raise missing(given[0])
    try:
        result = app(given, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        # It has been printed, with what may have been meant.
        from mustela.cli.console import ExitCode

        return ExitCode.USAGE
    return result if isinstance(result, int) else 0


def _kafka_tool(given: list[str]) -> int:
    from mustela.cli.development import development_part, missing

    kafka_tool = development_part("kafka_tool")
    if kafka_tool is None:
        raise missing(given[0])
    return kafka_tool(given[0], given[1:])


def _run(command: Callable[[], int], *, debug: bool) -> int:
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone; nothing more may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - all end as text and a code
        from mustela.cli.console import exit_code_of, show_error

        show_error(error, debug=debug)
        return exit_code_of(error)
    return int(code)


def _without_debug(given: list[str]) -> tuple[list[str], bool]:
    """Take ``--debug`` out, wherever it stands before a ``--``; only ``run`` looks at it itself."""
    end = given.index("--") if "--" in given else len(given)
    options = [argument for argument in given[:end] if argument != "--debug"]
    debug = len(options) < end
    if debug and options[:1] == ["run"]:
        options.append("--debug")
    return [*options, *given[end:]], debug


def _survive_any_locale() -> None:
    """Print what the terminal's encoding lacks as an escape, in place of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def command_line() -> App:
    """Return the commands: the library's, and those that installed distributions add."""
    from mustela.cli.development import added_commands, development_part, install_line

    app = own_commands()
    for name, command in added_commands().items():
        if name not in app:
            app.command(command, name=name)
    tools = development_part("kafka_tool") is not None
    app.help_epilogue = _EPILOGUE + (
        _KAFKA_TOOLS if tools else _WITHOUT_THEM.format(line=install_line())
    )
    return app


def own_commands() -> App:
    """Return the library's commands."""
    from cyclopts import App

    import mustela
    from mustela.cli import (
        applications,
        batch,
        bench,
        check,
        clean,
        deploy,
        dlq,
        doctor,
        ha,
        image,
        migrate,
        offsets,
        records,
        replay,
        reset,
        schemas,
        sending,
        serve,
        settings,
        state,
        statements,
        status,
        topics,
    )

    app = App(
        name="mustela",
        help="The Kafka Streams DSL as a Python library, with Apache Spark as its engine.",
        version=mustela.__version__,
        help_format="markdown",
        suppress_keyboard_interrupt=False,
    )
    app.command(applications.run)
    app.command(serve.serve)
    app.command(applications.describe)
    app.command(applications.explain)
    app.command(applications.topology)
    app.command(status.status)
    app.command(status.top)
    app.command(statements.sql)
    app.command(check.check)
    app.command(batch.batch)
    app.command(bench.bench)
    app.command(sending.send)
    app.command(records.tail)
    app.command(replay.replay)
    app.command(reset.reset)
    app.command(clean.clean)
    app.command(doctor.doctor)
    app.command(migrate.group())
    app.command(completion)
    app.command(deploy.new)
    app.command(deploy.k8s)
    app.command(deploy.submit_script)
    groups = (ha, image, topics, offsets, state, dlq, schemas, settings)
    for module in groups:
        app.command(module.group())
    return app


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell; source it in the shell's start file.

    bash: eval "$(mustela completion bash)" in ~/.bashrc. zsh: mustela completion zsh into a file
    called _mustela in a directory of fpath. fish: mustela completion fish into
    ~/.config/fish/completions/mustela.fish.

    Args:
        shell: bash, zsh or fish.
    """
    print(command_line().generate_completion(shell=shell))
    return 0


if __name__ == "__main__":
    sys.exit(main())
