"""Why something cannot be prepared for where it is to run."""

from __future__ import annotations

from mustela.errors import UsageError

__all__ = ["DeploymentError"]


class DeploymentError(UsageError):
    """What is to be deployed is not described completely, or cannot run there."""

    code = "DEPLOYMENT"
