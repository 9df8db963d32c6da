"""What mustela-dev adds to the checks of the doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mustela.cli.examination import Finding, Level
from mustela_dev.broker.jars import (
    JarRequest,
    JarSettings,
    jar_set,
    jars_are_ready,
    jars_cache,
    resolve_jars,
)

if TYPE_CHECKING:
    from mustela.config.settings import Settings

__all__ = ["examine_jars"]


def examine_jars(settings: Settings) -> Finding:
    """Check that the broker's jars exist and are the tested ones."""
    chosen = JarSettings(mirror=settings.jars.mirror, directory=settings.jars.directory)
    request = JarRequest(settings=chosen)
    if not jars_are_ready("kafka", request):
        kafka = jar_set("kafka")
        if chosen.directory is None:
            return Finding(
                name="jars",
                level=Level.NOTE,
                found=f"not there yet: {len(kafka.sums)} jars, {kafka.megabytes} MB",
                mend=f"nothing to do: mustela broker start downloads them once to {jars_cache()}; "
                "jars.mirror and jars.directory set the source",
            )
    jars = resolve_jars("kafka", request)
    return Finding(
        name="jars", level=Level.OK, found=f"{len(jars)} jars of Kafka in {jars[0].parent}"
    )
