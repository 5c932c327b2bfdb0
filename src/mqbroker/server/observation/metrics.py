"""Metrics in the text format of Prometheus, under the names that the Artemis manual lists ("Metrics").

All metrics are gauges, even when they only grow, and all have the label ``broker``.  A figure that a source does not give has no series.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from mqbroker.server.observation.gauges import Gauge

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Figures: TypeAlias = Mapping[str, float]
"""Values by metric name; see the tables below for the names."""

BROKER_METRICS: Final = {
    "connection.count": "Connections of clients",
    "total.connection.count": "Connections since the broker has started",
    "session.count": "Sessions",
    "total.session.count": "Sessions since the broker has started",
    "address.memory.usage": "Bytes that messages of all addresses hold in memory",
    "address.memory.usage.percentage": "Memory held by messages in percent of global-max-size",
    "disk.store.usage": "Used part of the disk that holds the journal, 0 to 1",
    "replica.sync": "1 when a backup has everything",
    # not in Artemis
    "event.loop.lag": "Longest time in ms that the event loop let others wait within the last minute or two",
    "active": "1 when the broker serves clients",
    "activation.sequence": "Number of the last activation that the data of a replicated broker know of",
    "replica.copied": "Bytes that were copied to the present replica, or that have come from the active broker",
    "replica.size": "Bytes that are to be copied to the present replica",
    "replica.behind": "Bytes of changes that the present replica was sent and has not answered",
}
RESULT_METRICS: Final = {
    "authentication.count": "Logins by result",
    "authorization.count": "Permission checks by result",
}
ADDRESS_METRICS: Final = {
    "routed.message.count": "Messages routed to at least one queue",
    "unrouted.message.count": "Messages that no queue took",
    "address.size": "Bytes that messages of the address hold in memory",
    "number.of.pages": "Pages of the address",
    "limit.percent": "Memory or messages of the address in percent of its limit",
}
QUEUE_METRICS: Final = {
    "message.count": "Messages in the queue, with scheduled ones and those in delivery",
    "durable.message.count": "Durable messages in the queue",
    "persistent.size": "Bytes of the messages in the queue",
    "durable.persistent.size": "Bytes of the durable messages in the queue",
    "delivering.message.count": "Messages that consumers have not acknowledged yet",
    "delivering.durable.message.count": "Durable messages that consumers have not acknowledged yet",
    # an underscore in the name itself, as Artemis has it
    "delivering.persistent_size": "Bytes of the messages that consumers have not acknowledged yet",
    "delivering.durable.persistent.size": "Bytes of the durable messages that consumers have not acknowledged yet",
    "scheduled.message.count": "Messages that are due later",
    "scheduled.durable.message.count": "Durable messages that are due later",
    "scheduled.persistent.size": "Bytes of the messages that are due later",
    "scheduled.durable.persistent.size": "Bytes of the durable messages that are due later",
    "messages.added": "Messages added since the broker has started",
    "messages.acknowledged": "Messages acknowledged since the broker has started",
    "messages.killed": "Messages given up after too many deliveries since the broker has started",
    "messages.expired": "Messages expired since the broker has started",
    "messages.redistributed": "Messages that went to other brokers, where their consumers are, since the broker has started",
    "messages.replaced": "Messages that gave way to newer ones since the broker has started",
    "consumer.count": "Consumers of the queue",
}


class MetricsSource(Protocol):
    """The source of the figures.  Each method is called once per scrape, on the event loop, and must not walk over messages."""

    @property
    def broker_name(self) -> str: ...

    def broker(self) -> Figures:
        """By names of :data:`BROKER_METRICS`."""

    def results(self) -> Mapping[str, tuple[int, int]]:
        """By names of :data:`RESULT_METRICS`: how many succeeded, and how many failed."""

    def addresses(self) -> Iterable[tuple[str, Figures]]:
        """Every address with its figures by names of :data:`ADDRESS_METRICS`."""

    def queues(self) -> Iterable[tuple[str, str, Figures]]:
        """Address, name and figures by names of :data:`QUEUE_METRICS` of every queue."""

    def gauges(self) -> Iterable[Gauge]:
        """Series that are in no table, in any order."""

    def metrics_enabled(self, address: str) -> bool:
        """``enable-metrics`` of the address' settings: without it, the address and its queues have no series."""


def render(source: MetricsSource) -> Iterator[bytes]:
    """The text, a piece per metric.  All figures are of the moment when the first piece is taken."""
    broker = f'broker="{_escaped(source.broker_name)}"'
    enabled: dict[str, bool] = {}

    def shown(address: str) -> bool:
        known = enabled.get(address)
        if known is None:
            known = enabled[address] = source.metrics_enabled(address)
        return known

    tables: list[tuple[dict[str, str], list[tuple[str, Figures]]]] = [(BROKER_METRICS, [(broker, source.broker())])]
    results = source.results()
    outcomes: list[tuple[str, Figures]] = [
        (f'{broker},result="{outcome}"', {name: counts[at] for name, counts in results.items()})
        for at, outcome in enumerate(("success", "failure"))
    ]
    tables.append((RESULT_METRICS, outcomes))
    tables.append(
        (ADDRESS_METRICS, [(f'{broker},address="{_escaped(name)}"', figures) for name, figures in source.addresses() if shown(name)])
    )
    tables.append(
        (
            QUEUE_METRICS,
            [
                (f'{broker},address="{_escaped(address)}",queue="{_escaped(name)}"', figures)
                for address, name, figures in source.queues()
                if shown(address)
            ],
        )
    )
    by_name: dict[str, list[tuple[str, Figures]]] = {}
    explanations: dict[str, str] = {}
    for gauge in source.gauges():
        labels = "".join(f',{key}="{_escaped(value)}"' for key, value in gauge.labels)
        by_name.setdefault(gauge.name, []).append((broker + labels, {gauge.name: gauge.read()}))
        explanations.setdefault(gauge.name, gauge.explanation)
    tables.extend(({name: explanations[name]}, rows) for name, rows in by_name.items())
    for table, rows in tables:
        for name, explanation in table.items():
            exported = "artemis_" + name.replace(".", "_")
            lines = [f"{exported}{{{labels}}} {_number(figures[name])}\n" for labels, figures in rows if name in figures]
            if lines:
                yield f"# HELP {exported} {explanation}\n# TYPE {exported} gauge\n{''.join(lines)}".encode("utf-8", "replace")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if value != value else repr(value)
