"""Metrics of parts that come and go.  :mod:`mqbroker.server.observation.metrics`, which shows them, is imported with the first scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class Gauge(NamedTuple):
    """One series that a part of the broker adds: ``name`` with dots as in ``metrics``, the labels beside ``broker``, and its value."""

    name: str
    explanation: str
    labels: tuple[tuple[str, str], ...]
    read: Callable[[], float]


class Gauges:
    """The series of parts that come and go, such as links to other brokers."""

    def __init__(self) -> None:
        self._gauges: dict[tuple[str, tuple[tuple[str, str], ...]], Gauge] = {}

    def __iter__(self) -> Iterator[Gauge]:
        return iter(list(self._gauges.values()))

    def register(self, name: str, explanation: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """Show a series; it replaces a series with the same name and labels.  Returns the function that removes it."""
        gauge = Gauge(name, explanation, tuple(labels.items()), read)
        key = name, gauge.labels
        self._gauges[key] = gauge

        def unregister() -> None:
            if self._gauges.get(key) is gauge:
                del self._gauges[key]

        return unregister

    def register_all(self, labels: Mapping[str, str], *series: tuple[str, str, Callable[[], float]]) -> Callable[[], None]:
        """Show several series, each given as name, explanation and value.  Returns the function that removes all of them."""
        shown = [self.register(name, explanation, labels, read) for name, explanation, read in series]

        def unregister() -> None:
            for each in shown:
                each()

        return unregister
