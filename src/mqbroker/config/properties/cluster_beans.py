"""What overriding properties and ``cluster-connection-uri`` can say about other brokers: the elements, and their names as Java beans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.cluster import (
    BRIDGE_ITEMS,
    BROADCAST_ITEMS,
    CALL_TIMEOUT,
    CLUSTER_ITEMS,
    DISCOVERY_ITEMS,
    DIVERT_ITEMS,
    GROUPING_ITEMS,
    SCALE_DOWN_ITEMS,
)
from mqbroker.config.schema.model import Item, honoured

DISCOVERY_GROUP_NAME = honoured("discovery-group-name", kinds.FILLED_TEXT, "The discovery group.", field="discovery_group")
STATIC = honoured("static-connectors", kinds.NAME_LIST, "Connectors to begin with.")
FILTER_STRING = honoured("filter-string", kinds.OPTIONAL_TEXT, "Only messages that match.")


def _renamed(items: Iterable[Item], **names: str) -> tuple[Item, ...]:
    """``items``, and those of ``names`` (underscores for hyphens) a second time under the name given for them."""
    listed = tuple(item for item in items if not item.instead)
    others = {old.replace("_", "-"): new for old, new in names.items()}
    return (*listed, *(replace(item, name=others[item.name], field=item.target) for item in listed if item.name in others))


CLUSTER_BEANS: tuple[Item, ...] = (
    *_renamed(
        CLUSTER_ITEMS,
        check_period="client-failure-check-period",
        use_duplicate_detection="duplicate-detection",
        message_load_balancing="message-load-balancing-type",
        notification_interval="cluster-notification-interval",
        notification_attempts="cluster-notification-attempts",
    ),
    honoured("connector-name", kinds.FILLED_TEXT, "The connector that others are told.", field="connector_ref"),
    honoured("connector-ref", kinds.FILLED_TEXT, "The connector that others are told."),
    honoured("allow-direct-connections-only", kinds.BOOLEAN, "No links to brokers that are learned."),
    STATIC,
    DISCOVERY_GROUP_NAME,
)
BRIDGE_BEANS: tuple[Item, ...] = (
    *_renamed(BRIDGE_ITEMS, check_period="client-failure-check-period", reconnect_attempts_same_node="reconnect-attempts-on-same-node"),
    CALL_TIMEOUT,
    FILTER_STRING,
    STATIC,
    DISCOVERY_GROUP_NAME,
)
DIVERT_BEANS: tuple[Item, ...] = (*_renamed(DIVERT_ITEMS), FILTER_STRING)
BROADCAST_BEANS: tuple[Item, ...] = (
    *_renamed(BROADCAST_ITEMS, jgroups_file="file", jgroups_channel="channel-name"),
    honoured("connector-infos", kinds.NAME_LIST, "Connectors that are announced.", field="connectors"),
)
DISCOVERY_BEANS: tuple[Item, ...] = _renamed(
    DISCOVERY_ITEMS,
    initial_wait_timeout="discovery-initial-wait-timeout",
    jgroups_file="file",
    jgroups_channel="channel-name",
)
GROUPING_BEANS: tuple[Item, ...] = (*_renamed(GROUPING_ITEMS), honoured("name", kinds.FILLED_TEXT, "Its name."))
SCALE_DOWN_BEANS: tuple[Item, ...] = (
    *_renamed(SCALE_DOWN_ITEMS),
    honoured("connectors", kinds.NAME_LIST, "Brokers that may take the messages."),
    honoured("discovery-group", kinds.FILLED_TEXT, "The discovery group."),
)
REFS = frozenset({"connectors", "static_connectors"})
"""Fields that hold names of connectors."""
