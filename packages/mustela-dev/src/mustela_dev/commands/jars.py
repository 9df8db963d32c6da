"""Where commands get jars and Java, and how they report a download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mustela.cli.console import say

if TYPE_CHECKING:
    from mustela_dev.broker.jars import JarRequest

__all__ = ["jar_request"]


def jar_request() -> JarRequest:
    """Return how to get jars: mirror and directory from the settings, and a suitable Java.

    Raises:
        JavaNotFoundError: If no suitable Java is found.
    """
    from mustela.cli.settings import loose_settings
    from mustela.java import find_java
    from mustela_dev.broker.jars import JarRequest, JarSettings

    chosen = loose_settings().jars
    return JarRequest(
        settings=JarSettings(mirror=chosen.mirror, directory=chosen.directory),
        java=find_java(),
        say=say,
    )
