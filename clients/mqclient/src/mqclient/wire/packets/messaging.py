"""Packets of consumers and producers, and the messages themselves.

Source: ``protocol-spec/``, chapter "Sending and delivery".
"""

from mqclient.wire.packets.base import (
    I32,
    I64,
    NSSTR,
    REST,
    SSTR,
    Packet,
    packet,
)

# --- consumers --------------------------------------------------------------------------------------------------------


@packet(40, "SESS_CREATECONSUMER")
class CreateConsumer(Packet):
    consumer_id: int
    queue_name: str
    filter_string: str | None = None
    browse_only: bool = False
    requires_response: bool = True
    priority: int = 0


@packet(70, "SESS_FLOWTOKEN")
class FlowToken(Packet):
    """Consumer credits in bytes of frames: -1 unlimited, 0 sets the balance to 0, n adds n."""

    consumer_id: int
    credits: int


@packet(78, "SESS_FORCE_CONSUMER_DELIVERY")
class ForceConsumerDelivery(Packet):
    consumer_id: I64
    sequence: I64


@packet(74, "SESS_CONSUMER_CLOSE")
class ConsumerClose(Packet):
    consumer_id: I64


@packet(41, "SESS_ACKNOWLEDGE")
class Acknowledge(Packet):
    """All messages delivered to the consumer up to and including ``message_id`` are done with."""

    consumer_id: int
    message_id: int
    requires_response: bool = False


@packet(81, "SESS_INDIVIDUAL_ACKNOWLEDGE")
class IndividualAcknowledge(Packet):
    consumer_id: int
    message_id: int
    requires_response: bool = False


@packet(42, "SESS_EXPIRED")
class Expired(Packet):
    consumer_id: I64
    message_id: I64


# --- producers --------------------------------------------------------------------------------------------------------


@packet(-20, "CREATE_PRODUCER", since=134)
class CreateProducer(Packet):
    producer_id: I32
    address: NSSTR = None


@packet(-21, "REMOVE_PRODUCER", since=134)
class RemoveProducer(Packet):
    producer_id: I32


@packet(71, "SESS_SEND")
class SessionSend(Packet):
    """A regular message.  ``message`` is its buffer in the layout of version 129 and later, for every version on the wire.

    ``correlation_id`` is 0 when no answer is wanted (or by clients that match answers by order); it travels from 130 on,
    ``sender_id`` from 134 on.
    """

    message: bytes
    requires_response: bool = False
    correlation_id: int = 0
    sender_id: int = -1


@packet(72, "SESS_SEND_LARGE")
class SessionSendLarge(Packet):
    """Opens a large message; ``headers`` is the headers-and-properties block."""

    headers: REST


@packet(73, "SESS_SEND_CONTINUATION")
class SessionSendContinuation(Packet):
    """A chunk of a large message; ``message_body_size`` travels only with the last one (``continues`` false)."""

    chunk: bytes
    continues: bool
    message_body_size: int = -1
    requires_response: bool = False
    correlation_id: int = -1
    sender_id: int = -1


@packet(79, "SESS_PRODUCER_REQUEST_CREDITS")
class ProducerRequestCredits(Packet):
    credits: int
    address: str


@packet(80, "SESS_PRODUCER_CREDITS")
class ProducerCredits(Packet):
    credits: int
    address: str


@packet(82, "SESS_PRODUCER_FAIL_CREDITS")
class ProducerFailCredits(Packet):
    credits: I32
    address: SSTR


# --- delivery ---------------------------------------------------------------------------------------------------------


@packet(75, "SESS_RECEIVE_MSG")
class SessionReceive(Packet):
    """A message for a consumer; ``message`` as in :class:`SessionSend`."""

    message: bytes
    consumer_id: int
    delivery_count: int


@packet(76, "SESS_RECEIVE_LARGE_MSG")
class SessionReceiveLarge(Packet):
    consumer_id: I64
    delivery_count: I32
    large_message_size: I64
    headers: REST


@packet(77, "SESS_RECEIVE_CONTINUATION")
class SessionReceiveContinuation(Packet):
    chunk: bytes
    continues: bool
    consumer_id: int
