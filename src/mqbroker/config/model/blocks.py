"""The elements of broker.xml that have elements inside, and the root of the table."""

from __future__ import annotations

from mqbroker.config.model.address_elements import ADDRESS_SETTING
from mqbroker.config.model.cluster_elements import CLUSTER_BLOCKS
from mqbroker.config.model.missing_blocks import REFUSED
from mqbroker.config.model.server_elements import BROKER, CONNECTIONS, MANAGEMENT, MESSAGES, NO_JAVA, NO_JMX, SECURITY, WATCHDOGS
from mqbroker.config.model.shared_elements import NAME, PROPERTY, filter_block
from mqbroker.config.model.storage_elements import LIMITS, RETENTION, STORAGE
from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Block, Item, Support, flag, honoured, quiet, refused_block, warned

PERMISSIONS = (
    "send",
    "consume",
    "browse",
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "manage",
    "view",
    "edit",
)

OLD_PERMISSIONS = {"createTempQueue": "createNonDurableQueue", "deleteTempQueue": "deleteNonDurableQueue"}

NO_JVM = "there is no Java virtual machine"

MATCH = honoured("match", kinds.FILLED_TEXT, "Names that it applies to, with wildcards.", required=True)
ANY_CLASS = honoured("class-name", kinds.FILLED_TEXT, "A Java class.", required=True)

FILTER = filter_block("filter", "Messages that do not match stay out of the queue.")

QUEUE_ATTRIBUTES: tuple[Item, ...] = (
    NAME,
    honoured("max-consumers", kinds.integer(0, kinds.INT_MAX, -1), "Most consumers; -1 no limit."),
    flag("purge-on-no-consumers", "Remove all messages when the last consumer leaves; false unless set."),
    flag("exclusive", "One consumer gets everything."),
    flag("group-rebalance", "Groups are dealt out anew for a new consumer."),
    flag("group-rebalance-pause-dispatch", "Delivery pauses until no message is in delivery."),
    honoured("group-buckets", kinds.integer(-1, kinds.INT_MAX), "Groups are put into so many; 0: no groups, -1: each for itself."),
    honoured("group-first-key", kinds.OPTIONAL_TEXT, "Property that is true in the first message of a group for its consumer."),
    flag("last-value", "Keep only the newest message of each key."),
    honoured("last-value-key", kinds.OPTIONAL_TEXT, "Property that is the key, and last-value; `_AMQ_LVQ_NAME` unless set."),
    flag("non-destructive", "Messages stay in the queue when they are consumed."),
    honoured("consumers-before-dispatch", kinds.integer(0, kinds.INT_MAX), "Consumers that must be there before delivery begins."),
    honoured("delay-before-dispatch", kinds.LONG_OR_NONE, "Or how long after the first one, ms; -1 only the number counts."),
    honoured("ring-size", kinds.LONG_OR_NONE, "Most messages that wait in the queue; older ones give way. -1 no limit."),
    flag("enabled", "false: nothing is routed to the queue."),
)

QUEUE = Block(
    "queue",
    "A queue of the address.",
    attributes=QUEUE_ATTRIBUTES,
    children=(
        FILTER,
        flag("durable", "The queue and its messages survive a restart."),
        honoured("user", kinds.FILLED_TEXT, "Owner, for resource limits."),
    ),
    repeated=True,
    only_beans=(honoured("routing-type", kinds.ROUTING_TYPE, "How messages come to it."), honoured("address", kinds.TEXT, "Its address.")),
)

ADDRESSES = Block(
    "addresses",
    "Addresses and queues that are there from the start.",
    children=(
        Block(
            "address",
            "One address; it needs anycast, multicast or both.",
            attributes=(NAME,),
            children=(
                Block("anycast", "One queue gets each message.", children=(QUEUE,)),
                Block("multicast", "Every queue gets each message.", children=(QUEUE,)),
            ),
            repeated=True,
        ),
    ),
)

OLD_QUEUES = Block(
    "queues",
    "Queues as Artemis 1.x wrote them; always multicast.",
    children=(
        Block(
            "queue",
            "One queue.",
            attributes=tuple(item for item in QUEUE_ATTRIBUTES if item.name not in ("ring-size", "enabled")),
            children=(honoured("address", kinds.FILLED_TEXT, "Its address."), *QUEUE.children),
            repeated=True,
        ),
    ),
    instead="addresses",
)

SECURITY_SETTINGS = Block(
    "security-settings",
    "Who may do what. Only the most specific match counts.",
    children=(
        Block(
            "security-setting",
            "The permissions on some addresses.",
            attributes=(MATCH,),
            children=(
                Block(
                    "permission",
                    "Who has one permission.",
                    attributes=(
                        Item("type", kinds.FILLED_TEXT, f"One of {', '.join(PERMISSIONS)}.", required=True),
                        honoured("roles", kinds.NAMES, "Roles, with commas between.", required=True),
                    ),
                    repeated=True,
                ),
            ),
            repeated=True,
        ),
        Block(
            "role-mapping",
            "A role of the user directory stands for roles of this file.",
            attributes=(
                honoured("from", kinds.FILLED_TEXT, "Role of the directory.", required=True),
                honoured("to", kinds.NAMES, "Roles, with commas between.", required=True),
            ),
            repeated=True,
        ),
        refused_block(
            "security-setting-plugin",
            "Permissions from a Java class.",
            "Java classes cannot be loaded: without it nobody, or anybody, would be allowed",
            "@class-name setting @name @value",
        ),
    ),
)

ADDRESS_SETTINGS = Block(
    "address-settings",
    "How addresses behave. All matches are merged, the most specific first.",
    children=(Block("address-setting", "Settings of some addresses.", attributes=(MATCH,), children=ADDRESS_SETTING, repeated=True),),
)

RESOURCE_LIMITS = Block(
    "resource-limit-settings",
    "What one user may have.",
    children=(
        Block(
            "resource-limit-setting",
            "The limits of one user.",
            attributes=(honoured("match", kinds.FILLED_TEXT, "The user's name; no wildcards.", required=True),),
            children=(
                honoured("max-connections", kinds.COUNT_OR_NONE, "Most sessions (in spite of the name, as in Artemis); -1 no limit."),
                warned("max-sessions", kinds.INT, "No limit.", "Artemis ignores it too; write max-connections", (-1,)),
                honoured("max-queues", kinds.COUNT_OR_NONE, "Most queues; -1 no limit."),
            ),
            repeated=True,
        ),
    ),
)

WILDCARDS = Block(
    "wildcard-addresses",
    "Characters of wildcards.",
    children=(
        honoured("routing-enabled", kinds.BOOLEAN, "false: a queue's address is never a pattern."),
        honoured("enabled", kinds.BOOLEAN, "Old name of routing-enabled.", instead="routing-enabled", field="routing_enabled"),
        honoured("delimiter", kinds.characters(1), "Between words."),
        honoured("any-words", kinds.characters(1), "Any number of words."),
        honoured("single-word", kinds.characters(1), "One word."),
    ),
)

METRICS_PLUGIN = Block(
    "plugin",
    "How metrics are shown. The Prometheus plugin is built in; its properties host and port say where.",
    attributes=(ANY_CLASS,),
    children=(PROPERTY,),
)

METRICS = Block(
    "metrics",
    "Which metrics are collected.",
    children=(
        quiet("jvm-memory", kinds.BOOLEAN, "Memory of the Java virtual machine.", NO_JVM),
        warned("jvm-threads", kinds.BOOLEAN, "Its threads.", NO_JVM),
        warned("jvm-gc", kinds.BOOLEAN, "Its garbage collection.", NO_JVM),
        warned("netty-pool", kinds.BOOLEAN, "A Java thread pool.", NO_JVM),
        warned("file-descriptors", kinds.BOOLEAN, "Open files.", "this group is not collected"),
        warned("processor", kinds.BOOLEAN, "Processor load.", "this group is not collected"),
        warned("uptime", kinds.BOOLEAN, "Time since the start.", "this group is not collected"),
        warned("logging", kinds.BOOLEAN, "Log lines by level.", "this group is not collected"),
        warned("security-caches", kinds.BOOLEAN, "Remembered logins and permissions.", "this group is not collected"),
        warned("executor-services", kinds.BOOLEAN, "Java thread pools.", NO_JVM),
        METRICS_PLUGIN,
    ),
)

BROKER_PLUGINS = Block(
    "broker-plugins",
    "Java classes that are told of, or change, what happens.",
    children=(
        Block(
            "broker-plugin",
            "One class. Those that only write to the log are ignored with a warning; any other is refused.",
            attributes=(ANY_CLASS,),
            children=(PROPERTY,),
            repeated=True,
            support=Support.IGNORED,
            reason="Java classes cannot be loaded",
        ),
    ),
)

OTHER_TABLES = ("bindings", "large-message", "page-store", "node-manager-store")
OWN_TABLES = "the tables of mqbroker have names of their own; message-table-name tells brokers apart"


DATA_SOURCE_PROPERTIES = Block(
    "data-source-properties",
    "Another way to write three elements.",
    children=(
        Block(
            "data-source-property",
            "`url`, `username` and `password` stand for jdbc-connection-url, jdbc-user, jdbc-password; others are warned of.",
            attributes=PROPERTY.attributes,
            repeated=True,
        ),
    ),
)
DATA_SOURCE = {"url": ("url", "jdbc-connection-url"), "username": ("user", "jdbc-user"), "password": ("password", "jdbc-password")}
"""The properties of a data source that count: the field, and the element that means the same."""


STORE = Block(
    "store",
    "Where messages are kept.",
    children=(
        Block("file-store", "In files; the default."),
        Block(
            "database-store",
            "In a database: `jdbc:sqlite:FILE` on this machine, or `jdbc:postgresql://HOST:PORT/DATABASE`.",
            children=(
                honoured("jdbc-connection-url", kinds.OPTIONAL_TEXT, "Which database.", required=True, field="url"),
                honoured("jdbc-user", kinds.FILLED_TEXT, "Its user, which may be masked; not with SQLite.", field="user"),
                honoured("jdbc-password", kinds.FILLED_TEXT, "The user's password, which may be masked.", field="password"),
                honoured(
                    "jdbc-network-timeout", kinds.integer(1, kinds.INT_MAX), "How long a statement may take, ms.", field="network_timeout"
                ),
                quiet("jdbc-driver-class-name", kinds.TEXT, "A Java class.", "the URL says which database it is"),
                honoured(
                    "message-table-name",
                    kinds.OPTIONAL_TEXT,
                    "Brokers that give different names have data, and locks, of their own in one database, in the same tables of mqbroker.",
                    field="message_table",
                ),
                *(quiet(f"{name}-table-name", kinds.TEXT, "A table of Artemis.", OWN_TABLES) for name in OTHER_TABLES),
                honoured(
                    "jdbc-lock-expiration",
                    kinds.integer(1),
                    "Of a pair: how long after its last renewal the lock of the active broker is free, ms. Default 20000.",
                    field="lock_expiration",
                ),
                honoured(
                    "jdbc-lock-renew-period",
                    kinds.integer(1),
                    "Of a pair: how often the active broker renews its lock, ms; less than `jdbc-lock-expiration`. Default 4000.",
                    field="lock_renew_period",
                ),
                honoured(
                    "jdbc-allowed-time-diff",
                    kinds.integer(0),
                    "Of a pair: the start warns when the clocks of machine and database differ by more, ms. Default 250.",
                    field="allowed_time_diff",
                ),
                quiet("jdbc-journal-sync-period", kinds.LONG, "Gathers writes.", "what gathers while a transaction runs is the next one"),
                quiet("jdbc-max-page-size-bytes", kinds.TEXT, "Limits pages.", "pages are read message by message"),
                warned("data-source-class-name", kinds.TEXT, "A Java data source.", "Java classes cannot be loaded", ()),
                DATA_SOURCE_PROPERTIES,
                warned(
                    "jdbc-lock-acquisition-timeout",
                    kinds.LONG,
                    "How long a broker of a pair waits, ms.",
                    "write journal-lock-acquisition-timeout, beside store",
                    (-1,),
                ),
            ),
        ),
    ),
)


def _transport(outer: str, inner: str, description: str) -> Block:
    uri = Block(inner, description, attributes=(honoured("name", kinds.FILLED_TEXT, "Name."),), repeated=True, text=kinds.FILLED_TEXT)
    return Block(outer, description, children=(uri,))


def _interceptors(name: str, description: str) -> Block:
    inner = Block("class-name", "A Java class.", repeated=True, text=kinds.TEXT, support=Support.REFUSED, reason=NO_JAVA)
    return Block(name, description, children=(inner,))


TRANSPORTS = (
    _transport("acceptors", "acceptor", "Where the broker listens."),
    _transport("connectors", "connector", "How other brokers, or clients, reach a broker."),
)

CORE_GROUPS: tuple[tuple[str, tuple[Item, ...]], ...] = (
    ("Broker", BROKER),
    ("Security", SECURITY),
    ("Management", MANAGEMENT),
    ("Connections, threads and other protocols", CONNECTIONS),
    ("Messages", MESSAGES),
    ("Storage", STORAGE),
    ("Limits", LIMITS),
    ("Watchdogs", WATCHDOGS),
)
"""The plain elements of ``core`` under headings."""

CORE_BLOCKS: tuple[Block, ...] = (
    *TRANSPORTS,
    SECURITY_SETTINGS,
    RESOURCE_LIMITS,
    ADDRESS_SETTINGS,
    ADDRESSES,
    OLD_QUEUES,
    WILDCARDS,
    METRICS,
    Block(
        "metrics-plugin",
        "Old form of metrics/plugin; without effect beside metrics.",
        attributes=(ANY_CLASS,),
        children=(PROPERTY,),
        instead="metrics",
    ),
    STORE,
    RETENTION,
    BROKER_PLUGINS,
    _interceptors("remoting-incoming-interceptors", "Java classes that see every packet that comes in."),
    _interceptors("remoting-outgoing-interceptors", "Java classes that see every packet that goes out."),
    *CLUSTER_BLOCKS,
    *REFUSED,
)

CORE = Block("core", "The broker.", children=(*(item for _, items in CORE_GROUPS for item in items), *CORE_BLOCKS))

JMS = Block(
    "jms",
    "Queues and topics as Artemis 1.x wrote them.",
    children=(
        Block(
            "queue",
            "An address with an anycast queue of that name.",
            attributes=(NAME,),
            children=(
                filter_block("selector", "The filter."),
                flag("durable", "The queue and its messages survive a restart."),
            ),
            repeated=True,
        ),
        Block("topic", "A multicast address.", attributes=(NAME,), repeated=True),
        quiet("jmx-domain", kinds.TEXT, "First part of JMX names.", NO_JMX),
    ),
    instead="addresses",
)

HINTS = {
    "backup": "this moved into ha-policy",
    "shared-store": "this moved into ha-policy",
    "failover-on-shutdown": "this moved into ha-policy",
    "allow-failback": "this moved into ha-policy",
    "failback-delay": "this moved into ha-policy",
    "check-for-live-server": "this moved into ha-policy",
    "clustered": "it is no longer needed: cluster-connections make a cluster",
    "remoting-interceptors": "it is called remoting-incoming-interceptors now",
    "journal-max-attic-files": "Artemis does not accept it in this file either",
    "live-connector-ref": "this moved into ha-policy",
}
"""Hints for elements of ``core`` that older versions had."""
