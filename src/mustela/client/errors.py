"""The errors of the client."""

from __future__ import annotations

from mustela.errors import EnvironmentFault, UsageError

__all__ = ["ClientLibraryError", "RemoteRefusedError", "RemoteUnavailableError"]


class RemoteRefusedError(UsageError):
    """The server refused a question; ``fields`` has its ``status`` and ``code``."""

    code = "REMOTE_REFUSED"


class RemoteUnavailableError(EnvironmentFault):
    """The server does not answer, or has no answer now."""

    code = "REMOTE_UNAVAILABLE"
    retryable = True


class ClientLibraryError(UsageError):
    """The library that the client asks with is not installed."""

    code = "CLIENT_LIBRARY"
