"""A host that has run out of disk space or open files is named, whatever noticed it."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from mustela import App
from mustela.cli.console import ExitCode, exit_code_of
from mustela.runtime.life.life import Life
from mustela.runtime.shortage import shortage_of, shortage_told


def raised(number: int) -> Exception:
    """Return what a library makes of an error of the operating system."""
    try:
        try:
            raise OSError(number, "it is so")
        except OSError as error:
            msg = "a file could not be written"
            raise RuntimeError(msg) from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("number", "code", "exits"),
    [
        (errno.ENOSPC, "DISK_FULL", ExitCode.ENVIRONMENT),
        (errno.EDQUOT, "DISK_FULL", ExitCode.ENVIRONMENT),
        (errno.EMFILE, "OPEN_FILES", ExitCode.ENVIRONMENT),
        (errno.ENFILE, "OPEN_FILES", ExitCode.ENVIRONMENT),
        (errno.ENOENT, "INVARIANT", ExitCode.FAULT),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_application_ends_with_what_its_host_lacks(
    number: int, code: str, exits: ExitCode, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with a bug of ours; the driver's spool and connections raise it anywhere."""
    app: Any = App("a", bootstrap_servers="x:1")

    def live(*_: object) -> None:
        raise raised(number) if wrapped else OSError(number, "it is so")

    monkeypatch.setattr(Life, "live", live)
    app._main(None, None)
    assert (app.error.code, exit_code_of(app.error)) == (code, exits)
    assert ("bug" in str(app.error)) == (code == "INVARIANT")


def test_other_errors_are_no_shortage() -> None:
    """Nor is an error that leads back to itself."""
    error = ValueError("No space left on device")
    error.__context__ = error
    assert shortage_of(error) is None
    assert shortage_told("java.io.IOException: Broken pipe") is None
