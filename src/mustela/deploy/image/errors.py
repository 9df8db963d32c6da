"""Why no image can be made."""

from __future__ import annotations

from mustela.deploy.errors import DeploymentError
from mustela.errors import EnvironmentFault

__all__ = [
    "BaseError",
    "DistributionError",
    "ImageError",
    "ImageLockError",
    "ImageSecretError",
    "PackagesError",
]


class ImageError(DeploymentError):
    """What is to go into an image is not there, or is not clear."""

    code = "IMAGE"


class ImageLockError(ImageError):
    """The lock of Debian packages is missing, cannot be read, or is for another processor."""

    code = "IMAGE_LOCK"


class BaseError(ImageError):
    """The image to build on cannot be read, or lacks what an application needs."""

    code = "IMAGE_BASE"


class DistributionError(ImageError):
    """An installed distribution is missing, was changed, or does not fit into the image."""

    code = "IMAGE_DISTRIBUTION"


class ImageSecretError(ImageError):
    """A file that is to go into an image has a secret in it."""

    code = "IMAGE_SECRET"


class PackagesError(EnvironmentFault):
    """Debian's packages cannot be found, fetched or read."""

    code = "IMAGE_PACKAGES"
    retryable = True
