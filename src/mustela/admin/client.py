"""Asks the admin server of an application of this user on this host, as its file says where.

A token is sent only where the server asks for one and has shown the certificate of the file: what
listens at the address of an application that was killed may be anybody's.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from mustela.admin.access import Access, access_file, read_access
from mustela.admin.errors import AdminSilentError
from mustela.config.settings import Settings
from mustela.processes import listening_users

__all__ = ["AdminClient", "find_server"]

_TIMEOUT_S: Final = 5.0
_DATA_TIMEOUT_S: Final = 60.0
_ANSWER_MAX: Final = 32 << 20
_FIRST_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


def find_server(settings: Settings) -> AdminClient | None:
    """Return what asks the server of an application, if one of this user seems to be there."""
    access = read_access(access_file(settings))
    if access is None or not access.address or not _is_there(access.pid):
        return None
    return AdminClient(access)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # the number was given to a process of somebody else's
    return True


class AdminClient:
    """Asks one server.

    Args:
        access: Where it is, and the tokens.
        elsewhere: Whether somebody named the address, so that it may be on another host.

    Attributes:
        access: The same.
    """

    def __init__(self, access: Access, *, elsewhere: bool = False) -> None:
        self.access = access
        self._elsewhere = elsewhere

    def get(self, path: str) -> dict[str, Any] | None:
        """Return a document; None if its endpoint is switched off.

        Raises:
            AdminSilentError: If the server does not answer, or not as it should.
        """
        status, body = self._ask(path)
        if status == 404:
            return None
        try:
            found: Any = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict) or status not in (200, 503):
            said = f"it answered {status}"
            raise self._silent(said)
        return cast("dict[str, Any]", found)

    def _ask(self, path: str) -> tuple[int, bytes]:
        place = urlsplit(self.access.address)
        token = self.access.tokens.read if place.scheme == "https" else ""
        return self._requested(path, token, _TIMEOUT_S)

    def data(self, target: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body of what is below ``/stores``, which needs a token on loopback too.

        Args:
            target: The address.
            body: What is posted there, as JSON; None asks with GET.

        Raises:
            AdminSilentError: If the server does not answer; or if it could be somebody else's,
                because it shows no certificate and does not belong to this user.
        """
        place = urlsplit(self.access.address)
        mine = self._elsewhere or listening_users(place.port or 0) == frozenset({os.geteuid()})
        if place.scheme != "https" and not mine:
            said = "what listens there does not belong to this user"
            raise self._silent(said)
        return self._requested(target, self.access.tokens.query, _DATA_TIMEOUT_S, body)

    def _requested(
        self, target: str, token: str, timeout_s: float, body: bytes | None = None
    ) -> tuple[int, bytes]:
        place = urlsplit(self.access.address)
        headers = {"accept": "application/json"}
        connection: HTTPConnection
        try:
            if token:
                headers["authorization"] = f"Bearer {token}"
            if place.scheme == "https":
                connection = HTTPSConnection(
                    place.hostname or "", place.port, timeout=timeout_s, context=self._context()
                )
            else:
                connection = HTTPConnection(place.hostname or "", place.port, timeout=timeout_s)
            try:
                connection.request("GET" if body is None else "POST", target, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read(_ANSWER_MAX)
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            raise self._silent(str(error) or type(error).__name__) from error

    def _context(self) -> ssl.SSLContext:
        """Trust the server's own certificate, and no other: so its names do not matter.

        Without one in the access, those that this machine trusts.
        """
        if not self.access.certificate:
            return ssl.create_default_context()
        text = Path(self.access.certificate).read_text(encoding="ascii", errors="replace")
        found = _FIRST_CERTIFICATE.search(text)
        if found is None:
            msg = f"{self.access.certificate} holds no certificate"
            raise ValueError(msg)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=found[0])
        return context

    def _silent(self, said: str) -> AdminSilentError:
        what = f"the admin server of {self.access.application_id} does not answer"
        fix = (
            "see whether its process lives and is not overloaded; `mustela status` without it "
            "reads Kafka alone"
        )
        if self._elsewhere:
            fix = (
                "see whether it lives and listens there: `mustela run` and `mustela serve` say "
                "their address when they start"
            )
        return AdminSilentError(
            what,
            evidence={"address": self.access.address, "said": said},
            fix=fix,
            fields={"address": self.access.address},
        )
