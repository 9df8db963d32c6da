"""Topologies to look at: a shop, and one with sixty steps; and epochs that run through them."""

from __future__ import annotations

import random
from datetime import timedelta

from mustela import JoinWindows, StreamsBuilder, TimeWindows
from mustela.plan.epoch import TaskReport
from mustela.plan.ranges import RangeReport
from mustela.state.interfaces import StoreSize
from tests.unit.admin.fakes import FakeApp

__all__ = ["busy_epoch", "shop", "sixty_steps"]


def shop(builder: StreamsBuilder) -> None:
    """Orders joined with customers and payments, revenue by hour, alerts."""
    orders = builder.stream("orders", key=str, value=dict, name="orders")
    customers = builder.table("customers", key=str, value=dict, store="customers-by-id")
    paid = builder.stream("payments", key=str, value=dict, name="payments")
    valid = orders.filter(lambda _key, order: bool(order), name="without-empty")
    known = valid.join(customers, lambda order, customer: order, name="with-customer")
    settled = known.select_key(lambda _key, order: order["payment"], name="by-payment").join(
        paid,
        lambda order, payment: order,
        windows=JoinWindows.of_time_difference(timedelta(minutes=5), grace=timedelta(0)),
        name="settled-orders",
    )
    settled.to("settled", key=str, value=dict, name="to-settled")
    hourly = (
        settled.group_by(lambda _key, order: order["country"], name="by-country")
        .windowed_by(TimeWindows(size=timedelta(hours=1), grace=timedelta(0)))
        .count(store="revenue-per-country-and-hour", name="revenue-per-hour")
    )
    changes = hourly.to_stream(lambda window, _count: window.key, name="revenue-changes")
    changes.to("revenue", key=str, value=int, name="to-revenue")
    doubtful = valid.filter(lambda _key, order: order["total"] > 1_000, name="doubtful-orders")
    doubtful.map_values(str, name="as-text").to("alerts", key=str, value=str, name="to-alerts")


def sixty_steps(builder: StreamsBuilder) -> None:
    """Twelve branches of five steps each, some of them joined."""
    lines = builder.stream("events-of-all-kinds", key=str, value=str, name="events")
    for branch in range(12):
        kept = lines.filter(lambda _key, _value: True, name=f"only-kind-{branch}")
        words = kept.map_values(str.upper, name=f"normalised-{branch}")
        keyed = words.group_by(lambda _key, value: value, name=f"by-customer-{branch}")
        counts = keyed.count(store=f"counts-of-kind-{branch}", name=f"counted-{branch}")
        counts.to_stream(name=f"changes-{branch}").to(
            f"totals-{branch % 4}", key=str, value=int, name=f"written-{branch}"
        )


def busy_epoch(app: FakeApp, chance: random.Random, records: int = 8_000) -> None:
    """Run an epoch in which records go through every step, most of them in lane 2."""
    reports: list[TaskReport] = []
    now_ms = app.clock.now_ms()
    counters: dict[str, int] = {}
    for stage in app.plan.stages:
        lanes = 1 if stage.index == 0 else 4
        for lane in range(lanes):
            share = 1.0 if lanes == 1 else (0.55 if lane == 2 else 0.15)
            count = int(records * share * chance.uniform(0.8, 1.2) / (1 + stage.index * 0.4))
            report = TaskReport(stage=stage.index, task=lane, pid=lane)
            report.seconds = {"lane": count / 40_000, "wait": 0.01}
            names = [source.name for source in stage.sources] or list(stage.inputs)
            for name in names:
                report.counters[f"records:{name}"] = count
                counters[f"records:{name}"] = counters.get(f"records:{name}", 0) + count
            for place, step in enumerate(stage.steps):
                through = int(count / (1 + place % 5))
                report.measured.taken[step.name] = through
                report.measured.given[step.name] = int(through * 0.9)
            for store in stage.stores:
                rows = 40_000 + app.board.totals.epochs.get("committed", 0) * 70 + lane * 900
                report.measured.stores[store.name, lane] = StoreSize(rows, rows * 210)
            reports.append(report)
    read = [RangeReport(0, 0, 0, records, records, now_ms, 1, first_ms=now_ms - 900)]
    reports[0].ranges.extend(read)
    app.commits(counters, records=records, reports=reports)
