"""Aggregates that are declared, not programmed: ``grouped.aggregate(total=Sum("amount"))``."""

from __future__ import annotations

from mustela.api.aggregates import (
    Aggregate as Aggregate,
    ApproxCountDistinct as ApproxCountDistinct,
    Avg as Avg,
    Count as Count,
    CountDistinct as CountDistinct,
    Latest as Latest,
    Max as Max,
    MaxBy as MaxBy,
    Min as Min,
    MinBy as MinBy,
    Quantile as Quantile,
    Sum as Sum,
    TopN as TopN,
)
