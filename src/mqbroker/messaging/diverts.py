"""Diverts: messages of an address go to other addresses, too or instead (Artemis manual, "Diverting and Splitting Message Flows")."""

from __future__ import annotations

from mqbroker.config.cluster import DivertConfiguration
from mqbroker.messaging.copies import Copy
from mqbroker.messaging.filter import parse_filter
from mqbroker.messaging.message import Message
from mqclient.wire import message as keys
from mqclient.wire.properties import BYTE, LONG, STRING

_ROUTING_TYPES = {"MULTICAST": 0, "ANYCAST": 1}


class Divert:
    """A divert in force.  ``managed``: it was made by management, and not by broker.xml."""

    __slots__ = ("address", "binding_id", "configuration", "exclusive", "filter", "forwarding_addresses", "name", "routing_name")

    def __init__(self, configuration: DivertConfiguration, binding_id: int) -> None:
        """Raises InvalidFilterExpressionError."""
        self.binding_id = binding_id
        self.configuration = configuration
        self.name = configuration.name
        self.address = configuration.address
        self.forwarding_addresses = configuration.forwarding_addresses
        self.exclusive = configuration.exclusive
        self.routing_name = configuration.routing_name or configuration.name
        self.filter = parse_filter(configuration.filter_string)

    def matches(self, message: Message) -> bool:
        return self.filter is None or self.filter.matches(message)

    def copy(self, message: Message, message_id: int, address: str) -> Message:
        """``message`` as it goes to ``address``.  Raises MalformedPacketError."""
        content = message.decoded()
        content.message_id = message_id
        properties = content.properties
        properties[keys.KEY_ORIGINAL_ADDRESS] = (STRING, content.address or "")
        properties[keys.KEY_ORIGINAL_QUEUE] = (STRING, self.name)
        properties[keys.KEY_ORIGINAL_MESSAGE_ID] = (LONG, message.message_id)
        kind = self.configuration.routing_type
        if kind != "PASS":
            had = properties.pop(keys.KEY_ROUTING_TYPE, None)
            if had is not None:
                properties[keys.KEY_ORIGINAL_ROUTING_TYPE] = (BYTE, had[1])
            if kind in _ROUTING_TYPES:
                properties[keys.KEY_ROUTING_TYPE] = (BYTE, _ROUTING_TYPES[kind])
        content.address = address
        return Copy(content, message.large).message()
