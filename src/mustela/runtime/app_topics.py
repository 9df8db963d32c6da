"""The topics of an application: those it reads, writes, and creates for itself."""

from __future__ import annotations

from dataclasses import dataclass

from mustela.config.settings import Settings
from mustela.plan.plan import Plan
from mustela.runtime.lease import lease_topic
from mustela.runtime.topics.application_topics import (
    dead_letter_topics,
    first_chooser,
    internal_topics,
    sink_topics,
)
from mustela.topology.source import SourceNode

__all__ = ["AppTopics", "app_topics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTopics:
    """The names of an application's topics, from its program and settings.

    Attributes:
        reads: Topics of streams and tables.
        patterns: Patterns of sources that read all topics whose names match.
        global_tables: Topics that every worker reads completely.
        writes: Topics that sinks name directly.
        writes_any: Whether a function also names topics, so that there may be others.
        dead_letters: The topic for dead letters; None if nothing can write one.
        internal: Topics that the application creates: changelogs, epochs and lease.

    Example:
        >>> from mustela import App
        >>> app = App("wordcount")
        >>> @app.topology
        ... def build(builder):
        ...     words = builder.stream("words", key=str, value=str).group_by_key()
        ...     words.count(store="counts").to_stream().to("counts")
        >>> app.topics.reads, app.topics.writes
        (('words',), ('counts',))
        >>> app.topics.internal
        ('wordcount-counts-changelog', 'wordcount-epochs', 'wordcount-lease')
    """

    reads: tuple[str, ...]
    patterns: tuple[str, ...]
    global_tables: tuple[str, ...]
    writes: tuple[str, ...]
    writes_any: bool
    dead_letters: str | None
    internal: tuple[str, ...]


def app_topics(settings: Settings, plan: Plan) -> AppTopics:
    """Return the topics of an application.

    Args:
        settings: Its settings.
        plan: Its plan.
    """
    sources = plan.stages[0].sources
    patterns = [source.pattern for source in sources if isinstance(source, SourceNode)]
    letters = dead_letter_topics(settings, plan)
    lease = lease_topic(settings.application_id)
    return AppTopics(
        reads=tuple(sorted({topic for source in sources for topic in source.topics})),
        patterns=tuple(sorted({pattern.pattern for pattern in patterns if pattern is not None})),
        global_tables=tuple(sorted({table.topic for table in plan.global_tables})),
        writes=tuple(sorted(sink_topics(plan))),
        writes_any=first_chooser(plan) is not None,
        dead_letters=letters[0] if letters else None,
        internal=tuple(sorted([*internal_topics(settings, plan), lease])),
    )
