"""The packets of consumers and producers and those that carry messages, described."""

from __future__ import annotations

import construct as cs

from mqclient.wire.packets.grammar_messages import OLD_MESSAGE
from mqclient.wire.packets.grammar_packets import (
    CLIENT_TO_SERVER,
    SERVER_TO_CLIENT,
    Description,
    UpToTrailer,
    When,
    group,
    since,
    version_of,
)
from mqclient.wire.packets.grammar_types import BOOL, BYTES, I32, I64, NSSTR, REST, SSTR, Context, Wire

_USER = "session"
_CONSUMER_ID = "consumer_id" / I64 * "chosen by the client, unique in the session"
_MESSAGE_ID = "message_id" / I64
_REQUIRES_RESPONSE = "requires_response" / BOOL

_MESSAGE = Wire(
    "Msg",
    cs.IfThenElse(lambda context: version_of(context) >= 129, cs.GreedyBytes, OLD_MESSAGE),
    "the message, up to the fixed number of bytes at the end of the frame; below version 129 in the old layout",
)


def _send_trailer(context: Context) -> int:
    version = version_of(context)
    return 1 + (8 if version >= 130 else 0) + (4 if version >= 134 else 0)


CONSUMERS = (
    Description(
        40,
        "SESS_CREATECONSUMER",
        CLIENT_TO_SERVER,
        _USER,
        "Create a consumer. It has no credits until SESS_FLOWTOKEN grants some.",
        cs.Struct(
            _CONSUMER_ID,
            "queue_name" / SSTR,
            "filter_string" / NSSTR,
            "browse_only" / BOOL,
            _REQUIRES_RESPONSE,
            *group(1, "priority" / I32 * "greater first", minimum=4, version=130, absent=0),
        ),
        answer="the SESS_QUEUEQUERY_RESP of the version",
    ),
    Description(
        70,
        "SESS_FLOWTOKEN",
        CLIENT_TO_SERVER,
        _USER,
        "Consumer credits.",
        cs.Struct(_CONSUMER_ID, "credits" / I32 * "bytes of frames; -1 = no limit from now on, 0 = none left, else added"),
    ),
    Description(
        78,
        "SESS_FORCE_CONSUMER_DELIVERY",
        CLIENT_TO_SERVER,
        _USER,
        "Deliver what can be delivered, then the marker with this number.",
        cs.Struct(_CONSUMER_ID, "sequence" / I64),
        answer="SESS_RECEIVE_MSG with the marker",
    ),
    Description(
        74,
        "SESS_CONSUMER_CLOSE",
        CLIENT_TO_SERVER,
        _USER,
        "Close a consumer. What it has not acknowledged returns to the queue.",
        cs.Struct(_CONSUMER_ID),
        answer="NULL_RESPONSE",
    ),
    Description(
        12,
        "DISCONNECT_CONSUMER",
        SERVER_TO_CLIENT,
        _USER,
        "The queue of the consumer is gone.",
        cs.Struct(_CONSUMER_ID),
        since=124,
    ),
    Description(
        41,
        "SESS_ACKNOWLEDGE",
        CLIENT_TO_SERVER,
        _USER,
        "All messages delivered to the consumer, up to and including this one, are done with.",
        cs.Struct(_CONSUMER_ID, _MESSAGE_ID, _REQUIRES_RESPONSE),
        answer="NULL_RESPONSE if wanted",
    ),
    Description(
        81,
        "SESS_INDIVIDUAL_ACKNOWLEDGE",
        CLIENT_TO_SERVER,
        _USER,
        "This message is done with.",
        cs.Struct(_CONSUMER_ID, _MESSAGE_ID, _REQUIRES_RESPONSE),
        answer="NULL_RESPONSE if wanted",
    ),
    Description(
        42,
        "SESS_EXPIRED",
        CLIENT_TO_SERVER,
        _USER,
        "The client found that the message had expired.",
        cs.Struct(_CONSUMER_ID, _MESSAGE_ID),
    ),
)

PRODUCERS = (
    Description(
        -20,
        "CREATE_PRODUCER",
        CLIENT_TO_SERVER,
        _USER,
        "Tell of a producer, for the statistics of the server.",
        cs.Struct("producer_id" / I32 * "chosen by the client, unique in the session", "address" / NSSTR * "null: anonymous producer"),
        since=134,
    ),
    Description(
        -21,
        "REMOVE_PRODUCER",
        CLIENT_TO_SERVER,
        _USER,
        "The producer is gone.",
        cs.Struct("producer_id" / I32),
        since=134,
    ),
    Description(
        79,
        "SESS_PRODUCER_REQUEST_CREDITS",
        CLIENT_TO_SERVER,
        _USER,
        "Ask for producer credits.",
        cs.Struct("credits" / I32 * "bytes of encoded messages", "address" / SSTR),
        answer="SESS_PRODUCER_CREDITS or SESS_PRODUCER_FAIL_CREDITS",
    ),
    Description(
        80,
        "SESS_PRODUCER_CREDITS",
        SERVER_TO_CLIENT,
        _USER,
        "Producer credits for an address.",
        cs.Struct("credits" / I32 * "bytes of encoded messages", "address" / SSTR * "as in the request"),
    ),
    Description(
        82,
        "SESS_PRODUCER_FAIL_CREDITS",
        SERVER_TO_CLIENT,
        _USER,
        "The address is full and its policy is FAIL: the next send fails.",
        cs.Struct("credits" / I32 * "bytes of encoded messages", "address" / SSTR * "as in the request"),
    ),
    Description(
        71,
        "SESS_SEND",
        CLIENT_TO_SERVER,
        _USER,
        "A message.",
        cs.Struct(
            "message" / UpToTrailer(_send_trailer, 4, _MESSAGE),
            _REQUIRES_RESPONSE,
            "correlation_id" / since(130, I64, 0) * "0 when no answer is wanted",
            "sender_id" / since(134, I32, -1) * "the producer; -1 = none",
        ),
        answer="NULL_RESPONSE if wanted",
    ),
    Description(
        72,
        "SESS_SEND_LARGE",
        CLIENT_TO_SERVER,
        _USER,
        "Begin a large message.",
        cs.Struct("headers" / Wire("Hdrs", REST)),
    ),
    Description(
        73,
        "SESS_SEND_CONTINUATION",
        CLIENT_TO_SERVER,
        _USER,
        "A chunk of the body of the large message.",
        cs.Struct(
            "chunk" / BYTES,
            "continues" / BOOL * "false on the last chunk",
            "message_body_size"
            / When("continues = false", lambda context: not context.continues, I64, -1)
            * "bytes, uncompressed; -1 = not known",
            _REQUIRES_RESPONSE,
            *group(1, "correlation_id" / I64, minimum=8, version=130, absent=-1),
            *group(2, "sender_id" / I32 * "the producer; -1 = none", minimum=4, version=134, absent=-1),
        ),
        answer="NULL_RESPONSE if wanted",
    ),
)

DELIVERY = (
    Description(
        75,
        "SESS_RECEIVE_MSG",
        SERVER_TO_CLIENT,
        _USER,
        "A message for a consumer.",
        cs.Struct(
            "message" / UpToTrailer(lambda context: 12, 4, _MESSAGE),
            _CONSUMER_ID,
            "delivery_count" / I32 * "1 on the first delivery",
        ),
    ),
    Description(
        76,
        "SESS_RECEIVE_LARGE_MSG",
        SERVER_TO_CLIENT,
        _USER,
        "Begin a large message for a consumer.",
        cs.Struct(
            _CONSUMER_ID,
            "delivery_count" / I32 * "1 on the first delivery",
            "large_message_size" / I64 * "bytes that follow in chunks",
            "headers" / Wire("Hdrs", REST),
        ),
    ),
    Description(
        77,
        "SESS_RECEIVE_CONTINUATION",
        SERVER_TO_CLIENT,
        _USER,
        "A chunk of the body of the large message.",
        cs.Struct("chunk" / BYTES, "continues" / BOOL * "false on the last chunk", _CONSUMER_ID),
    ),
)
