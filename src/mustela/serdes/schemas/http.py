"""Requests to a registry over HTTP, with the standard library alone."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

from mustela.serdes.schemas.answer import Answer
from mustela.serdes.schemas.faults import RegistryRefusedError, RegistryUnreachableError
from mustela.serdes.schemas.options import RegistryOptions

__all__ = ["HttpTransport"]

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_ANSWER_MAX: Final = 64 * 2**20
_WAIT_MAX_S: Final = 5.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Credentials go only to the configured address."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


class HttpTransport:
    """Asks the first of a registry's addresses that answers, and retries if that may help.

    Args:
        options: Addresses, credentials and limits.

    Raises:
        RegistryRefusedError: If a certificate file cannot be read.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if any(url.startswith("https:") for url in options.urls):
            handlers.append(urllib.request.HTTPSHandler(context=_context(options)))
        self._opener = urllib.request.build_opener(*handlers)
        self._headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT}
        if options.token:
            self._headers["Authorization"] = f"Bearer {options.token}"
        elif options.user_info:
            encoded = base64.b64encode(options.user_info.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """Make a request.

        Raises:
            RegistryUnreachableError: If no address answers properly.
        """
        data = None if body is None else json.dumps(body).encode()
        wait = self._options.retry_wait_ms / 1000
        told = ""
        for attempt in range(self._options.retries_max + 1):
            if attempt:
                time.sleep(min(wait, _WAIT_MAX_S))
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
        request = urllib.request.Request(url, data, self._headers, method=method)
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


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _context(options: RegistryOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.ca or None)
        if options.certificate:
            context.load_cert_chain(
                options.certificate, options.key or None, options.key_password or None
            )
    except (OSError, ssl.SSLError) as error:
        msg = f"a certificate for the schema registry cannot be read: {error}"
        raise RegistryRefusedError(
            msg,
            evidence={"ssl.ca.location": options.ca, "ssl.certificate": options.certificate},
            fix="give files in PEM, and the password of the key",
        ) from None
    context.check_hostname = options.check_host
    return context
