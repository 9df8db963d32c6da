"""Ask a slow service for each payment; those that wait are parked, and the order of a key stays.

    mustela broker start
    mustela topics create e19_parking_lot:app
    mustela run e19_parking_lot:app

and in a second terminal (ann's first payment takes five seconds, the others none):

    mustela send payments ann '{"amount": 900, "takes": 5}'
    mustela send payments ann '{"amount": 10}'
    mustela send payments bob '{"amount": 20}'
    mustela tail checked --from-beginning
    mustela status parking-lot

Bob's payment is checked at once. Ann's second one waits for her first, and comes after it.
Meanwhile epochs go on and commit: what waits is in a store with a changelog, not in a thread or
in memory, so that nothing is lost or repeated if everything is killed in these five seconds (try
it: ``kill -9``, and run it again). If a thousand payments wait, nothing more is read until calls
have ended. A crash may make a call again: `e18_enrich_over_http` shows the key by which a service
knows it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from mustela import App, Record, StreamsBuilder
from mustela.calls import AsyncOptions, CallFailedError, Retry

app = App("parking-lot")


@dataclass(frozen=True)
class Payment:
    amount: int
    takes: float = 0.0


@dataclass(frozen=True)
class Checked:
    amount: int
    verdict: str


async def check(payment: Payment) -> Checked:
    """Stand in for a service: await the answer of your client here."""
    await asyncio.sleep(payment.takes)
    return Checked(payment.amount, "ok" if payment.amount < 1_000 else "review")


def unchecked(record: Record[str, Payment], _error: CallFailedError) -> Checked:
    """Let a person look at what the service did not answer."""
    return Checked(record.value.amount, "review")


options = AsyncOptions(
    ordered=True,
    timeout=timedelta(seconds=10),
    retry=Retry(attempts=3, initial=timedelta(milliseconds=100)),
    max_parked=1_000,
    on_failure=unchecked,
)


@app.topology
def build(builder: StreamsBuilder) -> None:
    payments = builder.stream("payments", key=str, value=Payment)
    checked = payments.map_values_async(check, options, value=Checked, name="check")
    checked.to("checked", value=Checked)


if __name__ == "__main__":
    app.run()
