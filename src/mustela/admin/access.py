"""Access control: tokens with scopes, and the file with them for this user's command line."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from mustela.config.settings import Settings
from mustela.state.directories import make_private

__all__ = ["Access", "Scope", "Tokens", "access_file", "read_access"]

_DIRECTORY: Final = "~admin"
_TOKEN_BYTES: Final = 32
_FILE_MAX: Final = 65_536


class Scope(IntEnum):
    """What the bearer of a token may do; each scope includes those before it."""

    NOBODY = 0
    READ = 1
    QUERY = 2
    OPERATE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The token of each scope.

    Example:
        >>> tokens = Tokens(read="r" * 24, query="q" * 24, operate="o" * 24)
        >>> tokens.scope_of("q" * 24), tokens.scope_of("guessed")
        (<Scope.QUERY: 2>, <Scope.NOBODY: 0>)
    """

    read: str = field(repr=False)
    query: str = field(repr=False)
    operate: str = field(repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Tokens:
        """Return the tokens of the settings, with new ones for those not set."""
        admin = settings.admin
        return cls(
            read=admin.read_token or secrets.token_urlsafe(_TOKEN_BYTES),
            query=admin.query_token or secrets.token_urlsafe(_TOKEN_BYTES),
            operate=admin.operate_token or secrets.token_urlsafe(_TOKEN_BYTES),
        )

    def scope_of(self, given: str) -> Scope:
        """Return the scope of a token, in a time that reveals nothing about the tokens."""
        found = Scope.NOBODY
        said = sha256(given.encode("utf-8", "surrogateescape")).digest()
        for scope, token in (
            (Scope.READ, self.read),
            (Scope.QUERY, self.query),
            (Scope.OPERATE, self.operate),
        ):
            if hmac.compare_digest(said, sha256(token.encode()).digest()):
                found = scope
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the command line needs to connect to a running application.

    Attributes:
        application_id: The application.
        address: The URL of its admin server, such as ``http://127.0.0.1:8080``; empty if it is only
            mounted in the user's own server.
        certificate: File with its certificate if it uses TLS; otherwise empty.
        pid: Its process id.
        tokens: Its tokens by scope.
    """

    application_id: str
    address: str
    certificate: str
    pid: int
    tokens: Tokens

    def write(self, path: Path, root: Path) -> None:
        """Write it where only this user can read it.

        Raises:
            StateDirectoryError: If others could change or replace the file.
        """
        make_private(root, path.parent)
        document = {
            "application_id": self.application_id,
            "address": self.address,
            "certificate": self.certificate,
            "pid": self.pid,
            "tokens": {
                "read": self.tokens.read,
                "query": self.tokens.query,
                "operate": self.tokens.operate,
            },
        }
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump(document, file)
        beside.replace(path)

    def remove(self, path: Path) -> None:
        """Remove the file, unless a newer instance has written it since."""
        if read_access(path) == self:
            path.unlink(missing_ok=True)


def access_file(settings: Settings) -> Path:
    """Return the path of an application's access file.

    Example:
        >>> settings = Settings.load(application_id="orders", state_dir="/var/lib/x")
        >>> access_file(settings).as_posix()
        '/var/lib/x/~admin/orders.json'
    """
    return settings.state_dir / _DIRECTORY / f"{settings.application_id}.json"


def read_access(path: Path) -> Access | None:
    """Read the file; None if it does not exist, or is not private to this user."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(number, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                return None
            read: Any = json.loads(file.read(_FILE_MAX))
    except (OSError, ValueError):
        return None
    try:
        document = cast("dict[str, Any]", read)
        tokens = Tokens(**{name: str(token) for name, token in document["tokens"].items()})
        return Access(
            application_id=str(document["application_id"]),
            address=str(document["address"]),
            certificate=str(document["certificate"]),
            pid=int(document["pid"]),
            tokens=tokens,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
