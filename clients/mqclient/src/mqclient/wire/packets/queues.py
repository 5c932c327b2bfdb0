"""Packets that ask for, create and delete addresses and queues.

Source: ``protocol-spec/``, chapter "Addresses and queues".
"""

from dataclasses import dataclass

from mqclient.wire.packets.base import (
    ALL_GROUPS,
    BOOL,
    GROUP,
    I8,
    I8_ARRAY,
    I32,
    I64,
    NBOOL,
    NINT,
    NLONG,
    NSSTR,
    ROUTING_MULTICAST,
    SSTR,
    SSTR_ARRAY,
    Packet,
    packet,
)

# --- addresses and queues ---------------------------------------------------------------------------------------------


@packet(-11, "CREATE_ADDRESS", since=129)
class CreateAddress(Packet):
    address: SSTR
    routing_types: I8_ARRAY
    requires_response: BOOL = True
    auto_created: BOOL = False


@packet(34, "CREATE_QUEUE")
class CreateQueue(Packet):
    address: SSTR
    queue_name: SSTR
    filter_string: NSSTR = None
    durable: BOOL = False
    temporary: BOOL = False
    requires_response: BOOL = True


@packet(-12, "CREATE_QUEUE_V2", since=129)
class CreateQueueV2(Packet):
    """Create a queue; an attribute that is None takes the default of the matching address settings."""

    address: SSTR
    queue_name: SSTR
    filter_string: NSSTR = None
    durable: BOOL = True
    temporary: BOOL = False
    requires_response: BOOL = True
    auto_created: BOOL = False
    routing_type: I8 = -1
    max_consumers: I32 = -1
    purge_on_no_consumers: BOOL = False
    exclusive: GROUP[NBOOL] = None
    last_value: NBOOL = None
    last_value_key: GROUP[NSSTR] = None
    non_destructive: NBOOL = None
    consumers_before_dispatch: NINT = None
    delay_before_dispatch: NLONG = None
    group_rebalance: NBOOL = None
    group_buckets: NINT = None
    auto_delete: NBOOL = None
    auto_delete_delay: NLONG = None
    auto_delete_message_count: NLONG = None
    group_first_key: GROUP[NSSTR] = None
    ring_size: GROUP[NLONG] = None
    enabled: GROUP[NBOOL] = None
    group_rebalance_pause_dispatch: GROUP[NBOOL] = None
    groups: int = ALL_GROUPS


@packet(36, "CREATE_SHARED_QUEUE")
class CreateSharedQueue(Packet):
    address: SSTR
    queue_name: SSTR
    filter_string: NSSTR = None
    durable: BOOL = False
    requires_response: BOOL = True


@packet(-13, "CREATE_SHARED_QUEUE_V2", since=129)
class CreateSharedQueueV2(Packet):
    address: SSTR
    queue_name: SSTR
    filter_string: NSSTR = None
    durable: BOOL = False
    routing_type: I8 = -1
    requires_response: BOOL = True
    max_consumers: GROUP[NINT] = None
    purge_on_no_consumers: NBOOL = None
    exclusive: NBOOL = None
    last_value: NBOOL = None
    last_value_key: GROUP[NSSTR] = None
    non_destructive: NBOOL = None
    consumers_before_dispatch: NINT = None
    delay_before_dispatch: NLONG = None
    group_rebalance: NBOOL = None
    group_buckets: NINT = None
    auto_delete: NBOOL = None
    auto_delete_delay: NLONG = None
    auto_delete_message_count: NLONG = None
    group_first_key: GROUP[NSSTR] = None
    ring_size: GROUP[NLONG] = None
    enabled: GROUP[NBOOL] = None
    group_rebalance_pause_dispatch: GROUP[NBOOL] = None
    groups: int = ALL_GROUPS


@packet(35, "DELETE_QUEUE")
class DeleteQueue(Packet):
    queue_name: SSTR


@packet(45, "SESS_QUEUEQUERY")
class QueueQuery(Packet):
    queue_name: SSTR


@dataclass(slots=True, eq=False, repr=False)
class QueueQueryResult(Packet):
    """A queue as the broker describes it; for a missing one the defaults that it would get."""

    exists: BOOL
    durable: BOOL
    temporary: BOOL
    consumer_count: I32
    message_count: I64
    filter_string: NSSTR
    address: NSSTR
    name: NSSTR
    auto_create_queues: BOOL = True
    auto_created: BOOL = False
    purge_on_no_consumers: BOOL = False
    routing_type: I8 = ROUTING_MULTICAST
    max_consumers: I32 = -1
    exclusive: GROUP[NBOOL] = None
    last_value: NBOOL = None
    default_consumer_window_size: GROUP[NINT] = None
    last_value_key: GROUP[NSSTR] = None
    non_destructive: NBOOL = None
    consumers_before_dispatch: NINT = None
    delay_before_dispatch: NLONG = None
    group_rebalance: NBOOL = None
    group_buckets: NINT = None
    auto_delete: NBOOL = None
    auto_delete_delay: NLONG = None
    auto_delete_message_count: NLONG = None
    group_first_key: GROUP[NSSTR] = None
    ring_size: GROUP[NLONG] = None
    enabled: GROUP[NBOOL] = None
    group_rebalance_pause_dispatch: GROUP[NBOOL] = None
    configuration_managed: GROUP[NBOOL] = None
    groups: int = ALL_GROUPS


@packet(46, "SESS_QUEUEQUERY_RESP", last="name", response=True)
class QueueQueryResponse(QueueQueryResult):
    __slots__ = ()


@packet(-7, "SESS_QUEUEQUERY_RESP_V2", since=126, last="auto_create_queues", response=True)
class QueueQueryResponseV2(QueueQueryResult):
    __slots__ = ()


@packet(-14, "SESS_QUEUEQUERY_RESP_V3", since=129, response=True)
class QueueQueryResponseV3(QueueQueryResult):
    __slots__ = ()


@packet(49, "SESS_BINDINGQUERY")
class BindingQuery(Packet):
    address: SSTR


@dataclass(slots=True, eq=False, repr=False)
class AddressQueryResult(Packet):
    """An address and the queues bound to it, as the broker describes them."""

    exists: BOOL
    queue_names: SSTR_ARRAY
    auto_create_queues: BOOL = True
    auto_create_addresses: BOOL = True
    default_purge_on_no_consumers: BOOL = False
    default_max_consumers: I32 = -1
    default_exclusive: GROUP[NBOOL] = None
    default_last_value: NBOOL = None
    default_last_value_key: GROUP[NSSTR] = None
    default_non_destructive: NBOOL = None
    default_consumers_before_dispatch: NINT = None
    default_delay_before_dispatch: NLONG = None
    supports_multicast: GROUP[BOOL] = True
    supports_anycast: BOOL = True
    groups: int = ALL_GROUPS


@packet(50, "SESS_BINDINGQUERY_RESP", last="queue_names", response=True)
class BindingQueryResponse(AddressQueryResult):
    __slots__ = ()


@packet(-8, "SESS_BINDINGQUERY_RESP_V2", since=126, last="auto_create_queues", response=True)
class BindingQueryResponseV2(AddressQueryResult):
    __slots__ = ()


@packet(-10, "SESS_BINDINGQUERY_RESP_V3", since=127, last="auto_create_addresses", response=True)
class BindingQueryResponseV3(AddressQueryResult):
    __slots__ = ()


@packet(-15, "SESS_BINDINGQUERY_RESP_V4", since=129, last="default_delay_before_dispatch", response=True)
class BindingQueryResponseV4(AddressQueryResult):
    __slots__ = ()


@packet(-22, "SESS_BINDINGQUERY_RESP_V5", since=135, response=True)
class BindingQueryResponseV5(AddressQueryResult):
    __slots__ = ()


QUEUE_QUERY_ANSWERS = (QueueQueryResponseV3, QueueQueryResponseV2, QueueQueryResponse)
"""The answers to QUEUEQUERY, the newest first."""
BINDING_QUERY_ANSWERS = (
    BindingQueryResponseV5,
    BindingQueryResponseV4,
    BindingQueryResponseV3,
    BindingQueryResponseV2,
    BindingQueryResponse,
)
"""The answers to BINDINGQUERY, the newest first."""
