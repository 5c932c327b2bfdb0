"""Messages: headers and properties.  The bodies are in ``bytes_message``, ``map_message``, ``stream_message`` and ``simple_messages``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, ClassVar

from mqclient.errors import MalformedPacketError
from mqclient.jms.destinations import MULTICAST, Destination, Queue, Topic, parse_destination
from mqclient.jms.exceptions import MessageFormatException, MessageNotWriteableException
from mqclient.jms.messages import values
from mqclient.wire import message as wire
from mqclient.wire import properties as types
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import TypedValue

CORRELATION_ID = "JMSCorrelationID"
REPLY_TO = "JMSReplyTo"
JMS_TYPE = "JMSType"
DELIVERY_COUNT = "JMSXDeliveryCount"

_SHOWN_AS = {
    wire.KEY_GROUP_ID: "JMSXGroupID",
    wire.KEY_GROUP_SEQUENCE: "JMSXGroupSeq",
    wire.KEY_VALIDATED_USER: "JMSXUserID",
}
_STORED_AS = {name: key for key, name in _SHOWN_AS.items()}


class DeliveryMode(enum.IntEnum):
    """Whether a message survives a stop of the broker."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


def _visible(key: str) -> bool:
    if key.startswith("JMS"):
        return key.startswith(("JMSX", "JMS_"))
    return not key.startswith(("__AMQ_CID", "_AMQ_ROUTE_TO")) and key != wire.KEY_ROUTING_TYPE


class Properties(MutableMapping[str, object]):
    """The application properties of a message, by name.

    A value that is set gets a Java type by the table in :mod:`mqclient.jms.messages.values`; a value that is read has the wrapper of its
    type.  Names of the protocol itself are not shown; the group and the user have their JMS names (``JMSXGroupID``, ``JMSXGroupSeq``,
    ``JMSXUserID``).
    """

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __getitem__(self, name: str) -> object:
        entry = self._message._property(name)
        if entry is None:
            raise KeyError(name)
        return values.untyped(entry)

    def __setitem__(self, name: str, value: object) -> None:
        self._message._set_property(name, values.typed(value))

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        del self._message._writable_properties()[_STORED_AS.get(name, name)]

    def __iter__(self) -> Iterator[str]:
        return iter([_SHOWN_AS.get(key, key) for key in self._message._core.properties if _visible(key)])

    def __len__(self) -> int:
        return sum(map(_visible, self._message._core.properties))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._message._property(name) is not None

    def __repr__(self) -> str:
        return repr(dict(self))


class Message:
    """A message without a body, and the base of all messages.

    Headers are attributes: ``message_id``, ``timestamp`` (ms since the epoch), ``destination``, ``delivery_mode``, ``priority``,
    ``expiration`` and ``delivery_time`` (ms since the epoch, 0 for none) are set by sending; ``correlation_id``, ``reply_to``, ``type``
    and the group by the application.  ``properties`` is a mapping.  A received message is read-only until ``clear_body()`` or
    ``clear_properties()``; headers can always be set.
    """

    core_type: ClassVar[int] = wire.TYPE_DEFAULT

    def __init__(self) -> None:
        self._core = CoreMessage(type=self.core_type, durable=True)
        self._pending: bytes | Callable[[], bytes] | None = None
        """The body that was received and not decoded yet, or a function that reads it; None otherwise."""
        self._content: Any = None
        """The decoded body, of the type that the class of the message says."""
        self._body_read_only = False
        self._properties_read_only = False
        self._destination: Destination | None = None
        self._delivery_count = 0
        self._delivery_time: int | None = None
        self._acknowledge: Callable[[], None] | None = None

    # --- headers -----------------------------------------------------------------------------------------------------

    @property
    def message_id(self) -> str | None:
        """``ID:`` and a UUID; None before sending, and when the producer was told to leave it out."""
        return None if self._core.user_id is None else "ID:" + wire.user_id_text(self._core.user_id)

    @property
    def timestamp(self) -> int:
        """The time of sending, in ms since the epoch; 0 when the producer was told to leave it out."""
        return self._core.timestamp

    @property
    def destination(self) -> Destination | None:
        """The destination that the message was sent to; None before sending."""
        return self._destination

    @property
    def delivery_mode(self) -> DeliveryMode:
        return DeliveryMode.PERSISTENT if self._core.durable else DeliveryMode.NON_PERSISTENT

    @property
    def priority(self) -> int:
        """0 (low) to 9; 4 is normal."""
        return self._core.priority

    @property
    def expiration(self) -> int:
        """The time of expiry, in ms since the epoch; 0: never."""
        return self._core.expiration

    @property
    def delivery_time(self) -> int:
        """The earliest time of delivery; 0 when it was not delayed."""
        if self._delivery_time is not None:
            return self._delivery_time
        scheduled = self._core.get(wire.KEY_SCHEDULED_DELIVERY)
        return scheduled if isinstance(scheduled, int) else 0

    @property
    def redelivered(self) -> bool:
        """Whether the message was delivered before."""
        return self._delivery_count > 1

    @property
    def delivery_count(self) -> int:
        """The number of deliveries, this one included; 0 for a message that was not received, or is only browsed."""
        return self._delivery_count

    @property
    def correlation_id(self) -> str | None:
        """The correlation id as a text; None without one, and when its sender set bytes."""
        return self._text_header(CORRELATION_ID)

    @correlation_id.setter
    def correlation_id(self, value: str | None) -> None:
        self._set_header(CORRELATION_ID, types.STRING, value)

    @property
    def correlation_id_bytes(self) -> bytes | None:
        """The correlation id as bytes; None without one, and when its sender set a text."""
        value = self._core.get(CORRELATION_ID)
        return value if isinstance(value, bytes) else None

    @correlation_id_bytes.setter
    def correlation_id_bytes(self, value: bytes | None) -> None:
        self._set_header(CORRELATION_ID, types.BYTES, value)

    @property
    def type(self) -> str | None:
        """JMSType: a name that sender and receiver agreed on."""
        return self._text_header(JMS_TYPE)

    @type.setter
    def type(self, value: str | None) -> None:
        self._set_header(JMS_TYPE, types.STRING, value)

    @property
    def reply_to(self) -> Destination | None:
        """The destination for an answer; None: no answer is expected."""
        text = self._text_header(REPLY_TO)
        return parse_destination(text) if text else None

    @reply_to.setter
    def reply_to(self, destination: Destination | None) -> None:
        self._set_header(REPLY_TO, types.STRING, None if destination is None else destination.text)

    @property
    def group_id(self) -> str | None:
        """All messages of a group go to one consumer, in order."""
        return self._text_header(wire.KEY_GROUP_ID)

    @group_id.setter
    def group_id(self, value: str | None) -> None:
        self._set_header(wire.KEY_GROUP_ID, types.STRING, value)

    @property
    def group_sequence(self) -> int | None:
        """The number in the group; -1 closes the group."""
        value = self._core.get(wire.KEY_GROUP_SEQUENCE)
        return value if isinstance(value, int) else None

    @group_sequence.setter
    def group_sequence(self, value: int | None) -> None:
        self._set_header(wire.KEY_GROUP_SEQUENCE, types.INT, value)

    def _text_header(self, key: str) -> str | None:
        value = self._core.get(key)
        return value if isinstance(value, str) else None

    def _set_header(self, key: str, kind: int, value: str | bytes | int | None) -> None:
        """Raises MessageFormatException for a value of another type than ``kind``: it would be read as a missing one."""
        if value is None:
            self._core.properties.pop(key, None)
        else:
            self._core.properties[key] = values.exactly(kind, value)

    # --- properties --------------------------------------------------------------------------------------------------

    @property
    def properties(self) -> Properties:
        """The application properties, as a mapping."""
        return Properties(self)

    def clear_properties(self) -> None:
        """Remove all application properties; they can be set again then, also in a received message."""
        self._properties_read_only = False
        for key in [key for key in self._core.properties if _visible(key)]:
            del self._core.properties[key]

    def _property(self, name: str) -> TypedValue | None:
        if name == DELIVERY_COUNT and self._delivery_count:
            return types.INT, self._delivery_count
        key = _STORED_AS.get(name, name)
        # clients before 2.19 store the sequence under its JMS name
        return self._core.properties.get(key, self._core.properties.get(name)) if _visible(key) else None

    def _set_property(self, name: str, entry: TypedValue) -> None:
        check_name(name, "a property")
        if not _visible(name) or name == DELIVERY_COUNT:
            raise MessageFormatException(f"{name} is kept for the protocol and cannot be set as a property")
        self._writable_properties()[_STORED_AS.get(name, name)] = entry

    def _writable_properties(self) -> dict[str, TypedValue]:
        if self._properties_read_only:
            raise MessageNotWriteableException("the properties of a received message are read-only until clear_properties()")
        return self._core.properties

    def set_boolean_property(self, name: str, value: bool) -> None:
        self._set_property(name, values.exactly(types.BOOLEAN, value))

    def set_byte_property(self, name: str, value: int) -> None:
        self._set_property(name, values.exactly(types.BYTE, value))

    def set_short_property(self, name: str, value: int) -> None:
        self._set_property(name, values.exactly(types.SHORT, value))

    def set_int_property(self, name: str, value: int) -> None:
        self._set_property(name, values.exactly(types.INT, value))

    def set_long_property(self, name: str, value: int) -> None:
        self._set_property(name, values.exactly(types.LONG, value))

    def set_float_property(self, name: str, value: float) -> None:
        self._set_property(name, values.exactly(types.FLOAT, value))

    def set_double_property(self, name: str, value: float) -> None:
        self._set_property(name, values.exactly(types.DOUBLE, value))

    def set_string_property(self, name: str, value: str | None) -> None:
        self._set_property(name, values.exactly(types.STRING, value))

    def set_object_property(self, name: str, value: object) -> None:
        """Set with the Java type of the Python value (:mod:`mqclient.jms.messages.values`)."""
        self._set_property(name, values.typed(value))

    def get_boolean_property(self, name: str) -> bool:
        return values.to_boolean(self._property(name))

    def get_byte_property(self, name: str) -> int:
        return values.to_integer(self._property(name), types.BYTE)

    def get_short_property(self, name: str) -> int:
        return values.to_integer(self._property(name), types.SHORT)

    def get_int_property(self, name: str) -> int:
        return values.to_integer(self._property(name), types.INT)

    def get_long_property(self, name: str) -> int:
        return values.to_integer(self._property(name), types.LONG)

    def get_float_property(self, name: str) -> float:
        return values.to_float(self._property(name), types.FLOAT)

    def get_double_property(self, name: str) -> float:
        return values.to_float(self._property(name), types.DOUBLE)

    def get_string_property(self, name: str) -> str | None:
        return values.to_text(self._property(name))

    def get_object_property(self, name: str) -> object:
        """The value with the wrapper of its Java type; None for null and for a missing property."""
        entry = self._property(name)
        return None if entry is None else values.untyped(entry)

    def property_exists(self, name: str) -> bool:
        return name in self.properties

    # --- body --------------------------------------------------------------------------------------------------------

    @property
    def body(self) -> object:
        """The body as a Python value: None, str, bytes, dict, list, or the object."""
        return None

    def clear_body(self) -> None:
        """Empty the body; it can be written then, also in a received message."""
        self._pending = self._content = None
        self._body_read_only = False

    def acknowledge(self) -> None:
        """Confirm the receipt.  Client acknowledgement: of all messages that the session has delivered; individual: of this message.

        Without effect in the other modes and on a message that was not received.
        """
        if self._acknowledge is not None:
            self._acknowledge()

    def _writable(self) -> None:
        if self._body_read_only:
            raise MessageNotWriteableException("the body of a received message is read-only until clear_body()")

    def _decoded(self) -> Any:
        """The content of the body.  A body that cannot be decoded stays as it came: it must not be taken for an empty one."""
        pending = self._pending
        if pending is not None:
            self._pending = pending() if callable(pending) else pending
            try:
                self._content = self._decode(self._pending)
            except MalformedPacketError as error:
                raise MessageFormatException(str(error)) from error
            self._pending = None
        return self._content

    @staticmethod
    def _decode(body: bytes) -> Any:
        return None

    def _encode_body(self) -> bytes:
        """The body as it travels.  A body that was received and not decoded travels on as it came."""
        if callable(self._pending):
            self._pending = self._pending()
        return self._encode() if self._pending is None else self._pending

    def _encode(self) -> bytes:
        return b""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.message_id or 'not sent'}{f' {self._destination}' if self._destination else ''}>"


def check_name(name: object, what: str) -> None:
    """Raises MessageFormatException when ``name`` is not a text with something in it."""
    if not isinstance(name, str):
        raise MessageFormatException(f"the name of {what} is a str, not {type(name).__name__}: {name!r}")
    if not name:
        raise MessageFormatException(f"{what} needs a name")


def received_destination(core: CoreMessage, expected: Destination | None) -> Destination | None:
    """The destination of a received message: its routing type decides, else the consumer's own kind, else a prefix of the name."""
    if core.address is None:
        return None
    routing = core.get(wire.KEY_ROUTING_TYPE)
    if expected is not None and expected.address == core.address and routing in (None, expected.routing_type):
        return expected
    if isinstance(routing, int):
        return Topic(core.address) if routing == MULTICAST else Queue(core.address)
    return parse_destination(core.address, type(expected) if expected is not None and not expected.temporary else Destination)
