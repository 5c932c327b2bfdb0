"""Addresses and queues of a session: create, delete, ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mqclient.core.connection.channel import Channel
from mqclient.core.runtime import Runtime, starts
from mqclient.core.settings import QueueConfiguration
from mqclient.errors import AddressDoesNotExistError, QueueDoesNotExistError, QueueExistsError
from mqclient.wire.packets import (
    BINDING_QUERY_ANSWERS,
    QUEUE_QUERY_ANSWERS,
    AddressQueryResult,
    BindingQuery,
    CreateAddress,
    CreateQueueV2,
    CreateSharedQueueV2,
    DeleteQueue,
    NullResponse,
    Packet,
    QueueQuery,
    QueueQueryResult,
)

_OPTIONAL = (
    "exclusive",
    "last_value",
    "last_value_key",
    "non_destructive",
    "consumers_before_dispatch",
    "delay_before_dispatch",
    "group_rebalance",
    "group_buckets",
    "auto_delete",
    "auto_delete_delay",
    "auto_delete_message_count",
    "group_first_key",
    "ring_size",
    "enabled",
    "group_rebalance_pause_dispatch",
)
"""Attributes that have the same name in QueueConfiguration, the packets and the query's answer."""


class QueueMethods:
    """The calls of a session about addresses and queues."""

    runtime: Runtime
    channel: Channel

    @starts
    async def address_query(self, address: str) -> AddressQueryResult:
        return await self._query_address(address)

    @starts
    async def queue_query(self, queue_name: str) -> QueueQueryResult:
        return await self._query_queue(queue_name)

    @starts
    async def create_address(self, address: str, routing_types: Iterable[int], auto_created: bool = False) -> None:
        await self._ask(CreateAddress(address, tuple(routing_types), True, auto_created), NullResponse)

    @starts
    async def create_queue(self, configuration: QueueConfiguration, *, if_missing: bool = False) -> None:
        """Raises ``QueueExistsError``, ``AddressDoesNotExistError``, ``SecurityError``, ``InvalidQueueConfigurationError``.

        With ``if_missing`` an existing queue of that name stays as it is, whatever its configuration; the broker is asked first, so that an
        open transaction is not spoilt.
        """
        address, name = _names(configuration)
        if if_missing and (await self._query_queue(name)).exists:
            return
        packet = CreateQueueV2(
            address,
            name,
            configuration.filter_string,
            configuration.durable,
            configuration.temporary,
            True,
            configuration.auto_created,
            -1 if configuration.routing_type is None else configuration.routing_type,
            -1 if configuration.max_consumers is None else configuration.max_consumers,
            bool(configuration.purge_on_no_consumers),
            **{key: getattr(configuration, key) for key in _OPTIONAL},
        )
        try:
            await self._ask(packet, NullResponse)
        except QueueExistsError:
            if not if_missing:
                raise  # else another client was quicker

    @starts
    async def create_shared_queue(self, configuration: QueueConfiguration) -> None:
        """Create the queue unless the same one exists; raises ``InvalidTransientQueueUseError`` when address or filter differ."""
        address, name = _names(configuration)
        packet = CreateSharedQueueV2(
            address,
            name,
            configuration.filter_string,
            configuration.durable,
            -1 if configuration.routing_type is None else configuration.routing_type,
            True,
            configuration.max_consumers,
            configuration.purge_on_no_consumers,
            **{key: getattr(configuration, key) for key in _OPTIONAL},
        )
        await self._ask(packet, NullResponse)

    @starts
    async def delete_queue(self, queue_name: str) -> None:
        """Raises ``QueueDoesNotExistError``, and ``IllegalStateError`` while the queue has consumers."""
        await self._ask(DeleteQueue(queue_name), NullResponse)

    async def _require_queue(self, address: str | None) -> None:
        """Raises ``AddressDoesNotExistError`` or ``QueueDoesNotExistError`` when messages to ``address`` would reach no queue."""
        if address is None:
            raise ValueError("a producer without an address cannot require a queue")
        name, _, queue = address.partition("::")
        found = await self._query_address(name)
        if queue in found.queue_names or (not queue and found.queue_names):
            return
        if not found.exists:
            raise AddressDoesNotExistError(f"the address {name} does not exist: messages sent to it would be lost")
        what = f"no queue {queue}" if queue else "no queue"
        raise QueueDoesNotExistError(f"the address {name} has {what}: messages sent to it would be lost")

    async def _query_address(self, address: str) -> AddressQueryResult:
        answer: AddressQueryResult = await self._ask(BindingQuery(address), *BINDING_QUERY_ANSWERS)
        return answer

    async def _query_queue(self, queue_name: str) -> QueueQueryResult:
        answer: QueueQueryResult = await self._ask(QueueQuery(queue_name), *QUEUE_QUERY_ANSWERS)
        return answer

    async def _ask(self, packet: Packet, *expects: type[Packet]) -> Any:
        await self.channel.ready()
        return await self.channel.call(packet, *expects)


def recreation_of(info: Any) -> CreateQueueV2 | None:
    """The packet that brings back a queue after a failover; None when the broker keeps it by itself (durable, not auto-created)."""
    if info.durable and not info.auto_created:
        return None
    return CreateQueueV2(
        info.address,
        info.name,
        info.filter_string,
        info.durable,
        info.temporary,
        False,
        info.auto_created,
        info.routing_type,
        info.max_consumers,
        info.purge_on_no_consumers,
        **{key: getattr(info, key) for key in _OPTIONAL},
    )


def _names(configuration: QueueConfiguration) -> tuple[str, str]:
    """(address, queue name); a fully qualified name is split."""
    if "::" in configuration.name:
        address, name = configuration.name.split("::", 1)
        return address, name
    return configuration.address if configuration.address is not None else configuration.name, configuration.name
