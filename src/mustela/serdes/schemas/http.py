"""Requests to a registry over HTTP, with the standard library alone."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

from mustela.serdes.schemas.answer import Answer
from mustela.serdes.schemas.faults import RegistryUnreachableError
from mustela.serdes.schemas.login import (
    FixedLogin,
    Login,
    NoRedirects,
    OAuthLogin,
    trusted,
    unreadable,
)
from mustela.serdes.schemas.options import RegistryOptions

__all__ = ["HttpTransport"]

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_ANSWER_MAX: Final = 64 * 2**20
_WAIT_MAX_S: Final = 5.0
_UNAUTHORIZED: Final = 401


class HttpTransport:
    """Asks the first of a registry's addresses that answers, and retries if that may help.

    Args:
        options: Addresses, credentials and limits.

    Raises:
        RegistryRefusedError: If a certificate file cannot be read.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        handlers: list[urllib.request.BaseHandler] = [NoRedirects()]
        if any(url.startswith("https:") for url in options.urls):
            handlers.append(urllib.request.HTTPSHandler(context=_context(options)))
        self._opener = urllib.request.build_opener(*handlers)
        self._headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT}
        self._login = _login(options)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Make a request.

        Raises:
            RegistryUnreachableError: If no address answers properly.
            RegistryRefusedError: If the identity provider gives no token.
        """
        data = None if body is None else json.dumps(body).encode()
        wait = self._options.retry_wait_ms / 1000
        told = ""
        for attempt in range(self._options.retries_max + 1):
            if attempt:
                _wait(wait)
                wait *= 2
            for url in self._options.urls:
                answer, told = self._once(method, url + path, data)
                if answer is not None:
                    return answer
        msg = "the schema registry does not answer"
        raise RegistryUnreachableError(
            msg,
            evidence={
                "address": ", ".join(self._options.urls),
                "request": f"{method} {path}",
                "last": told,
                "tries": self._options.retries_max + 1,
            },
            fix="start it, or correct schema.registry.url",
        )

    def _once(self, method: str, url: str, data: bytes | None) -> tuple[Answer | None, str]:
        login = self._login.headers()
        answer, told = self._send(urllib.request.Request(url, data, login, method=method))
        if answer is None or answer.status != _UNAUTHORIZED or not self._login.renewed(login):
            return answer, told
        return self._send(urllib.request.Request(url, data, self._login.headers(), method=method))

    def _send(self, request: urllib.request.Request) -> tuple[Answer | None, str]:
        for name, value in self._headers.items():
            request.add_header(name, value)
        try:
            with self._opener.open(request, timeout=self._options.timeout_ms / 1000) as response:
                return Answer(response.status, _json(response.read(_ANSWER_MAX))), ""
        except urllib.error.HTTPError as error:
            answer = Answer(error.code, _json(error.read(_ANSWER_MAX)))
            if error.code in _PASSING:
                return None, f"{error.code} {answer.told}".strip()
            return answer, ""
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            return None, f"{type(reason).__name__}: {reason}"


def _login(options: RegistryOptions) -> Login:
    if options.oauth is None:
        return FixedLogin(options)
    clock = time.monotonic  # noqa: TID251 - a token lives in real time, and serdes see no clock
    return OAuthLogin(options, options.oauth, monotonic=clock, sleep=_wait)


def _wait(seconds: float) -> None:
    time.sleep(min(seconds, _WAIT_MAX_S))


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _context(options: RegistryOptions) -> ssl.SSLContext:
    context = trusted(options.ca)
    if options.certificate:
        try:
            context.load_cert_chain(
                options.certificate, options.key or None, options.key_password or None
            )
        except (OSError, ssl.SSLError) as error:
            raise unreadable(error, {"ssl.certificate": options.certificate}) from None
    context.check_hostname = options.check_host
    return context
