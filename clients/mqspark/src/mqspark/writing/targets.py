"""Targets of messages: the address that an option or a column names, whether it exists, and its cache of duplicate ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mqclient.core.api import ROUTING_ANYCAST, ROUTING_MULTICAST, AddressQueryResult
from mqclient.errors import AddressExistsError, MQError
from mqspark.broker.broker import Broker
from mqspark.errors import DuplicateCacheError, MissingQueueError
from mqspark.options import Options

ID_CACHE_MIN: Final = 1000
"""Duplicate ids that an address has to remember for ``exactlyOnce=duplicateIds``: no batch of any use fits below."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of all messages.  ``address`` may be ``address::queue``; ``routing_type`` None: as the address has it."""

    address: str
    routing_type: int | None


def resolve(options: Options, broker: Broker) -> Target | None:
    """The target that the options name, made where it is missing and the broker allows that; None: rows name their addresses.

    Raises MissingQueueError.
    """
    if options.queues:
        return _queue(options.queues[0], broker)
    if options.topic is not None:
        return _topic(options.topic, broker)
    if options.address is None:
        return None
    name, _, queue = options.address.partition("::")
    if not broker.address_query(name).exists:
        raise MissingQueueError(f"the address {name} does not exist at {broker.place}")
    if queue and broker.queue_query(queue).address != name:
        raise MissingQueueError(f"the address {name} has no queue {queue} at {broker.place}")
    return Target(options.address, None)


def _queue(name: str, broker: Broker) -> Target:
    queue = broker.queue_query(name)
    if queue.exists:
        if queue.address == name:
            return Target(name, queue.routing_type)
        return Target(f"{queue.address}::{name}", queue.routing_type)
    address = broker.address_query(name)
    if address.exists and address.supports_multicast and not address.supports_anycast:
        raise MissingQueueError(f"there is no queue {name} at {broker.place}: it is the address of a topic (option topic)")
    _make_queue(name, address, broker)
    return Target(name, ROUTING_ANYCAST)


def _make_queue(name: str, address: AddressQueryResult, broker: Broker) -> None:
    if not address.auto_create_queues or not (address.exists or address.auto_create_addresses):
        raise MissingQueueError(f"the queue {name} does not exist at {broker.place}, and is not created on demand there")
    broker.create_queue(name)


def _topic(name: str, broker: Broker) -> Target:
    address = broker.address_query(name)
    if address.exists:
        if not address.supports_multicast:
            raise MissingQueueError(f"the address {name} at {broker.place} is that of a queue (option queue), not of a topic")
        return Target(name, ROUTING_MULTICAST)
    if not address.auto_create_addresses:
        raise MissingQueueError(f"the topic {name} does not exist at {broker.place}, and is not created on demand there")
    session = broker.session()
    try:
        broker.runtime.run(session.create_address(name, [ROUTING_MULTICAST], True))
    except AddressExistsError:
        pass
    except MQError as error:
        broker.failed(error, f"creating topic {name}")
    return Target(name, ROUTING_MULTICAST)


def id_cache_size(address: str, broker: Broker) -> int:
    """The number of duplicate ids that the broker keeps for an address.  Raises DuplicateCacheError when they protect nothing."""
    hint = "; choose a greater one, or exactlyOnce=transactions"
    found = broker.id_cache(address.partition("::")[0])
    if not found.persisted:
        raise DuplicateCacheError(
            f"the broker at {broker.place} forgets duplicate ids when it stops (persist-id-cache is false): messages could be doubled; "
            "set it to true, or choose exactlyOnce=transactions"
        )
    if found.size < ID_CACHE_MIN:
        raise DuplicateCacheError(
            f"the broker at {broker.place} keeps {found.size} duplicate ids for the address {address} (id-cache-size), "
            f"at least {ID_CACHE_MIN} are needed, and as many as a batch has rows{hint}"
        )
    return found.size


@dataclass(slots=True)
class Budget:
    """Counts the rows of one task by address, checks that the addresses exist, and limits the rows to the duplicate ids kept.

    The ids of a batch must all be remembered until the batch is committed, or a repetition doubles the rows whose ids were forgotten.
    ``limited``: duplicate ids are in use.
    """

    broker: Broker
    limited: bool
    sent: dict[str, int] = field(default_factory=dict)
    """Rows by address."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Ids that the broker keeps, by address."""

    def spend(self, rows: Mapping[str, int], checked: bool = False) -> None:
        """So many rows are to be sent to each address.  ``checked``: it is known to exist.

        Raises MissingQueueError, and DuplicateCacheError before more ids are used than the broker keeps.
        """
        for address, count in rows.items():
            if address not in self.sent:
                self._open(address, checked)
            total = self.sent[address] + count
            if self.limited and total > self.sizes[address]:
                raise DuplicateCacheError(
                    f"this task has more than {self.sizes[address]} rows for the address {address}, which is as many duplicate ids as the "
                    f"broker at {self.broker.place} keeps for it (id-cache-size): a repetition would double messages; "
                    "make batches smaller, choose a greater cache, or exactlyOnce=transactions"
                )
            self.sent[address] = total

    def _open(self, address: str, checked: bool) -> None:
        name, _, queue = address.partition("::")
        if not checked:
            found = self.broker.address_query(name)
            if queue and self.broker.queue_query(queue).address != name:
                raise MissingQueueError(f"the address {name} has no queue {queue} at {self.broker.place}")
            if not found.exists:
                _make_queue(name, found, self.broker)
        if self.limited:
            self.sizes[address] = id_cache_size(address, self.broker)
        self.sent[address] = 0
