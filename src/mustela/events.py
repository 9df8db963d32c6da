"""What a running application reports to its listeners."""

from __future__ import annotations

from mustela.runtime.app_topics import (
    AppTopics as AppTopics,
)
from mustela.runtime.events import (
    AppState as AppState,
    EpochDone as EpochDone,
    Event as Event,
    Failed as Failed,
    Listener as Listener,
    Restoring as Restoring,
    Said as Said,
    StateChanged as StateChanged,
    UncaughtAnswer as UncaughtAnswer,
)
