"""How a client shows a registry who it is: nothing, a user, a token, or tokens of a provider.

Tokens of an identity provider (OAuth 2.0, client credentials) are fetched when the first request
needs one, kept, and renewed before they expire or when the registry no longer takes one.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, urlencode

from mustela.serdes.schemas.faults import RegistryRefusedError, RegistryUnreachableError
from mustela.serdes.schemas.options import OAuthOptions, RegistryOptions

__all__ = ["FixedLogin", "Login", "NoRedirects", "OAuthLogin", "trusted", "unreadable"]

_ANSWER_MAX: Final = 1 << 20
_TOLD_MAX: Final = 300
_USED_UP: Final = 0.8
"""The part of its life after which a token is renewed, as in Confluent's client."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Credentials go only to the configured address."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        """Follow none."""


class Login(Protocol):
    """What a request carries, so that the registry knows who asks."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the next request."""
        ...

    def renewed(self, sent: Mapping[str, str], /) -> bool:
        """Say whether there is something else to show, as the registry refused ``sent``."""
        ...


class FixedLogin:
    """A user with a password, a token that never changes, or nothing.

    Args:
        options: The registry.

    Example:
        >>> FixedLogin(RegistryOptions(urls=("http://registry",), token="abc")).headers()
        {'Authorization': 'Bearer abc'}
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._headers = _cluster_headers(options)
        if options.token:
            self._headers["Authorization"] = f"Bearer {options.token}"
        elif options.user_info:
            self._headers["Authorization"] = _basic(options.user_info)

    def headers(self) -> dict[str, str]:
        """Return the same headers each time."""
        return self._headers

    def renewed(self, _sent: Mapping[str, str], /) -> bool:
        """Return False: there is nothing else to show."""
        return False


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew_at: float | None
    ends_at: float | None


class OAuthLogin:
    """Tokens of an identity provider, one at a time, for all threads.

    Args:
        options: The registry.
        oauth: The provider, and who asks it.
        monotonic: Seconds since some fixed moment.
        sleep: Waits a number of seconds.
    """

    def __init__(
        self,
        options: RegistryOptions,
        oauth: OAuthOptions,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._options, self._oauth = options, oauth
        self._monotonic, self._sleep = monotonic, sleep
        self._more = _cluster_headers(options)
        handlers: list[urllib.request.BaseHandler] = [NoRedirects()]
        if oauth.endpoint.startswith("https:"):
            context = trusted(options.ca, besides_system=True)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)
        self._lock = threading.Lock()
        self._token: _Token | None = None

    def headers(self) -> dict[str, str]:
        """Return headers with a token that has not expired.

        Raises:
            RegistryRefusedError: If the identity provider refuses.
            RegistryUnreachableError: If it does not answer.
        """
        with self._lock:
            token = self._token
            if token is None or _past(token.ends_at, self._monotonic()):
                token = self._token = self._fetch()
            elif _past(token.renew_at, self._monotonic()):
                token = self._token = self._fetch_early(token)
            return {"Authorization": f"Bearer {token.text}", **self._more}

    def renewed(self, sent: Mapping[str, str], /) -> bool:
        """Fetch another token, unless another thread has done so since.

        Raises:
            EnvironmentFault: As `headers`.
        """
        with self._lock:
            if self._token is not None and sent["Authorization"] == f"Bearer {self._token.text}":
                self._token = self._fetch()
            return True

    def _fetch_early(self, token: _Token) -> _Token:
        """Renew a token that is still good; while the provider is away, it goes on being used."""
        return self._once()[0] or token

    def _fetch(self) -> _Token:
        wait, told = self._options.retry_wait_ms / 1000, ""
        for attempt in range(self._options.retries_max + 1):
            if attempt:
                self._sleep(wait)
                wait *= 2
            token, told = self._once()
            if token is not None:
                return token
        msg = "the identity provider of the schema registry does not answer"
        raise RegistryUnreachableError(
            msg,
            evidence={
                "address": self._oauth.endpoint,
                "last": told,
                "tries": self._options.retries_max + 1,
            },
            fix="start it, or correct schema.registry.bearer.auth.issuer.endpoint.url",
        )

    def _once(self) -> tuple[_Token | None, str]:
        oauth = self._oauth
        form = {"grant_type": "client_credentials"}
        if oauth.scope:
            form["scope"] = oauth.scope
        # RFC 6749, 2.3.1: both are form-encoded before they are put together.
        user = f"{quote(oauth.client_id, safe='')}:{quote(oauth.secret, safe='')}"
        headers = {
            "Authorization": _basic(user),
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        data = urlencode(form).encode()
        request = urllib.request.Request(oauth.endpoint, data, headers, method="POST")
        asked_at = self._monotonic()
        try:
            timeout_s = self._options.timeout_ms / 1000
            with self._opener.open(request, timeout=timeout_s) as response:
                return self._read(response.read(_ANSWER_MAX), asked_at), ""
        except urllib.error.HTTPError as error:
            told = _told(error.read(_ANSWER_MAX), oauth.secret)
            if error.code in _PASSING:
                return None, f"{error.code} {told}".strip()
            raise self._refusal(f"{error.code} {told}".strip()) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            return None, f"{type(reason).__name__}: {reason}"

    def _read(self, data: bytes, asked_at: float) -> _Token:
        answer = _object(data)
        text, life_s = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(text, str) or not _TOKEN.match(text):
            # Nothing of the answer is shown: what cannot be read may still be a token.
            told = "an answer without a bearer token"
            raise self._refusal(told)
        try:
            life = None if life_s is None else float(life_s)
        except (TypeError, ValueError):
            life = None
        if life is None or life <= 0:
            return _Token(text, None, None)
        return _Token(text, asked_at + life * _USED_UP, asked_at + life)

    def _refusal(self, answer: str) -> RegistryRefusedError:
        msg = "the identity provider of the schema registry gave no token"
        return RegistryRefusedError(
            msg,
            evidence={"address": self._oauth.endpoint, "answer": answer},
            fix="correct schema.registry.bearer.auth.client.id, client.secret or scope there",
        )


def _cluster_headers(options: RegistryOptions) -> dict[str, str]:
    """Return what Confluent's cloud wants beside a token."""
    wanted = {
        "target-sr-cluster": options.logical_cluster,
        "Confluent-Identity-Pool-Id": options.identity_pool,
    }
    return {name: value for name, value in wanted.items() if value}


def trusted(ca: str, *, besides_system: bool = False) -> ssl.SSLContext:
    """Return a context that trusts a file's certificates.

    Args:
        ca: The file in PEM; empty for those of the system.
        besides_system: Whether those of the system are trusted, too.

    Raises:
        RegistryRefusedError: If the file cannot be read.
    """
    try:
        if not besides_system:
            return ssl.create_default_context(cafile=ca or None)
        context = ssl.create_default_context()
        if ca:
            context.load_verify_locations(cafile=ca)
        return context
    except (OSError, ssl.SSLError) as error:
        raise unreadable(error, {"ssl.ca.location": ca}) from None


def unreadable(error: Exception, evidence: Mapping[str, object]) -> RegistryRefusedError:
    """Return the error of a file of certificates that cannot be read."""
    return RegistryRefusedError(
        f"a certificate for the schema registry cannot be read: {error}",
        evidence=evidence,
        fix="give files in PEM, and the password of the key",
    )


def _past(moment: float | None, now: float) -> bool:
    return moment is not None and now >= moment


def _basic(user_info: str) -> str:
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"


def _object(data: bytes) -> dict[str, Any]:
    try:
        answer: Any = json.loads(data)
    except ValueError:
        return {}
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}


def _told(data: bytes, secret: str) -> str:
    """Return what a provider says of its refusal, without the secret, should it repeat it."""
    answer = _object(data)
    parts = (answer.get("error"), answer.get("error_description"))
    told = ": ".join(part for part in parts if isinstance(part, str))
    return told.replace(secret, "******")[:_TOLD_MAX]
