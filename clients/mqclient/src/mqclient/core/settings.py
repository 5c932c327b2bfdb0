"""The settings of connections and of queues, and the checks of their types and least values."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from mqclient.urls import holds_password
from mqclient.wire.packets import ROUTING_ANYCAST

DEFAULT_LOAD_BALANCING_POLICY = "org.apache.activemq.artemis.api.core.client.loadbalance.RoundRobinConnectionLoadBalancingPolicy"

_WINDOW = 1024 * 1024
"""Bytes of the confirmation window with ``exactly_once``, unless one is set."""


_MOST = 2**31 - 1
"""The greatest size that travels: it has 32 bits with a sign."""


def _url(name: str, default: Any, *, least: int | None = None, most: int | None = None) -> Any:
    return field(default=default, metadata={"url": name, "least": least, "most": most})


@dataclass(slots=True, kw_only=True)
class LocatorSettings:
    """The settings of a connection, with the Artemis client's defaults.

    Each field's URL parameter (``url``), least value (``least``) and greatest one (``most``) are in its metadata;
    :func:`url_parameter_names` gives the table.  A parameter of the Artemis client that is not here is in :data:`WITHOUT_EFFECT`, or
    belongs to the transport (TLS, sockets) or to JMS.
    """

    ha: bool = _url("ha", False)
    """Forget brokers that have left the cluster.  The backup that the topology names for a broker is tried on failure in any case."""
    use_topology_for_load_balancing: bool = _url("useTopologyForLoadBalancing", True)
    """New session factories rotate over the topology once it is known; otherwise over the given connectors."""
    connection_load_balancing_policy_class_name: str = _url("connectionLoadBalancingPolicyClassName", DEFAULT_LOAD_BALANCING_POLICY)
    """RoundRobin, Random, RandomSticky, FirstElement, also as the full name of the Java class; or the import path of a class of the
    application's with a method ``select(count)``: ``package.module.Class``."""
    user: str | None = _url("user", None)
    """Used when ``create_session`` gets no user name."""
    password: str | None = field(default=None, repr=False, metadata={"url": "password"})
    client_id: str | None = _url("clientID", None)
    """Client id sent with CREATESESSION_V2; JMS also makes it unique by metadata."""
    call_timeout: int = _url("callTimeout", 30_000, least=1)
    """ms to wait for the answer to a call; then ``ConnectionTimedOutError``, and the connection counts as failed."""
    call_failover_timeout: int = _url("callFailoverTimeout", 30_000, least=-1)
    """ms a call waits for a running reconnect; -1: for ever."""
    client_failure_check_period: int = _url("clientFailureCheckPeriod", 30_000, least=-1)
    """ms between pings and checks of the peer; -1: no checks."""
    connection_ttl: int = _url("connectionTTL", 60_000, least=-1)
    """ms after which broker and client give up a silent peer; -1: never."""
    retry_interval: int = _url("retryInterval", 2_000, least=0)
    """ms to wait after a round of attempts that failed."""
    retry_interval_multiplier: float = _url("retryIntervalMultiplier", 1.0)
    max_retry_interval: int = _url("maxRetryInterval", 2_000, least=0)
    """ms: upper bound of the growing interval."""
    reconnect_attempts: int = _url("reconnectAttempts", 0, least=-1)
    """Rounds of attempts to reach the current broker or its backup again after a failure; -1: for ever; 0: sessions fail at once."""
    initial_connect_attempts: int = _url("initialConnectAttempts", 1, least=-1)
    """Rounds over the connectors for the first connection; -1: for ever; 0 counts as 1."""
    failover_attempts: int = _url("failoverAttempts", 0, least=-1)
    """Rounds over all other known brokers when the reconnect attempts are used up; -1: for ever."""
    confirmation_window_size: int = _url("confirmationWindowSize", -1, least=-1, most=_MOST)
    """Bytes after which packets are confirmed; from 0 on sessions reattach without loss and asynchronous sends are acknowledged."""
    consumer_window_size: int = _url("consumerWindowSize", 1024 * 1024, least=-1, most=_MOST)
    """Bytes of frames that a consumer buffers; -1: unlimited; 0: nothing is buffered."""
    consumer_max_rate: int = _url("consumerMaxRate", -1)
    """Messages per second that a consumer takes; -1: no limit."""
    producer_window_size: int = _url("producerWindowSize", 64 * 1024, least=-1, most=_MOST)
    """Bytes of credits per address; -1: no flow control."""
    producer_max_rate: int = _url("producerMaxRate", -1)
    """Messages per second that a producer sends; -1: no limit."""
    block_on_durable_send: bool = _url("blockOnDurableSend", True)
    block_on_non_durable_send: bool = _url("blockOnNonDurableSend", False)
    block_on_acknowledge: bool = _url("blockOnAcknowledge", False)
    """Acknowledging waits for the broker's answer; in a transaction only its end does."""
    pre_acknowledge: bool = _url("preAcknowledge", False)
    """The broker acknowledges before it delivers."""
    ack_batch_size: int = _url("ackBatchSize", 1024 * 1024, least=0)
    """Bytes of messages that one acknowledgement covers at most (see :meth:`ClientConsumer.acknowledge`); 0: each has its own."""
    auto_group: bool = _url("autoGroup", False)
    """Every message of a producer gets the same generated group id."""
    group_id: str | None = _url("groupID", None)
    """Group id of every message of every producer."""
    min_large_message_size: int = _url("minLargeMessageSize", 100 * 1024, least=128, most=_MOST)
    """Bytes: a larger body (with its leading length) is sent in chunks of this size."""
    compress_large_message: bool = _url("compressLargeMessage", False)
    compression_level: int = _url("compressionLevel", -1)
    """0 to 9; -1: zlib's default."""
    on_message_close_timeout: int = _url("onMessageCloseTimeout", 10_000, least=0)
    """ms that closing waits for a running message handler."""
    discovery_initial_wait_timeout: int = _url("discoveryInitialWaitTimeout", 10_000)
    refresh_timeout: int = _url("refreshTimeout", 10_000)
    dups_ok_batch_size: int = _url("dupsOKBatchSize", 1024 * 1024)
    """Bytes per acknowledgement in JMS DUPS_OK sessions (JMS passes it to ``create_session``)."""
    transaction_batch_size: int = _url("transactionBatchSize", 1024 * 1024)
    """Bytes per acknowledgement in JMS transacted sessions (JMS passes it to ``create_session``)."""
    exactly_once: bool = _url("exactlyOnce", False)
    """Sends and commits take effect exactly once, whatever fails (see :func:`in_force`)."""
    exactly_once_window_size: int = _url("exactlyOnceWindowSize", 16 * 1024 * 1024, least=1)
    """Bytes of sends that a session with ``exactly_once`` holds, to repeat them after a failure."""
    exactly_once_id_cache_size: int = _url("exactlyOnceIdCacheSize", -1, least=-1)
    """Duplicate ids that the broker keeps of each address, also over a restart; -1: the broker is asked."""


def url_parameter_names() -> dict[str, str]:
    """URL parameter name -> field of :class:`LocatorSettings`."""
    return {entry.metadata["url"]: entry.name for entry in fields(LocatorSettings)}


def in_force(settings: LocatorSettings) -> LocatorSettings:
    """The settings that count.

    With ``exactly_once`` the client reconnects until it has an outcome: ``reconnect_attempts`` 0 means for ever there, and
    ``call_failover_timeout`` has no effect.  Sessions always have a confirmation window.
    """
    if not settings.exactly_once:
        return settings
    window = settings.confirmation_window_size
    return replace(
        settings,
        reconnect_attempts=settings.reconnect_attempts or -1,
        call_failover_timeout=-1,
        confirmation_window_size=_WINDOW if window < 0 else window,
    )


WITHOUT_EFFECT: dict[str, str] = {
    "cacheLargeMessagesClient": "large messages are always streamed",
    "initialMessagePacketSize": "buffers need no initial size in Python",
    "useGlobalPools": "there are no thread pools",
    "threadPoolMaxSize": "there are no thread pools",
    "scheduledThreadPoolMaxSize": "there are no thread pools",
    "flowControlThreadPoolMaxSize": "there are no thread pools",
    "ignoreJTA": "there is no JTA in Python",
    "failoverOnInitialConnection": "a first connection tries every broker that is known, backups too",
    "incomingInterceptorList": "Java classes cannot be loaded",
    "outgoingInterceptorList": "Java classes cannot be loaded",
    "protocolManagerFactoryStr": "only the CORE protocol is spoken",
    "deserializationDenyList": "Java objects are never deserialised",
    "deserializationAllowList": "Java objects are never deserialised",
    "deserializationBlackList": "Java objects are never deserialised",
    "deserializationWhiteList": "Java objects are never deserialised",
}
"""URL parameters that are accepted as in Java and change nothing, with the reason."""


@dataclass(slots=True, kw_only=True)
class QueueConfiguration:
    """A queue to create.  ``None`` takes the default of the matching address settings."""

    name: str
    address: str | None = None
    """None: the same as ``name``.  A fully qualified ``address::queue`` in ``name`` is split."""
    routing_type: int | None = ROUTING_ANYCAST
    """ROUTING_ANYCAST, ROUTING_MULTICAST or None (the broker's default)."""
    filter_string: str | None = None
    durable: bool = True
    temporary: bool = False
    auto_created: bool = False
    max_consumers: int | None = None
    purge_on_no_consumers: bool | None = None
    exclusive: bool | None = None
    last_value: bool | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch: int | None = None
    group_rebalance: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    group_buckets: int | None = None
    group_first_key: str | None = None
    auto_delete: bool | None = None
    auto_delete_delay: int | None = None
    auto_delete_message_count: int | None = None
    ring_size: int | None = None
    enabled: bool | None = None


_LEAST: dict[str, int | None] = {entry.name: entry.metadata.get("least") for entry in fields(LocatorSettings)}
_GREATEST: dict[str, int | None] = {entry.name: entry.metadata.get("most") for entry in fields(LocatorSettings)}
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "str | None": (str, type(None)),
}
_EXPECTED = {
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "str | None": "a text or None",
}


def check_settings(settings: LocatorSettings) -> None:
    """Raises ValueError for a setting of the wrong type or out of its range."""
    for entry in fields(LocatorSettings):
        check_setting(entry.name, getattr(settings, entry.name), str(entry.type))


def check_setting(name: str, value: object, kind: str) -> None:
    """Raises ValueError, with the expected type or limit, when ``value`` is not of the type ``kind`` or out of its range."""
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        shown = type(value).__name__ if holds_password(name) else repr(value)
        raise ValueError(f"{name} is {shown}; expected {_EXPECTED[kind]}")
    minimum = _LEAST.get(name)
    if minimum is not None and isinstance(value, int) and value < minimum:
        raise ValueError(f"{name} is {value}; it must be at least {minimum}")
    maximum = _GREATEST.get(name)
    if maximum is not None and isinstance(value, int) and value > maximum:
        raise ValueError(f"{name} is {value}; it must be at most {maximum}")
    if name == "retry_interval_multiplier" and isinstance(value, (int, float)) and not value > 0:
        raise ValueError(f"{name} is {value}; it must be greater than 0")
    if name == "compression_level" and isinstance(value, int) and not -1 <= value <= 9:
        raise ValueError(f"{name} is {value}; expected -1 (default) to 9")
