"""What went over the connections of a client of our own, counted as librdkafka counts its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Traffic"]


@dataclass(slots=True)
class Traffic:
    """Counts of all connections of a client since its beginning, by librdkafka's meaning.

    Example:
        >>> traffic = Traffic(requests_sent=2, responses_received=2, waited_s=0.5)
        >>> traffic.told()["round_trip_avg_s"]
        0.25
    """

    requests_sent: int = 0
    bytes_sent: int = 0
    responses_received: int = 0
    bytes_received: int = 0
    connects: int = 0
    disconnects: int = 0
    waited_s: float = 0.0

    def told(self) -> dict[str, float]:
        """Return the counts, and how long a question and its answer took on the average."""
        found: dict[str, float] = asdict(self)
        waited = found.pop("waited_s")
        if self.responses_received:
            found["round_trip_avg_s"] = waited / self.responses_received
        return found
