"""Errors of starting the admin server."""

from __future__ import annotations

from mustela.errors import EnvironmentFault, UsageError

__all__ = ["AdminAddressError", "AdminExposedError", "AdminSilentError", "AdminTlsError"]


class AdminExposedError(UsageError):
    """The admin server would be reachable from other hosts without TLS, a token or host names."""

    code = "ADMIN_EXPOSED"


class AdminTlsError(UsageError):
    """The certificate or the key of the admin server cannot be used."""

    code = "ADMIN_TLS"


class AdminAddressError(EnvironmentFault):
    """The admin server cannot listen at its address."""

    code = "ADMIN_ADDRESS"


class AdminSilentError(EnvironmentFault):
    """The admin server of a running application does not answer."""

    code = "ADMIN_SILENT"
