"""All shocks, by name."""

from __future__ import annotations

from tests.faults.shocks import brokers, kills, pauses, zombies
from tests.faults.shocks.shock import Shock

__all__ = ["SHOCKS"]

SHOCKS: dict[str, Shock] = {
    shock.name: shock for family in (pauses, kills, brokers, zombies) for shock in family.SHOCKS
}
