"""Asks an application for frames, and for the rows of their parts."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import count, islice
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Self, cast
from urllib.parse import quote, urlsplit

import msgspec

from mustela.admin.access import access_file, read_access
from mustela.client.asking import decoded, unavailable
from mustela.client.errors import RemoteUnavailableError
from mustela.config.settings import Settings
from mustela.frames.errors import FrameOptionError
from mustela.frames.options import FrameOptions
from mustela.sql.libraries import arrow

__all__ = ["Asking"]

_TIMEOUT_S: Final = 60.0
_PAUSES_S: Final = (0.5, 1.0, 2.0)
"""Pauses before a question is asked again: a busy server has an answer a moment later."""


class Asking:
    """One connection to the admin server of an application, or of a replica.

    The token is read where it is needed, from a file or the environment: it is never in a plan, and
    never sent to a worker.

    Args:
        options: Where the server is.
        sleep: Waits for some seconds.

    Raises:
        FrameOptionError: If no application of that name runs here, or the token is not there.
    """

    def __init__(
        self, options: FrameOptions, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._options = options
        self._sleep = sleep
        address, token, context = _local(options) if options.app else _remote(options)
        place = urlsplit(address)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._prefix = place.path.rstrip("/")
        self._http: HTTPConnection
        if place.scheme == "https":
            self._http = HTTPSConnection(
                place.hostname or "", place.port, timeout=_TIMEOUT_S, context=context
            )
        else:
            self._http = HTTPConnection(place.hostname or "", place.port, timeout=_TIMEOUT_S)

    def open(self, *, held: bool = False) -> dict[str, Any]:
        """Return a frame of the wanted epoch: its name, as ``frame``, and its ``epoch``."""
        options = self._options
        wish = {"epoch": options.epoch, "seconds": options.lifetime, "held": held}
        return self._document("/frames", wish)

    def described(self, frame: str) -> dict[str, Any]:
        """Return the store's schema, its key groups and the columns whose filters it can use."""
        return self._document(f"/frames/{frame}/{quote(self._options.store, safe='')}")

    def end(self, frame: str) -> None:
        """End a frame."""
        self._document(f"/frames/{frame}")

    def batches(self, frame: str, part: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the Arrow batches of a part of a frame.

        A frame has the same batches each time, so a part whose pages break off is read again, and
        what was given out is left out.
        """
        given, pauses = 0, iter(_PAUSES_S)
        while True:
            try:
                for batch in islice(self._pages(frame, part), given, None):
                    yield batch
                    given, pauses = given + 1, iter(_PAUSES_S)
                return
            except RemoteUnavailableError as error:
                self._bear(error, pauses)

    def _pages(self, frame: str, part: Mapping[str, Any]) -> Iterator[Any]:
        ipc = arrow().ipc
        path = f"/frames/{frame}/{quote(self._options.store, safe='')}/rows"
        wish = {**part, "reader": token_hex(8)}
        for page in count():
            status, headers, body = self._post(path, {**wish, "page": page})
            if status != 200:
                decoded(status, body)
            with ipc.open_stream(body) as stream:
                yield from stream
            if headers.get("mustela-more") != "true":
                return

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _document(self, path: str, wish: Mapping[str, Any] | None = None) -> dict[str, Any]:
        pauses = iter(_PAUSES_S)
        while True:
            try:
                status, _, body = self._post(path, wish or {})
                return decoded(status, body)
            except RemoteUnavailableError as error:
                self._bear(error, pauses)

    def _bear(self, error: RemoteUnavailableError, pauses: Iterator[float]) -> None:
        """Wait before a question is asked again, or raise the error if that was enough."""
        seconds = next(pauses, None)
        if seconds is None:
            raise error
        self._sleep(seconds)

    def _post(self, path: str, wish: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        sent = {"content-type": "application/json", **self._headers}
        try:
            self._http.request("POST", self._prefix + path, msgspec.json.encode(wish), sent)
            answer = self._http.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        except (OSError, HTTPException) as error:
            self._http.close()  # else the next question finds this one half asked
            raise unavailable(str(error) or type(error).__name__) from error


def _local(options: FrameOptions) -> tuple[str, str, ssl.SSLContext | None]:
    """Return address, token and certificate of an application of this user on this host."""
    given: dict[str, Any] = {}
    if options.state_dir is not None:
        given["state_dir"] = options.state_dir
    settings = Settings.load(application_id=cast("str", options.app), **given)
    access = read_access(access_file(settings))
    if access is None or not access.address:
        what = f"the application {options.app} does not show itself on this host"
        raise FrameOptionError(
            what,
            evidence={"looked for": str(access_file(settings))},
            why="it does not run here, has no admin server, or belongs to another user",
            fix="run it with admin.enabled: true; give its directory with stateDir, or with url "
            "the address of an application or a replica elsewhere",
        )
    context = None
    if access.certificate:
        context = ssl.create_default_context(cafile=access.certificate)
        context.check_hostname = False  # no other certificate is trusted
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return access.address, access.tokens.query, context


def _remote(options: FrameOptions) -> tuple[str, str, ssl.SSLContext | None]:
    address = cast("str", options.url)
    context = None
    if address.startswith("https://"):
        context = ssl.create_default_context(cafile=options.certificate)
    token = ""
    if options.token_env:
        token = os.environ.get(options.token_env, "")
        if not token:
            what = f"the environment variable {options.token_env} is not set in Spark's process"
            fix = "set it before Spark starts, on each host, or use tokenFile"
            raise FrameOptionError(what, fix=fix)
    if options.token_file:
        try:
            token = Path(options.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            what = f"the token's file cannot be read: {error.strerror}"
            fix = "name a file that is there on each host where Spark works"
            raise FrameOptionError(what, fix=fix) from None
    return address, token, context
