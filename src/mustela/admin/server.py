"""The admin server of an application: its addresses and access rules."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from mustela.admin.access import Access, Tokens, access_file
from mustela.admin.application import application
from mustela.admin.data.endpoints import DataSource, data_endpoints
from mustela.admin.endpoints import Endpoint, endpoints, probe_endpoints
from mustela.admin.exposure import ANY_HOST, bind, check_exposure, is_loopback
from mustela.admin.guard import ASGI, Policy
from mustela.admin.listening import Limits, Listening, Place
from mustela.admin.metrics import AppCollector, metrics_answer
from mustela.config.admin import AdminSettings, host_and_port
from mustela.runtime.status.watched import Watched

__all__ = ["AdminServer", "Shown"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def _of_application(watched: Watched) -> tuple[Endpoint, ...]:
    return endpoints(metrics_answer(AppCollector(watched)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a server shows beside data.

    Attributes:
        endpoints: Returns its endpoints.
        probes: The endpoints of its probe port.
    """

    endpoints: Callable[[Watched], tuple[Endpoint, ...]] = _of_application
    probes: tuple[Endpoint, ...] = field(default_factory=probe_endpoints)


class AdminServer:
    """Serves an application over HTTP; see `mustela.runtime.status.watched.Admin`.

    Args:
        shown: What it shows beside data; default: an application.

    Attributes:
        address: Its URL, such as ``http://127.0.0.1:8080``; empty while it does not listen.
        probe_address: The URL of the probe port; empty without one.
    """

    def __init__(self, shown: Shown | None = None) -> None:
        self._shown = shown or Shown()
        self.address = ""
        self.probe_address = ""
        self._listening: Listening | None = None
        self._tokens: Tokens | None = None
        self._access: tuple[Access, Watched] | None = None
        self._for_data: tuple[Endpoint, ...] | None = None

    def open(self, watched: Watched) -> None:
        """Listen at the address in the settings, and write the file that the command line reads.

        Raises:
            AdminExposedError: If other hosts could reach it without TLS, a token and a list of host
                names.
            AdminTlsError: If the certificate and key cannot be used.
            AdminAddressError: If it cannot listen at its address.
        """
        admin = watched.settings.admin
        check_exposure(admin)
        host = _host_of(admin)
        is_open = not is_loopback(host)
        hosts = admin.hosts | {host.lower()}
        if not is_open:
            hosts |= _LOOPBACK
        policy = replace(self._policy(watched, hosts), is_strict=is_open)
        with contextlib.ExitStack() as stack:
            listening = stack.enter_context(contextlib.closing(bind(admin.listen)))
            scheme = "http" if admin.tls_certificate is None else "https"
            self.address = f"{scheme}://{_shown(host, listening)}"
            places = [
                Place(
                    socket=listening,
                    app=self._application(watched, policy),
                    certificate=admin.tls_certificate,
                    key=admin.tls_key,
                )
            ]
            if admin.probe_listen:
                probing = stack.enter_context(contextlib.closing(bind(admin.probe_listen)))
                self.probe_address = f"http://{_shown(_probe_host(admin), probing)}"
                places.append(Place(socket=probing, app=self._probe(watched, policy)))
            self._write_access(watched)
            limits = Limits(arrival_s=admin.request_timeout.total_seconds())
            self._listening = Listening(places, limits)
            stack.pop_all()
        with contextlib.suppress(Exception):  # a failing listener must not stop the server
            watched.say(f"the admin server listens at {self.address}")

    def asgi(self, watched: Watched) -> ASGI:
        """Return an ASGI application, to mount in the user's own server.

        It is not known where that server listens, so everything except the health endpoints needs a
        token, and any Host is accepted.
        """
        policy = self._policy(watched, watched.settings.admin.hosts or frozenset({ANY_HOST}))
        policy = replace(policy, is_strict=True, open_groups=frozenset({"health"}))
        if self._access is None:
            self._write_access(watched)
        return self._application(watched, policy)

    def close(self) -> None:
        """Stop listening, and remove the file that the command line reads."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        if self._access is not None:
            access, watched = self._access
            access.remove(access_file(watched.settings))
            self._access = None
        self.address = self.probe_address = ""

    def _policy(self, watched: Watched, hosts: frozenset[str]) -> Policy:
        admin = watched.settings.admin
        if self._tokens is None:
            self._tokens = Tokens.of(watched.settings)
        return Policy(
            tokens=self._tokens,
            hosts=hosts,
            requests_max=admin.max_requests,
            timeout_s=admin.request_timeout.total_seconds(),
            say=_quietly(watched.say),
            now=watched.board.clock.monotonic,
        )

    def _application(self, watched: Watched, policy: Policy) -> ASGI:
        known = replace(watched, plan=cache(watched.plan), topology=cache(watched.topology))
        return application(known, (*self._shown.endpoints(known), *self._data(known)), policy)

    def _probe(self, watched: Watched, policy: Policy) -> ASGI:
        """Return the application of the probe port, which answers all requests, for any Host."""
        anybody = replace(policy, hosts=frozenset({ANY_HOST}), is_strict=False)
        return application(watched, self._shown.probes, anybody)

    def _data(self, watched: Watched) -> tuple[Endpoint, ...]:
        """Return the endpoints for data, made once: they share cursors, snapshots and limits."""
        if watched.queries is None or "query" in watched.settings.admin.off:
            return ()
        if self._for_data is None:
            source = DataSource(
                settings=watched.settings,
                queries=watched.queries,
                clock=watched.board.clock,
                changes=watched.board.changes,
                functions=watched.functions,
                sizes=lambda: watched.board.measures.sizes(),
                say=_quietly(watched.say),
            )
            self._for_data = data_endpoints(source)
        return self._for_data

    def _write_access(self, watched: Watched) -> None:
        assert self._tokens is not None
        settings = watched.settings
        certificate = settings.admin.tls_certificate
        access = Access(
            application_id=settings.application_id,
            address=self.address,
            certificate="" if certificate is None else str(certificate.absolute()),
            pid=os.getpid(),
            tokens=self._tokens,
        )
        access.write(access_file(settings), settings.state_dir)
        self._access = access, watched


def _host_of(admin: AdminSettings) -> str:
    address = host_and_port(admin.listen)
    assert address is not None, "settings check it"
    return address[0]


def _probe_host(admin: AdminSettings) -> str:
    address = host_and_port(admin.probe_listen)
    assert address is not None, "settings check it"
    return address[0]


def _shown(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _quietly(say: Callable[[str], Any]) -> Callable[[str], None]:
    def tell(text: str) -> None:
        with contextlib.suppress(Exception):  # a failing listener must not stop the server
            say(text)

    return tell
