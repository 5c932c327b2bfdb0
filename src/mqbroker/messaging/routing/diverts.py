"""Diverts: messages of an address go to other addresses, too or instead (Artemis manual, "Diverting and Splitting Message Flows").

Routing chooses diverts as it chooses queues (:mod:`mqbroker.messaging.routing.routing`), and
:mod:`mqbroker.messaging.delivery.distribution` routes the copies.
"""

from __future__ import annotations

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.copies import Copy
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.transformers import load_transformer
from mqclient.wire import message as keys
from mqclient.wire.properties import BYTE, LONG, STRING

_ROUTING_TYPES = {"MULTICAST": 0, "ANYCAST": 1}

ROUTING_TYPE_CHOICES = ("STRIP", "PASS", *_ROUTING_TYPES)
"""The choices for the routing type of a divert."""


class DivertError(ValueError):
    """A configured divert cannot be; the text names it and says why."""


class Divert:
    """A divert in force."""

    __slots__ = (
        "_transform",
        "address",
        "binding_id",
        "configuration",
        "exclusive",
        "filter",
        "forwarding_addresses",
        "name",
        "routing_name",
    )

    def __init__(self, configuration: DivertConfiguration, binding_id: int) -> None:
        """Raises DivertError, TransformerError, InvalidFilterExpressionError."""
        self.binding_id = binding_id
        self.name = configuration.name
        self.address = configuration.address
        self.exclusive = configuration.exclusive
        self.routing_name = configuration.routing_name or configuration.name
        self.change(configuration)

    def change(self, configuration: DivertConfiguration) -> None:
        """Take over filter, forwarding addresses, routing type and transformer.  Raises as the constructor."""
        if configuration.routing_type not in ROUTING_TYPE_CHOICES:
            choices = ", ".join(ROUTING_TYPE_CHOICES)
            raise DivertError(f"divert {configuration.name}: the routing type {configuration.routing_type} is none of {choices}")
        if not configuration.forwarding_addresses:
            raise DivertError(f"divert {configuration.name}: a forwarding address is missing")
        filter = parse_filter(configuration.filter_string)
        transformer = configuration.transformer
        self._transform = None if transformer is None else load_transformer(transformer, f"divert {configuration.name}")
        self.filter = filter
        self.configuration = configuration
        self.forwarding_addresses = configuration.forwarding_addresses

    def matches(self, message: Message) -> bool:
        return self.filter is None or self.filter.matches(message)

    def copy(self, message: Message, message_id: int, address: str, *, transformed: bool = True) -> Message:
        """The copy of ``message`` for ``address``.  Raises MalformedPacketError, and the errors of the transformer."""
        content = message.decoded()
        content.message_id = message_id
        properties = content.properties
        properties[keys.KEY_ORIGINAL_ADDRESS] = (STRING, content.address or "")
        properties[keys.KEY_ORIGINAL_QUEUE] = (STRING, self.name)
        properties[keys.KEY_ORIGINAL_MESSAGE_ID] = (LONG, message.message_id)
        kind = self.configuration.routing_type
        if kind != "PASS":
            properties.pop(keys.KEY_ROUTING_TYPE, None)
            routing_type = message.routing_type
            if routing_type is not None:
                properties[keys.KEY_ORIGINAL_ROUTING_TYPE] = (BYTE, int(routing_type))
            if kind in _ROUTING_TYPES:
                properties[keys.KEY_ROUTING_TYPE] = (BYTE, _ROUTING_TYPES[kind])
        content.address = address
        if self._transform is not None and transformed:
            content = self._transform(content)
            content.message_id = message_id
        return Copy(content, message.large).message()
