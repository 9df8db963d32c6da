"""Stores as Spark data frames: ``register(spark)``, then ``spark.read.format("mustela")``."""

from __future__ import annotations

from mustela.frames.data_source import (
    MustelaDataSource as MustelaDataSource,
    hold as hold,
    register as register,
)
from mustela.frames.errors import (
    FrameOptionError as FrameOptionError,
)
