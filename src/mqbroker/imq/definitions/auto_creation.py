"""Whether destinations may be created because somebody uses them: ``imq.autocreate.queue`` and ``imq.autocreate.topic``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mqbroker.messaging.administration.registrar import AddressDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition
from mqclient.errors import AddressDoesNotExistError

_PROPERTIES = {ANYCAST: "imq.autocreate.queue", MULTICAST: "imq.autocreate.topic"}


@dataclass(frozen=True, slots=True)
class AutoCreation:
    """The kinds of destinations that may be created automatically."""

    queues: bool = True
    topics: bool = True

    def check(self, change: Change) -> None:
        """Raises AddressDoesNotExistError for one that has to be created by an administrator."""
        definition = change.definition
        if (self.queues and self.topics) or change.action == "delete":
            return
        types: Collection[int] = ()
        if isinstance(definition, AddressDefinition) and definition.auto_created:
            types = definition.routing_types
        elif isinstance(definition, QueueDefinition) and definition.auto_created and not definition.temporary:
            types = (definition.routing_type,)
        for kind, allowed in ((ANYCAST, self.queues), (MULTICAST, self.topics)):
            if kind in types and not allowed:
                raise AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {definition.name}: {_PROPERTIES[kind]} is false")
