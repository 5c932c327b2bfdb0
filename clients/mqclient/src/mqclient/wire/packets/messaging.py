"""Packets of consumers and producers, and the messages themselves.

Source: ``protocol-spec/``, chapter "Sending and delivery".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mqclient.wire.packets.base import (
    I32,
    I64,
    NSSTR,
    REST,
    SSTR,
    FieldTable,
    Packet,
    register,
)

# --- consumers --------------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateConsumer(Packet):
    TYPE: ClassVar[int] = 40
    NAME: ClassVar[str] = "SESS_CREATECONSUMER"
    consumer_id: int
    queue_name: str
    filter_string: str | None = None
    browse_only: bool = False
    requires_response: bool = True
    priority: int = 0


@register
@dataclass(slots=True, eq=False, repr=False)
class FlowToken(Packet):
    """Consumer credits in bytes of frames: -1 unlimited, 0 sets the balance to 0, n adds n."""

    TYPE: ClassVar[int] = 70
    NAME: ClassVar[str] = "SESS_FLOWTOKEN"
    consumer_id: int
    credits: int


@register
@dataclass(slots=True, eq=False, repr=False)
class ForceConsumerDelivery(Packet):
    TYPE: ClassVar[int] = 78
    NAME: ClassVar[str] = "SESS_FORCE_CONSUMER_DELIVERY"
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64), ("sequence", I64))
    consumer_id: int
    sequence: int


@register
@dataclass(slots=True, eq=False, repr=False)
class ConsumerClose(Packet):
    TYPE: ClassVar[int] = 74
    NAME: ClassVar[str] = "SESS_CONSUMER_CLOSE"
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64),)
    consumer_id: int


@register
@dataclass(slots=True, eq=False, repr=False)
class Acknowledge(Packet):
    """Everything delivered to the consumer up to and including ``message_id`` is done with."""

    TYPE: ClassVar[int] = 41
    NAME: ClassVar[str] = "SESS_ACKNOWLEDGE"
    consumer_id: int
    message_id: int
    requires_response: bool = False


@register
@dataclass(slots=True, eq=False, repr=False)
class IndividualAcknowledge(Packet):
    TYPE: ClassVar[int] = 81
    NAME: ClassVar[str] = "SESS_INDIVIDUAL_ACKNOWLEDGE"
    consumer_id: int
    message_id: int
    requires_response: bool = False


@register
@dataclass(slots=True, eq=False, repr=False)
class Expired(Packet):
    TYPE: ClassVar[int] = 42
    NAME: ClassVar[str] = "SESS_EXPIRED"
    FIELDS: ClassVar[FieldTable] = (("consumer_id", I64), ("message_id", I64))
    consumer_id: int
    message_id: int


# --- producers --------------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class CreateProducer(Packet):
    TYPE: ClassVar[int] = -20
    NAME: ClassVar[str] = "CREATE_PRODUCER"
    SINCE: ClassVar[int] = 134
    FIELDS: ClassVar[FieldTable] = (("producer_id", I32), ("address", NSSTR))
    producer_id: int
    address: str | None = None


@register
@dataclass(slots=True, eq=False, repr=False)
class RemoveProducer(Packet):
    TYPE: ClassVar[int] = -21
    NAME: ClassVar[str] = "REMOVE_PRODUCER"
    SINCE: ClassVar[int] = 134
    FIELDS: ClassVar[FieldTable] = (("producer_id", I32),)
    producer_id: int


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionSend(Packet):
    """A regular message.  ``message`` is its buffer in the layout of version 129 and later, whatever the version on the wire.

    ``correlation_id`` is 0 when no answer is wanted (or by clients that match answers by order); it travels from 130 on,
    ``sender_id`` from 134 on.
    """

    TYPE: ClassVar[int] = 71
    NAME: ClassVar[str] = "SESS_SEND"
    message: bytes
    requires_response: bool = False
    correlation_id: int = 0
    sender_id: int = -1


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionSendLarge(Packet):
    """Opens a large message; ``headers`` is the headers-and-properties block."""

    TYPE: ClassVar[int] = 72
    NAME: ClassVar[str] = "SESS_SEND_LARGE"
    FIELDS: ClassVar[FieldTable] = (("headers", REST),)
    headers: bytes


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionSendContinuation(Packet):
    """A chunk of a large message; ``message_body_size`` travels only with the last one (``continues`` false)."""

    TYPE: ClassVar[int] = 73
    NAME: ClassVar[str] = "SESS_SEND_CONTINUATION"
    chunk: bytes
    continues: bool
    message_body_size: int = -1
    requires_response: bool = False
    correlation_id: int = -1
    sender_id: int = -1


@register
@dataclass(slots=True, eq=False, repr=False)
class ProducerRequestCredits(Packet):
    TYPE: ClassVar[int] = 79
    NAME: ClassVar[str] = "SESS_PRODUCER_REQUEST_CREDITS"
    credits: int
    address: str


@register
@dataclass(slots=True, eq=False, repr=False)
class ProducerCredits(Packet):
    TYPE: ClassVar[int] = 80
    NAME: ClassVar[str] = "SESS_PRODUCER_CREDITS"
    credits: int
    address: str


@register
@dataclass(slots=True, eq=False, repr=False)
class ProducerFailCredits(Packet):
    TYPE: ClassVar[int] = 82
    NAME: ClassVar[str] = "SESS_PRODUCER_FAIL_CREDITS"
    FIELDS: ClassVar[FieldTable] = (("credits", I32), ("address", SSTR))
    credits: int
    address: str


# --- delivery ---------------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionReceive(Packet):
    """A message for a consumer; ``message`` as in :class:`SessionSend`."""

    TYPE: ClassVar[int] = 75
    NAME: ClassVar[str] = "SESS_RECEIVE_MSG"
    message: bytes
    consumer_id: int
    delivery_count: int


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionReceiveLarge(Packet):
    TYPE: ClassVar[int] = 76
    NAME: ClassVar[str] = "SESS_RECEIVE_LARGE_MSG"
    FIELDS: ClassVar[FieldTable] = (
        ("consumer_id", I64),
        ("delivery_count", I32),
        ("large_message_size", I64),
        ("headers", REST),
    )
    consumer_id: int
    delivery_count: int
    large_message_size: int
    headers: bytes


@register
@dataclass(slots=True, eq=False, repr=False)
class SessionReceiveContinuation(Packet):
    TYPE: ClassVar[int] = 77
    NAME: ClassVar[str] = "SESS_RECEIVE_CONTINUATION"
    chunk: bytes
    continues: bool
    consumer_id: int
