"""The blocks of ``core`` about other brokers, and the diverts, which share their transformers."""

from __future__ import annotations

from dataclasses import replace

from mqbroker.config.model.shared_elements import NAME, PROPERTY, filter_block
from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Block, Item, Support, flag, honoured, quiet, warned

NO_HA = "this kind of high availability is not there yet: nothing would take over, and a backup would start as a second active broker"
NO_EFFECT = "without effect in current Artemis too"

BALANCING = kinds.choice("OFF", "STRICT", "ON_DEMAND", "OFF_WITH_REDISTRIBUTION")
ROUTING = kinds.choice("ANYCAST", "MULTICAST", "STRIP", "PASS")
PORT = kinds.Kind("a port from 1 to 65535", kinds.integer(1, 65535).convert)
PORT_OR_ANY = kinds.Kind("a port from 0 to 65535, or -1", kinds.integer(-1, 65535).convert)
ATTEMPTS = kinds.integer(0, kinds.INT_MAX, -1)
WINDOW_OR_NONE = kinds.byte_size(1, -1)

_REF_ATTRIBUTES = (
    honoured("connector-name", kinds.FILLED_TEXT, "The connector, where it is not the text."),
    honoured("connector-ref", kinds.FILLED_TEXT, "The connector, where it is not the text."),
)
CONNECTOR_REF = Block(
    "connector-ref",
    "A connector, by name.",
    attributes=_REF_ATTRIBUTES,
    text=kinds.OPTIONAL_TEXT,
    gives=honoured(
        "connector-name", kinds.FILLED_TEXT, "The connector that others are told.", field="connector_ref", beans=("connectorRef",)
    ),
)
CONNECTOR_REFS = replace(
    CONNECTOR_REF, repeated=True, gives=honoured("connector-infos", kinds.NAME_LIST, "Connectors, by name.", field="connectors")
)
DISCOVERY_GROUP_NAME = honoured("discovery-group-name", kinds.FILLED_TEXT, "Its name.", required=True)
DISCOVERY_REF = Block(
    "discovery-group-ref",
    "A discovery group.",
    attributes=(DISCOVERY_GROUP_NAME,),
    gives=replace(DISCOVERY_GROUP_NAME, field="discovery_group", beans=("discoveryGroup",)),
)
STATIC = honoured("static-connectors", kinds.NAME_LIST, "Connectors to begin with.")
DIRECT_ONLY = flag("allow-direct-connections-only", "No links to brokers that are learned from them.")
FILTER = filter_block("filter", "Only messages that match.")
TRANSFORMER = Block(
    "transformer",
    "Changes messages on their way.",
    children=(honoured("class-name", kinds.FILLED_TEXT, "Its name. Needed."), PROPERTY),
)
OLD_TRANSFORMER = honoured("transformer-class-name", kinds.FILLED_TEXT, "Changes messages on their way.", instead="transformer")

ENDPOINT: tuple[Item, ...] = (
    honoured("group-address", kinds.FILLED_TEXT, "The multicast address, 224.0.0.1 to 239.255.255.255. Needed for UDP."),
    honoured("group-port", PORT, "Its port. Needed for UDP."),
    honoured("local-bind-address", kinds.FILLED_TEXT, "Address of the network interface to use; the system chooses unless set."),
    honoured("local-bind-port", PORT_OR_ANY, "Port to send from, together with local-bind-address; -1 any."),
    honoured("jgroups-file", kinds.FILLED_TEXT, "The file of a JGroups stack, in the folder etc; instead of UDP.", beans=("file",)),
    honoured("jgroups-channel", kinds.FILLED_TEXT, "Name of the JGroups channel. Needed with jgroups-file.", beans=("channelName",)),
)

BROADCAST_ITEMS: tuple[Item, ...] = (
    *ENDPOINT,
    honoured("broadcast-period", kinds.POSITIVE, "Pause between two announcements, ms."),
)
BROADCAST_GROUP = Block(
    "broadcast-group",
    "Where, how often, and what.",
    attributes=(NAME,),
    children=(*BROADCAST_ITEMS, CONNECTOR_REFS),
    repeated=True,
)
BROADCAST_GROUPS = Block("broadcast-groups", "Announces this broker to a cluster.", children=(BROADCAST_GROUP,))

DISCOVERY_ITEMS: tuple[Item, ...] = (
    *ENDPOINT,
    honoured("refresh-timeout", kinds.POSITIVE, "Time after which a broker that was not heard of is forgotten, ms."),
    honoured(
        "initial-wait-timeout", kinds.POSITIVE, "Longest wait for the first announcement, ms.", beans=("discoveryInitialWaitTimeout",)
    ),
    honoured(
        "discovery-initial-wait-timeout",
        kinds.POSITIVE,
        "Longest wait for the first announcement, ms.",
        instead="initial-wait-timeout",
        field="initial_wait_timeout",
    ),
)
DISCOVERY_GROUP = Block(
    "discovery-group",
    "Where announcements are heard.",
    attributes=(NAME,),
    children=DISCOVERY_ITEMS,
    repeated=True,
)
DISCOVERY_GROUPS = Block("discovery-groups", "Listens for the brokers of a cluster.", children=(DISCOVERY_GROUP,))

CLUSTER_ITEMS: tuple[Item, ...] = (
    honoured("address", kinds.TEXT, "Beginnings of addresses, with commas between; `!` excludes; no wildcards; empty: every address."),
    honoured("check-period", kinds.POSITIVE, "How often a link is pinged, ms.", beans=("clientFailureCheckPeriod",)),
    honoured("connection-ttl", kinds.POSITIVE, "Time after which a silent link is given up, ms."),
    honoured("min-large-message-size", kinds.POSITIVE_BYTES, "Bytes at which a message is sent in pieces."),
    honoured("call-timeout", kinds.POSITIVE, "Longest wait for an answer, ms."),
    honoured("call-failover-timeout", kinds.POSITIVE_OR_NONE, "The same while a link fails over, ms; -1 no limit."),
    honoured("retry-interval", kinds.POSITIVE, "Pause between two attempts to connect, ms."),
    honoured("retry-interval-multiplier", kinds.POSITIVE_DECIMAL, "Factor by which the pause grows each time."),
    honoured("max-retry-interval", kinds.POSITIVE, "Longest pause, ms."),
    honoured("initial-connect-attempts", ATTEMPTS, "Attempts to connect to a broker the first time; -1 no limit."),
    honoured("reconnect-attempts", ATTEMPTS, "Attempts to connect again; then the broker has left the cluster; -1 no limit."),
    flag("use-duplicate-detection", "A message that is sent a second time after a break is taken once.", beans=("duplicateDetection",)),
    honoured("message-load-balancing", BALANCING, "Which messages go to other brokers.", beans=("messageLoadBalancingType",)),
    honoured(
        "forward-when-no-consumers",
        kinds.BOOLEAN,
        "true is STRICT, false ON_DEMAND.",
        instead="message-load-balancing",
    ),
    honoured("max-hops", kinds.integer(0, kinds.INT_MAX), "How many brokers away a queue may be; 0: nothing is forwarded."),
    honoured("confirmation-window-size", kinds.POSITIVE_BYTES, "Bytes sent before a confirmation is waited for."),
    honoured("producer-window-size", WINDOW_OR_NONE, "Bytes of credit asked for at a time; -1 no limit."),
    honoured(
        "notification-interval",
        kinds.POSITIVE,
        "Pause between two announcements of this broker when it joins, ms.",
        beans=("clusterNotificationInterval",),
    ),
    honoured(
        "notification-attempts", kinds.integer(1, kinds.INT_MAX), "How often it announces itself.", beans=("clusterNotificationAttempts",)
    ),
    honoured("topology-scanner-attempts", ATTEMPTS, "Attempts to find static connectors that are missing in the topology; -1 no limit."),
    honoured("client-id", kinds.OPTIONAL_TEXT, "Client id of the links."),
)
STATIC_CONNECTORS = Block(
    "static-connectors",
    "Brokers to begin with.",
    attributes=(DIRECT_ONLY,),
    children=(CONNECTOR_REFS,),
    gives=STATIC,
)
CLUSTER_CONNECTION = Block(
    "cluster-connection",
    "How this broker joins a cluster. Without static-connectors and discovery-group-ref it opens no links itself.",
    attributes=(NAME, quiet("uri", kinds.TEXT, "No effect.", "write cluster-connection-uri")),
    children=(
        *CLUSTER_ITEMS,
        CONNECTOR_REF,
        STATIC_CONNECTORS,
        DISCOVERY_REF,
        quiet("scale-down-connector", kinds.TEXT, "Old.", NO_EFFECT),
    ),
    repeated=True,
    only_beans=(DIRECT_ONLY,),
)
CLUSTER_URI = Block(
    "cluster-connection-uri",
    "The same as a URL: `static://(tcp://host:port,tcp://host:port)?name=value;…` or `multicast://discovery-group?name=value;…`, with "
    "names in the spelling of Java beans, `connectorName` for connector-ref.",
    attributes=(honoured("address", kinds.FILLED_TEXT, "The URL.", required=True), NAME),
    repeated=True,
)
CLUSTER_CONNECTIONS = Block(
    "cluster-connections",
    "Joins brokers to a cluster. The first one is the default one.",
    children=(CLUSTER_CONNECTION, CLUSTER_URI),
)

DIVERT_ITEMS: tuple[Item, ...] = (
    honoured("address", kinds.FILLED_TEXT, "Address whose messages are diverted. Needed."),
    honoured("forwarding-address", kinds.NAME_LIST, "Where to; several with commas between. Needed."),
    honoured("routing-name", kinds.OPTIONAL_TEXT, "Name of the binding; one of its own unless set."),
    flag("exclusive", "The message itself no longer goes to the queues of its address."),
    honoured("routing-type", ROUTING, "Routing type of what is diverted: one of the two, that of the message, or none."),
)
DIVERT = Block(
    "divert",
    "One divert.",
    attributes=(NAME,),
    children=(*DIVERT_ITEMS, OLD_TRANSFORMER, TRANSFORMER, FILTER),
    repeated=True,
)
DIVERTS = Block("diverts", "Copies or moves messages from one address to another.", children=(DIVERT,))

BRIDGE_ITEMS: tuple[Item, ...] = (
    honoured("queue-name", kinds.FILLED_TEXT, "Queue whose messages are forwarded. Needed."),
    honoured("forwarding-address", kinds.OPTIONAL_TEXT, "Where to; empty: the address of each message."),
    flag("ha", "Follow the other broker to its backup."),
    honoured("min-large-message-size", kinds.POSITIVE_BYTES, "Bytes at which a message is sent in pieces."),
    honoured("check-period", kinds.POSITIVE, "How often the link is pinged, ms.", beans=("clientFailureCheckPeriod",)),
    honoured("connection-ttl", kinds.POSITIVE, "Time after which a silent link is given up, ms."),
    honoured("retry-interval", kinds.POSITIVE, "Pause between two attempts to connect, ms."),
    honoured("retry-interval-multiplier", kinds.POSITIVE_DECIMAL, "Factor by which the pause grows each time."),
    honoured("max-retry-interval", kinds.POSITIVE, "Longest pause, ms."),
    honoured("initial-connect-attempts", ATTEMPTS, "Attempts to connect the first time; -1 no limit."),
    honoured("reconnect-attempts", ATTEMPTS, "Attempts to connect again; then the bridge stops; -1 no limit."),
    honoured(
        "reconnect-attempts-same-node",
        ATTEMPTS,
        "How many of them go to the same broker before others are tried.",
        beans=("reconnectAttemptsOnSameNode",),
    ),
    flag("use-duplicate-detection", "A message that is sent a second time after a break is taken once."),
    honoured("confirmation-window-size", WINDOW_OR_NONE, "Bytes sent before a confirmation is waited for; -1 no limit."),
    honoured("producer-window-size", WINDOW_OR_NONE, "Bytes of credit asked for at a time; -1 no limit."),
    honoured("pending-ack-timeout", kinds.POSITIVE, "Time after which an unconfirmed message is sent again, ms."),
    honoured("routing-type", ROUTING, "Routing type of what is forwarded: one of the two, that of the message, or none."),
    honoured("concurrency", kinds.integer(1, kinds.INT_MAX), "Bridges that work side by side."),
    honoured("user", kinds.FILLED_TEXT, "User at the other broker; the default cluster user unless set."),
    honoured("password", kinds.TEXT, "Its password; may be ENC(…)."),
    honoured("client-id", kinds.OPTIONAL_TEXT, "Client id of the link."),
)
BRIDGE = Block(
    "bridge",
    "One bridge. It needs static-connectors or discovery-group-ref.",
    attributes=(NAME,),
    children=(
        *BRIDGE_ITEMS,
        quiet("failover-on-server-shutdown", kinds.BOOLEAN, "Old.", NO_EFFECT),
        OLD_TRANSFORMER,
        TRANSFORMER,
        FILTER,
        Block(
            "static-connectors",
            "Brokers to connect to.",
            attributes=(quiet("allow-direct-connections-only", kinds.BOOLEAN, "Of cluster connections.", "a bridge has one link"),),
            children=(CONNECTOR_REFS,),
            gives=STATIC,
        ),
        DISCOVERY_REF,
    ),
    repeated=True,
    only_beans=(honoured("call-timeout", kinds.POSITIVE, "Longest wait for an answer, ms."),),
)
BRIDGES = Block("bridges", "Forwards a queue to another broker.", children=(BRIDGE,))

GROUPING_ITEMS: tuple[Item, ...] = (
    honoured("type", kinds.choice("LOCAL", "REMOTE"), "LOCAL on exactly one broker of the cluster, REMOTE on the others. Needed."),
    honoured("address", kinds.TEXT, "Address in its notifications, which the cluster connection must share; it decides for all addresses."),
    honoured("timeout", kinds.POSITIVE, "Longest wait for a decision, ms."),
    honoured("group-timeout", kinds.POSITIVE_OR_NONE, "Time after which an unused decision is forgotten, ms; -1 never."),
    honoured("reaper-period", kinds.POSITIVE, "How often to look for such decisions, ms."),
)
GROUPING_HANDLER = Block("grouping-handler", "Keeps message groups together over a cluster.", attributes=(NAME,), children=GROUPING_ITEMS)

SCALE_DOWN_ITEMS: tuple[Item, ...] = (
    flag("enabled", "false: as without scale-down."),
    honoured("commit-interval", kinds.POSITIVE_INT_OR_NONE, "Messages in one transaction; -1 the broker chooses."),
    honoured("group-name", kinds.OPTIONAL_TEXT, "Only to a broker with the same group name."),
    honoured("scale-down-group-name", kinds.OPTIONAL_TEXT, "The same.", instead="group-name", field="group_name"),
    honoured("cluster-name", kinds.OPTIONAL_TEXT, "Only to a broker of this cluster connection; the default one unless set."),
    honoured("scale-down-clustername", kinds.OPTIONAL_TEXT, "The same.", instead="cluster-name", field="cluster_name"),
)
SCALE_DOWN = Block(
    "scale-down",
    "When the broker stops, its messages move to another one. `true` and `false` as its text are the same as `enabled`.",
    children=(
        *SCALE_DOWN_ITEMS,
        DISCOVERY_REF,
        Block("connectors", "Brokers that may take the messages.", children=(CONNECTOR_REFS,), gives=replace(STATIC, name="connectors")),
    ),
    text=kinds.OPTIONAL_TEXT,
)


def _refused(name: str, description: str, inside: str, reason: str = NO_HA) -> Block:
    # A text of its own makes the reader refuse the element even while it is empty.
    return Block(name, description, support=Support.REFUSED, reason=reason, text=kinds.OPTIONAL_TEXT, inside=tuple(inside.split()))


BACKUP_SCALE_DOWN = replace(
    SCALE_DOWN,
    description="When the backup has taken over, its messages move to another broker, and it is a backup again (`restart-backup`).",
)
COLOCATED_ITEMS: tuple[Item | Block, ...] = (
    flag("request-backup", "Ask another broker of the cluster to host the backup of this one."),
    honoured(
        "backup-request-retries",
        kinds.COUNT_OR_NONE,
        "How often to ask again when no broker hosts it; -1 without end (Artemis: always without end).",
    ),
    honoured("backup-request-retry-interval", kinds.POSITIVE, "Between two requests, ms."),
    honoured("max-backups", kinds.integer(0, kinds.INT_MAX), "Backups of other brokers that this one hosts."),
    honoured(
        "backup-port-offset",
        kinds.integer(1, 65535),
        "The ports of the first hosted backup are higher by this, those of the second by twice as much, and so on.",
    ),
    Block(
        "excludes",
        "Connectors whose ports stay as they are: those of other brokers.",
        children=(CONNECTOR_REFS,),
        gives=replace(STATIC, name="excludes", beans=("excludedConnectors",)),
    ),
)


def _colocated(primary: Block, backup: Block) -> Block:
    """``primary`` is for the broker itself, ``backup`` for the backups that it hosts."""
    old = replace(primary, name="master", instead="primary"), replace(backup, name="slave", instead="backup")
    return Block(
        "colocated",
        "A primary that hosts backups of others in its process.",
        children=(*COLOCATED_ITEMS, primary, backup, *old),
        only_beans=(quiet("port-offset", kinds.integer(0, kinds.INT_MAX), "Old.", NO_EFFECT),),
    )


FAILOVER_ON_SHUTDOWN = flag("failover-on-shutdown", "A backup takes over also after an orderly stop.", beans=("failoverOnServerShutdown",))
SHARED_PRIMARY = Block(
    "primary",
    "Is active whenever it runs and, after a failure, has got the folder back.",
    children=(
        FAILOVER_ON_SHUTDOWN,
        flag("wait-for-activation", "The start of an embedded broker returns only when it is active."),
    ),
)
SHARED_BACKUP = Block(
    "backup",
    "Takes over when the active broker of the folder has gone.",
    children=(
        FAILOVER_ON_SHUTDOWN,
        flag("allow-failback", "Give way to a primary that is back and has announced itself in the cluster."),
        flag("restart-backup", "Be a backup again then; false: stop."),
        quiet("failback-delay", kinds.LONG, "Old.", NO_EFFECT),
        BACKUP_SCALE_DOWN,
    ),
)
SHARED_STORE = Block(
    "shared-store",
    "Brokers with the same folders: the one that holds their lock is active.",
    children=(
        SHARED_PRIMARY,
        SHARED_BACKUP,
        replace(SHARED_PRIMARY, name="master", instead="primary"),
        replace(SHARED_BACKUP, name="slave", instead="backup"),
        _colocated(SHARED_PRIMARY, SHARED_BACKUP),
    ),
)
MANAGER = Block(
    "manager",
    "A service outside of the cluster says who may be active.",
    children=(
        honoured("class-name", kinds.FILLED_TEXT, "Its Java class name, or the import path of one of your own; ZooKeeper unless set."),
        Block("properties", "For the lock manager.", children=(PROPERTY,)),
    ),
)
VOTING_ROLE_MANAGER = _refused(
    "manager",
    "A service outside of the cluster says who may be active.",
    "class-name properties property @key @value",
    "under its old name, and in colocated, a role is always one of a pair that votes",
)
PAIRING: tuple[Item | Block, ...] = (
    honoured("group-name", kinds.OPTIONAL_TEXT, "A backup with a group name pairs only with a primary of the same one."),
    honoured("cluster-name", kinds.OPTIONAL_TEXT, "The cluster connection by which the two find each other; the default one unless set."),
    honoured(
        "max-saved-replicated-journals-size",
        kinds.integer(0, kinds.INT_MAX, -1),
        "How many former journals a replica keeps, each in a folder `oldreplica.n`; -1 all of them.",
    ),
    honoured("initial-replication-sync-timeout", kinds.POSITIVE, "How long a copy that is complete may take to be in sync."),
    flag(
        "vote-on-replication-failure",
        "After the loss of the replica, go on only with a proof that no other copy can be active; absent: as true.",
    ),
    honoured(
        "quorum-size",
        kinds.integer(1, kinds.INT_MAX, -1),
        "Nodes of the cluster, with this one, of which a majority must agree; a majority of the known voters must in any case.",
    ),
    warned(
        "vote-retries",
        kinds.COUNT_OR_NONE,
        "How often the voters are asked.",
        "a broker asks until it has a proof or hears that another one goes on",
        unless=(12,),
    ),
    honoured(
        "vote-retry-wait",
        kinds.integer(0, kinds.LONG_MAX),
        "Between two searches for a proof, ms, give or take a half; 1000 unless set (Artemis: 5000).",
    ),
    honoured(
        "quorum-vote-wait",
        kinds.integer(1, kinds.INT_MAX),
        "Seconds that the voters have for each of their two answers; 2 unless set (Artemis: 30).",
    ),
    honoured(
        "retry-replication-wait",
        kinds.integer(0, kinds.LONG_MAX),
        "Between two rounds of looking for a primary, ms; vote-retry-wait unless set, and without that 5000.",
    ),
    MANAGER,
)
COORDINATION_ID = honoured(
    "coordination-id",
    kinds.FILLED_TEXT,
    "Competing primaries: brokers with the same one are one node, and any of them may be active; needs a `manager`.",
)
VOTING_ROLE_COORDINATION_ID = _refused(
    "coordination-id",
    "Competing primaries.",
    "",
    "under its old name, and in colocated, a role is always one of a pair that votes",
)
ACTIVE_CHECK = flag("check-for-active-server", "Start only with a proof that no other copy is active; absent: as true.")
REPLICATED_PRIMARY = Block(
    "primary",
    "Is active, and sends its writes to a replica.",
    children=(
        *PAIRING,
        ACTIVE_CHECK,
        replace(ACTIVE_CHECK, name="check-for-live-server", instead="check-for-active-server", field="check_for_active_server"),
        COORDINATION_ID,
    ),
)
REPLICATED_BACKUP = Block(
    "backup",
    "Has a copy of the journal of a primary, and takes over when that is gone.",
    children=(
        *PAIRING,
        flag("allow-failback", "Give way to the primary that is back, once it has a copy."),
        flag("restart-backup", "Be a backup again then; false: stop."),
        quiet("failback-delay", kinds.LONG, "Old.", NO_EFFECT),
        BACKUP_SCALE_DOWN,
    ),
)


def _voting_role(role: Block) -> Block:
    refused = {MANAGER.name: VOTING_ROLE_MANAGER, COORDINATION_ID.name: VOTING_ROLE_COORDINATION_ID}
    return replace(role, children=tuple(refused.get(child.name, child) for child in role.children))


def _old_role(role: Block, name: str) -> Block:
    return replace(_voting_role(role), name=name, instead=role.name)


REPLICATION = Block(
    "replication",
    "A backup has a copy of the journal.",
    children=(
        REPLICATED_PRIMARY,
        REPLICATED_BACKUP,
        _old_role(REPLICATED_PRIMARY, "master"),
        _old_role(REPLICATED_BACKUP, "slave"),
        _colocated(_voting_role(REPLICATED_PRIMARY), _voting_role(REPLICATED_BACKUP)),
        MANAGER,
    ),
)
HA_POLICY = Block(
    "ha-policy",
    "Who takes over when a broker fails; nobody, unless set.",
    children=(
        Block("primary-only", "Nobody takes over.", children=(SCALE_DOWN,)),
        Block("live-only", "Nobody takes over.", children=(SCALE_DOWN,), instead="primary-only"),
        REPLICATION,
        SHARED_STORE,
    ),
)

CLUSTER_BLOCKS = (DIVERTS, BRIDGES, BROADCAST_GROUPS, DISCOVERY_GROUPS, CLUSTER_CONNECTIONS, GROUPING_HANDLER, HA_POLICY)
