"""An address: a name, its routing types, settings, queues and counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.message.memory import AddressMemory
from mqbroker.messaging.ports import AddressRecord

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue


class Address:
    """An address and its counters (messages since the start of the broker).

    ``queues`` are bound to exactly this name.  A ``temporary`` address exists for a temporary queue and is removed with it.
    """

    __slots__ = (
        "address_id",
        "auto_created",
        "bound_once",
        "internal",
        "memory",
        "name",
        "paused",
        "queues",
        "routed_messages",
        "routing_types",
        "settings",
        "sweep_mark",
        "temporary",
        "unbound_since_ms",
        "unrouted_messages",
    )

    def __init__(
        self,
        address_id: int,
        name: str,
        routing_types: frozenset[int],
        settings: AddressSettings,
        memory: AddressMemory,
        *,
        auto_created: bool = False,
        temporary: bool = False,
        internal: bool = False,
    ) -> None:
        self.address_id = address_id
        self.name = name
        self.routing_types = routing_types
        self.settings = settings
        self.memory = memory
        self.auto_created = auto_created
        self.temporary = temporary
        self.internal = internal
        self.queues: list[Queue] = []
        self.paused = False
        self.routed_messages = 0
        self.unrouted_messages = 0
        self.bound_once = False
        self.unbound_since_ms = 0
        self.sweep_mark = False

    @property
    def limit_percent(self) -> int:
        """How full the address is, in percent of the tighter of its own limits; 0 without limits."""
        settings, memory = self.settings, self.memory
        of_bytes = 100 * memory.size // settings.max_size_bytes if settings.max_size_bytes > 0 else 0
        of_messages = 100 * memory.messages // settings.max_size_messages if settings.max_size_messages > 0 else 0
        return max(of_bytes, of_messages)

    def record(self) -> AddressRecord:
        """The form that the bindings keep."""
        return AddressRecord(self.address_id, self.name, self.routing_types, self.auto_created)
