"""The packets about addresses and queues, described."""

from __future__ import annotations

import construct as cs

from mqclient.wire.packets.grammar_packets import CLIENT_TO_SERVER, SERVER_TO_CLIENT, Description, group
from mqclient.wire.packets.grammar_types import BOOL, I8, I8_ARRAY, I32, I64, NBOOL, NINT, NLONG, NSSTR, SSTR, SSTR_ARRAY

_USER = "session"
_ROUTING_TYPE = "routing_type" / I8 * "0 multicast, 1 anycast; another value: not said"
_REQUIRES_RESPONSE = "requires_response" / BOOL


def _queue_attributes(first: int) -> list[object]:
    """The attributes that came with later releases, in groups from number ``first`` on."""
    return [
        *group(
            first,
            "last_value_key" / NSSTR,
            "non_destructive" / NBOOL,
            "consumers_before_dispatch" / NINT,
            "delay_before_dispatch" / NLONG * "ms",
            "group_rebalance" / NBOOL,
            "group_buckets" / NINT,
            "auto_delete" / NBOOL,
            "auto_delete_delay" / NLONG * "ms",
            "auto_delete_message_count" / NLONG,
        ),
        *group(first + 1, "group_first_key" / NSSTR),
        *group(first + 2, "ring_size" / NLONG),
        *group(first + 3, "enabled" / NBOOL),
        *group(first + 4, "group_rebalance_pause_dispatch" / NBOOL),
    ]


_CREATE_QUEUE = (
    "address" / SSTR,
    "queue_name" / SSTR,
    "filter_string" / NSSTR,
    "durable" / BOOL,
    "temporary" / BOOL,
    _REQUIRES_RESPONSE,
)
_QUEUE_QUERY_1 = (
    "exists" / BOOL,
    "durable" / BOOL,
    "temporary" / BOOL,
    "consumer_count" / I32,
    "message_count" / I64,
    "filter_string" / NSSTR,
    "address" / NSSTR,
    "name" / NSSTR,
)
_AUTO_CREATE_QUEUES = "auto_create_queues" / BOOL
_AUTO_CREATE_ADDRESSES = "auto_create_addresses" / BOOL
_BINDING_QUERY_1 = ("exists" / BOOL, "queue_names" / SSTR_ARRAY * "all queues bound to the address, local and remote")
_BINDING_QUERY_4 = (
    *_BINDING_QUERY_1,
    _AUTO_CREATE_QUEUES,
    _AUTO_CREATE_ADDRESSES,
    "default_purge_on_no_consumers" / BOOL,
    "default_max_consumers" / I32 * "-1 = no limit",
    *group(1, "default_exclusive" / NBOOL, "default_last_value" / NBOOL),
    *group(
        2,
        "default_last_value_key" / NSSTR,
        "default_non_destructive" / NBOOL,
        "default_consumers_before_dispatch" / NINT,
        "default_delay_before_dispatch" / NLONG * "ms",
    ),
)

QUEUES = (
    Description(
        -11,
        "CREATE_ADDRESS",
        CLIENT_TO_SERVER,
        _USER,
        "Create an address, or set the routing types of the one that is there.",
        cs.Struct(
            "address" / SSTR,
            "routing_types" / I8_ARRAY * "0 multicast, 1 anycast",
            _REQUIRES_RESPONSE,
            "auto_created" / BOOL,
        ),
        answer="NULL_RESPONSE",
        since=129,
    ),
    Description(
        34,
        "CREATE_QUEUE",
        CLIENT_TO_SERVER,
        _USER,
        "Create a queue. Old form, in which the prefix of the address says the routing type.",
        cs.Struct(*_CREATE_QUEUE),
        answer="NULL_RESPONSE",
    ),
    Description(
        -12,
        "CREATE_QUEUE_V2",
        CLIENT_TO_SERVER,
        _USER,
        "Create a queue. A null attribute takes the default of the matching address settings.",
        cs.Struct(
            *_CREATE_QUEUE,
            "auto_created" / BOOL,
            _ROUTING_TYPE,
            "max_consumers" / I32 * "-1 = no limit",
            "purge_on_no_consumers" / BOOL,
            *group(1, "exclusive" / NBOOL, "last_value" / NBOOL),
            *_queue_attributes(2),
        ),
        answer="NULL_RESPONSE",
        since=129,
    ),
    Description(
        36,
        "CREATE_SHARED_QUEUE",
        CLIENT_TO_SERVER,
        _USER,
        "Create the queue of a shared subscription unless it is there. Old form.",
        cs.Struct("address" / SSTR, "queue_name" / SSTR, "filter_string" / NSSTR, "durable" / BOOL, _REQUIRES_RESPONSE),
        answer="NULL_RESPONSE",
    ),
    Description(
        -13,
        "CREATE_SHARED_QUEUE_V2",
        CLIENT_TO_SERVER,
        _USER,
        "Create the queue of a shared subscription unless it is there. Note the order of the routing type.",
        cs.Struct(
            "address" / SSTR,
            "queue_name" / SSTR,
            "filter_string" / NSSTR,
            "durable" / BOOL,
            _ROUTING_TYPE,
            _REQUIRES_RESPONSE,
            *group(
                1,
                "max_consumers" / NINT,
                "purge_on_no_consumers" / NBOOL,
                "exclusive" / NBOOL,
                "last_value" / NBOOL,
            ),
            *_queue_attributes(2),
        ),
        answer="NULL_RESPONSE",
        since=129,
    ),
    Description(
        35,
        "DELETE_QUEUE",
        CLIENT_TO_SERVER,
        _USER,
        "Delete a queue that has no consumers.",
        cs.Struct("queue_name" / SSTR),
        answer="NULL_RESPONSE",
    ),
    Description(
        45,
        "SESS_QUEUEQUERY",
        CLIENT_TO_SERVER,
        _USER,
        "Ask for a queue; the name may be fully qualified.",
        cs.Struct("queue_name" / SSTR),
        answer="the SESS_QUEUEQUERY_RESP of the version",
    ),
    Description(
        46,
        "SESS_QUEUEQUERY_RESP",
        SERVER_TO_CLIENT,
        _USER,
        "A queue, for versions below 126.",
        cs.Struct(*_QUEUE_QUERY_1),
        response=True,
    ),
    Description(
        -7,
        "SESS_QUEUEQUERY_RESP_V2",
        SERVER_TO_CLIENT,
        _USER,
        "A queue, for versions 126 to 128.",
        cs.Struct(*_QUEUE_QUERY_1, _AUTO_CREATE_QUEUES),
        since=126,
        response=True,
    ),
    Description(
        -14,
        "SESS_QUEUEQUERY_RESP_V3",
        SERVER_TO_CLIENT,
        _USER,
        "A queue; for one that does not exist, what it would get.",
        cs.Struct(
            *_QUEUE_QUERY_1,
            _AUTO_CREATE_QUEUES,
            "auto_created" / BOOL,
            "purge_on_no_consumers" / BOOL,
            "routing_type" / I8 * "0 multicast, 1 anycast; nothing else",
            "max_consumers" / I32 * "-1 = no limit",
            *group(1, "exclusive" / NBOOL, "last_value" / NBOOL),
            *group(2, "default_consumer_window_size" / NINT * "bytes"),
            *_queue_attributes(3),
            *group(8, "configuration_managed" / NBOOL),
        ),
        since=129,
        response=True,
    ),
    Description(
        49,
        "SESS_BINDINGQUERY",
        CLIENT_TO_SERVER,
        _USER,
        "Ask for an address and the queues bound to it.",
        cs.Struct("address" / SSTR),
        answer="the SESS_BINDINGQUERY_RESP of the version",
    ),
    Description(
        50,
        "SESS_BINDINGQUERY_RESP",
        SERVER_TO_CLIENT,
        _USER,
        "An address, for versions below 126.",
        cs.Struct(*_BINDING_QUERY_1),
        response=True,
    ),
    Description(
        -8,
        "SESS_BINDINGQUERY_RESP_V2",
        SERVER_TO_CLIENT,
        _USER,
        "An address, for version 126.",
        cs.Struct(*_BINDING_QUERY_1, _AUTO_CREATE_QUEUES),
        since=126,
        response=True,
    ),
    Description(
        -10,
        "SESS_BINDINGQUERY_RESP_V3",
        SERVER_TO_CLIENT,
        _USER,
        "An address, for versions 127 and 128.",
        cs.Struct(*_BINDING_QUERY_1, _AUTO_CREATE_QUEUES, _AUTO_CREATE_ADDRESSES),
        since=127,
        response=True,
    ),
    Description(
        -15,
        "SESS_BINDINGQUERY_RESP_V4",
        SERVER_TO_CLIENT,
        _USER,
        "An address, for versions 129 to 134.",
        cs.Struct(*_BINDING_QUERY_4),
        since=129,
        response=True,
    ),
    Description(
        -22,
        "SESS_BINDINGQUERY_RESP_V5",
        SERVER_TO_CLIENT,
        _USER,
        "An address.",
        cs.Struct(*_BINDING_QUERY_4, *group(3, "supports_multicast" / BOOL, "supports_anycast" / BOOL, absent=True)),
        since=135,
        response=True,
    ),
)
