"""What the server counts of itself, for Prometheus; nothing in it tells who asked or for what.

Counting is a few additions to plain numbers; they become Prometheus' own text when somebody asks for it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from perdure.edge.http.routes import Endpoint
from perdure.ports.ambient import Ambient

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BOUNDS: Final = (
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    10_000_000,
)
"""Microseconds: the upper ends of the buckets of the times to answer."""
SECOND: Final = 1_000_000


class Tally:
    """The requests of one endpoint with one status: how many took how long, and how long together."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total = 0


class Measures:
    """Requests by endpoint and status, how long they took, and what is attached."""

    def __init__(self, ambient: Ambient, on: bool = True) -> None:
        self._ambient = ambient
        self._on = on
        self._tallies: dict[tuple[str, int], Tally] = {}
        self.surfaces = 0
        """Surfaces attached to this node."""
        self.deliveries = 0
        """Events delivered to surfaces."""

    def now(self) -> int:
        """A moment to count from."""
        return self._ambient.now()

    def count(self, endpoint: Endpoint | None, status: int, began: int) -> None:
        """One request was answered."""
        place = (endpoint.name if endpoint is not None else "none", status)
        found = self._tallies.get(place)
        if found is None:
            found = self._tallies[place] = Tally()
        took = self._ambient.now() - began
        found.buckets[bisect_left(BOUNDS, took)] += 1
        found.total += took

    def collect(self) -> "Iterator[Metric]":
        """Everything, as Prometheus' client wants it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily(
            "perdure_requests", "Requests by endpoint and status", labels=["endpoint", "status"]
        )
        seconds = HistogramMetricFamily("perdure_request_seconds", "Time to answer", labels=["endpoint", "status"])
        for (name, status), tally in self._tallies.items():
            labels = [name, str(status)]
            requests.add_metric(labels, sum(tally.buckets))
            seconds.add_metric(labels, _cumulative(tally.buckets), tally.total / SECOND)
        yield requests
        yield seconds
        yield GaugeMetricFamily("perdure_surfaces", "Surfaces attached to this node", value=self.surfaces)
        yield CounterMetricFamily("perdure_deliveries", "Events delivered to surfaces", value=self.deliveries)

    def shown(self) -> bytes:
        """All of it in Prometheus' own text; nothing when counting is switched off."""
        if not self._on:
            return b""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


def _cumulative(buckets: list[int]) -> list[Any]:
    """Each bound with how many were at or below it."""
    found, total = [], 0
    for bound, count in zip([*(str(bound / SECOND) for bound in BOUNDS), "+Inf"], buckets, strict=True):
        total += count
        found.append((bound, total))
    return found
