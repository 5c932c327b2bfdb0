"""The broker, its cluster and its properties, in the words in which OpenMQ shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mqbroker.config.imq.destinations import DEAD_MESSAGE_QUEUE
from mqbroker.config.imq.layers import Layers
from mqbroker.config.imq.made import CONNECTION
from mqbroker.config.imq.places import parse_place
from mqbroker.config.imq.table import find_property, is_secret
from mqbroker.config.schema.model import Support
from mqbroker.storage.shared.brokers import State
from mqclient.protocol.topology import TopologyMember

if TYPE_CHECKING:
    from mqbroker.config.imq.instance import ImqInstance
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.imq.enhanced.sides import Described
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.server import Server

OPERATING = "OPERATING"
BROKER_DOWN = "BROKER_DOWN"
TAKEOVER_FAILED = "TAKEOVER_FAILED"
UNKNOWN = "UNKNOWN"
_CONNECTED = "connected"
_EFFECTS = {Support.HONOURED: "honoured", Support.IGNORED: "changes nothing: {}", Support.REFUSED: "no other value: {}"}

Pair = tuple[str, str]


def cluster_rows(server: Server, own: str, brokers: Sequence[str], own_state: str) -> list[dict[str, str]]:
    """Each known member with its address and state: those of the list, and those that have come by themselves."""
    states: dict[str, str] = {own: own_state}
    cluster = None if server.cluster is None else server.cluster.connections.get(CONNECTION)
    if cluster is not None:
        links = {link["nodeID"]: link["state"] for link in cluster.links()}
        for member in cluster.topology:
            if member.node_id != server.node_id and member.primary is not None:
                linked = links.get(member.node_id) == _CONNECTED
                states.setdefault(_named(member, brokers), OPERATING if linked else BROKER_DOWN)
    for broker in brokers:
        states.setdefault(broker, BROKER_DOWN)
    order = [*brokers, *(name for name in states if name not in brokers)]
    return [{"address": name, "state": states[name]} for name in order]


def _named(member: TopologyMember, brokers: Iterable[str]) -> str:
    """The member's place as the list has it, or else as it has announced itself."""
    assert member.primary is not None
    parameters = dict(member.primary.parameters)
    text = f"{parameters.get('host', 'localhost')}:{parameters.get('port', '')}"
    host, _, port = text.rpartition(":")
    place = parse_place(f"[{host}]:{port}" if ":" in host else text)
    return next((broker for broker in brokers if parse_place(broker).same(place)), str(place))


_SHOWN = {
    State.QUIESCE_COMPLETED: "QUIESCE_COMPLETE",
    State.SHUTDOWN_FAILOVER: BROKER_DOWN,
    State.SHUTDOWN_COMPLETE: BROKER_DOWN,
    State.FAILOVER_PENDING: BROKER_DOWN,
    State.FAILOVER_STARTED: "TAKEOVER_STARTED",
    State.FAILOVER_COMPLETE: "TAKEOVER_COMPLETE",
}


def enhanced_row(member: Described) -> dict[str, Any]:
    """A member of an enhanced cluster, as ``list bkr`` shows it."""
    row = member.row
    return {
        "brokerID": row.broker,
        "address": row.url,
        "state": _shown(member),
        "messages": member.messages,
        "takeoverBrokerID": row.taker,
        "statusAgeMs": member.age_ms,
    }


def _shown(member: Described) -> str:
    if member.failed:
        return TAKEOVER_FAILED
    return UNKNOWN if member.state is None else _SHOWN.get(member.state, member.state.name)


def broker_groups(
    server: Server,
    instance: ImqInstance,
    version: str,
    configured: Sequence[str],
    active: Sequence[str],
    master: str | None,
    state: str,
    broker_id: str | None = None,
) -> list[list[Pair]]:
    """The answer to ``query bkr``: groups of titles and values."""
    core = server.messaging.core
    layers, home = instance.layers, server.configuration.home_cluster
    assert home is not None
    dead = core.queues.get(DEAD_MESSAGE_QUEUE)
    queues = [queue for queue in core.queues.values() if not queue.definition.internal]

    def text(name: str) -> str:
        return layers.text(name)

    return [
        [
            ("Version", version),
            ("Instance Name", server.configuration.name),
            ("Broker ID", broker_id or server.node_id),
            ("Primary Port", text("imq.portmapper.port")),
            ("Broker is Embedded", "false"),
            ("Instance Configuration/Data Root Directory", instance.folder),
            ("State", state),
        ],
        _counts("in System", queues),
        _counts("in Dead Message Queue", [] if dead is None else [dead]),
        [
            ("Max Number of Messages in System", _limit(text("imq.system.max_count"))),
            ("Max Total Message Bytes in System", _limit(text("imq.system.max_size"))),
        ],
        [
            ("Auto Create Queues", text("imq.autocreate.queue")),
            ("Auto Create Topics", text("imq.autocreate.topic")),
            ("Auto Created Queue Max Number of Active Consumers", _limit(text("imq.autocreate.queue.maxNumActiveConsumers"))),
            ("Auto Created Queue Max Number of Backup Consumers", text("imq.autocreate.queue.maxNumBackupConsumers")),
            ("Auto Created Destination useDMQ", text("imq.autocreate.destination.useDMQ")),
        ],
        [
            ("Cluster ID", home.cluster_id or ""),
            ("Cluster is Highly Available", "false" if home.enhanced is None else "true"),
            ("Cluster Broker List (active)", _list(active)),
            ("Cluster Broker List (configured)", _list(configured)),
            ("Cluster Master Broker", master or _no_master(home)),
            ("Cluster URL", text("imq.cluster.url")),
        ],
    ]


def _no_master(home: HomeCluster) -> str:
    return "" if home.record is None else f"imq.cluster.nomasterbroker=true ({home.record.database.vendor})"


def _counts(where: str, queues: Iterable[Queue]) -> list[Pair]:
    listed = list(queues)
    return [
        (f"Current Number of Messages {where}", str(sum(queue.message_count for queue in listed))),
        (f"Current Total Message Bytes {where}", str(sum(queue.persistent_size for queue in listed))),
    ]


def _limit(text: str) -> str:
    return "unlimited (-1)" if text == "-1" else text


def _list(brokers: Sequence[str]) -> str:
    return ",".join(f"mq://{broker}/" for broker in brokers)


def origin_rows(layers: Layers) -> list[dict[str, Any]]:
    """Each property with its value, who gives it, and what this broker does with it."""
    rows = []
    for setting in sorted(layers, key=lambda each: each.name):
        entry = find_property(setting.name)
        if entry is None or (not setting.value and not layers.given(setting.name)):
            continue
        value = "****" if is_secret(setting.name, setting.value) and setting.value else setting.value
        rows.append(
            {
                "name": setting.name,
                "value": value,
                "origin": str(setting.origin),
                "effect": _EFFECTS[entry.item.support].format(entry.item.reason),
            }
        )
    return rows
