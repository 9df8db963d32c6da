"""Windows, suppression and event time: when a window is over, and what is late."""

from __future__ import annotations

from mustela.api.join_windows import (
    JoinWindows as JoinWindows,
)
from mustela.api.suppression import BufferConfig as BufferConfig, Suppressed as Suppressed
from mustela.api.timestamps import (
    FailOnInvalidTimestamp as FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp as LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp as UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor as WallclockTimestampExtractor,
)
from mustela.api.watermarks import (
    LatePolicy as LatePolicy,
    WatermarkStrategy as WatermarkStrategy,
)
from mustela.api.windows import (
    EmitStrategy as EmitStrategy,
    SessionWindows as SessionWindows,
    SlidingWindows as SlidingWindows,
    TimeWindows as TimeWindows,
    UnlimitedWindows as UnlimitedWindows,
)
from mustela.model import (
    Windowed as Windowed,
)
from mustela.serdes.windowed import (
    SessionWindowedSerde as SessionWindowedSerde,
    WindowedSerde as WindowedSerde,
)
