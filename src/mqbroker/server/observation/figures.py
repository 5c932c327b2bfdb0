"""The figures of a running broker that :mod:`mqbroker.server.observation.metrics` shows.

The figures are counters that the broker keeps anyway: no function here walks over messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mqbroker.server.observation.gauges import Gauge, Gauges
from mqbroker.server.observation.metrics import Figures

if TYPE_CHECKING:
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.cluster_port import ColocatedFigures, CopyFigures, OtherBrokers
    from mqbroker.server.security.security import SecurityManager


class CountedSessions(Protocol):
    """The sessions of the broker."""

    @property
    def by_name(self) -> Sized:
        """The open sessions."""

    @property
    def total(self) -> int:
        """The number of sessions since the start."""


class ObservedServer(Protocol):
    """The server, as far as metrics show it."""

    configuration: Configuration
    messaging: Messaging
    security: SecurityManager
    gauges: Gauges
    started: bool
    others: OtherBrokers

    @property
    def total_connections(self) -> int: ...

    @property
    def connections(self) -> Sized: ...

    @property
    def sessions(self) -> CountedSessions: ...


class BrokerFigures:
    """A :class:`~mqbroker.server.observation.metrics.MetricsSource`.

    ``disk_usage`` is the used part of the data disk, 0.0 to 1.0; ``loop_lag_ms`` is None when the event loop is not watched.
    """

    def __init__(self, server: ObservedServer, disk_usage: Callable[[], float], loop_lag_ms: Callable[[], float | None]) -> None:
        self._server = server
        self._core = server.messaging.core
        self._disk_usage = disk_usage
        self._loop_lag_ms = loop_lag_ms

    @property
    def broker_name(self) -> str:
        return self._server.configuration.name

    def broker(self) -> Figures:
        server, memory = self._server, self._core.global_memory
        lag = self._loop_lag_ms()
        return {
            **({} if lag is None else {"event.loop.lag": lag}),
            "connection.count": len(server.connections),
            "total.connection.count": server.total_connections,
            "session.count": len(server.sessions.by_name),
            "total.session.count": server.sessions.total,
            "address.memory.usage": memory.size,
            "address.memory.usage.percentage": int(100 * memory.size / memory.max_bytes) if memory.max_bytes > 0 else 0,
            "disk.store.usage": self._disk_usage(),
            **_of_copies(server.others.copies),
            "active": int(server.started),
        }

    def results(self) -> Mapping[str, tuple[int, int]]:
        security = self._server.security
        return {
            "authentication.count": (security.authentication_successes, security.authentication_failures),
            "authorization.count": (security.authorization_successes, security.authorization_failures),
        }

    def addresses(self) -> Iterable[tuple[str, Figures]]:
        return [(address.name, _of_address(address)) for address in self._core.addresses.values()]

    def queues(self) -> Iterable[tuple[str, str, Figures]]:
        return [(queue.definition.address, queue.name, _of_queue(queue)) for queue in self._core.queues.values()]

    def gauges(self) -> Iterable[Gauge]:
        return [*self._server.gauges, *_reader_gauges(self._server.messaging), *_colocated_gauges(self._server.others.colocated)]

    def metrics_enabled(self, address: str) -> bool:
        return self._core.settings_of(address).enable_metrics


class PassiveFigures:
    """A :class:`~mqbroker.server.observation.metrics.MetricsSource` of a broker that is not active."""

    def __init__(self, broker_name: str, role: str, state: str, copies: CopyFigures | None) -> None:
        self.broker_name = broker_name
        self._labels = (("role", role), ("state", state))
        self._copies = copies

    def broker(self) -> Figures:
        return {**_of_copies(self._copies), "active": 0}

    def results(self) -> Mapping[str, tuple[int, int]]:
        return {}

    def addresses(self) -> Iterable[tuple[str, Figures]]:
        return ()

    def queues(self) -> Iterable[tuple[str, str, Figures]]:
        return ()

    def gauges(self) -> Iterable[Gauge]:
        return [Gauge("passive", "1 with the role of a broker that does not serve clients, and its state", self._labels, lambda: 1)]

    def metrics_enabled(self, address: str) -> bool:
        return True


def _of_copies(copies: CopyFigures | None) -> Figures:
    if copies is None:
        return {"replica.sync": 0}
    figures: dict[str, float] = {"replica.sync": int(copies.in_sync), "activation.sequence": copies.sequence}
    if copies.copied is not None:
        figures["replica.copied"] = copies.copied
    if copies.size is not None:
        figures["replica.size"] = copies.size
    if copies.behind is not None:
        figures["replica.behind"] = copies.behind
    return figures


def _colocated_gauges(colocated: ColocatedFigures | None) -> Iterator[Gauge]:
    """The backups of others in this process, and whether the own one is hosted."""
    if colocated is None:
        return
    yield Gauge("backup.hosted", "1 while another broker hosts the backup of this one", (), lambda: int(colocated.host is not None))
    for each in colocated.hosted:
        labels = (("backup", each.name), ("node", each.node_id), ("state", each.state))
        yield Gauge("hosted.backup", "1 with the node of a backup that this broker hosts, and its state", labels, lambda: 1)


def _reader_gauges(messaging: Messaging) -> Iterator[Gauge]:
    """The series of all readers."""
    for queue, reader in messaging.readers.all():
        labels = (("address", queue.definition.address), ("queue", queue.name), ("reader", reader.name))
        log = queue.log
        for name, explanation, value in (
            ("reader.lag", "Messages that a reader has not settled", 0 if log is None else log.lag(reader)),
            (
                "reader.reserved",
                "How far what was handed out is ahead of what is settled, in message ids",
                reader.reserved - reader.settled,
            ),
            ("reader.epoch", "How often a reader was opened", reader.epoch),
        ):
            yield Gauge(name, explanation, labels, partial(float, value))


def _of_address(address: Address) -> Figures:
    return {
        "routed.message.count": address.routed_messages,
        "unrouted.message.count": address.unrouted_messages,
        "address.size": address.memory.size,
        "number.of.pages": address.memory.page_count,
        "limit.percent": address.limit_percent,
    }


def _of_queue(queue: Queue) -> Figures:
    scheduled, durable = queue.scheduled, queue.definition.durable
    return {
        "message.count": queue.message_count,
        "durable.message.count": queue.durable_message_count,
        "persistent.size": queue.persistent_size,
        "durable.persistent.size": queue.durable_size,
        "delivering.message.count": queue.delivering,
        "scheduled.message.count": scheduled.count,
        "scheduled.durable.message.count": scheduled.durable_count if durable else 0,
        "scheduled.persistent.size": scheduled.size,
        "scheduled.durable.persistent.size": scheduled.durable_size if durable else 0,
        "messages.added": queue.messages_added,
        "messages.acknowledged": queue.messages_acknowledged,
        "messages.killed": queue.messages_killed,
        "messages.expired": queue.messages_expired,
        "messages.redistributed": queue.messages_redistributed,
        "messages.replaced": queue.messages_replaced,
        "consumer.count": queue.consumer_count,
    }
