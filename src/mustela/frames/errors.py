"""The errors of data frames."""

from __future__ import annotations

from mustela.errors import UsageError

__all__ = ["FrameOptionError"]


class FrameOptionError(UsageError):
    """An option of a data frame is missing, unknown, or has a value that it cannot have."""

    code = "FRAME_OPTION"
