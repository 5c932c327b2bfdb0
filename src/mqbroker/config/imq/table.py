"""Every property of OpenMQ that an instance may have, and what this broker does with it.

A ``*`` in a name stands for any text.  Defaults are those of OpenMQ's code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Item, Support, honoured, quiet, refused, warned
from mqbroker.config.schema.values import Kind

CLUSTER_URL = "imq.cluster.url"

_SECONDS = kinds.integer(1, kinds.INT_MAX)
_PORT = kinds.integer(0, 65535)
_COUNT = kinds.integer(0, kinds.INT_MAX, -1)
_SIZE = kinds.byte_size(0, -1)

STORE_DATABASE = "imq.persist.jdbc"
RECORD_DATABASE = "imq.cluster.sharecc.persist.jdbc"
"""The beginnings of the properties of a database: that of the own store, and that of the change record of peers."""

NO_DATAGRAMS = "heartbeats are the pings of the links, which need no address of their own"
OWN_DRIVER = "the broker has the drivers of PostgreSQL and SQLite"
OWN_TABLES = "the broker makes its own tables, in a database that is there; a file of SQLite is made"
OWN_CONNECTIONS = "each thread that works with the database has one connection"
NO_PORT_MAPPER = "there is no port mapper: clients and links use its port for everything"
ONE_LOOP = "the event loop of this broker has no such setting"
OWN_STORE = "the journal of the instance's broker.xml is used, which is always synchronised"
OWN_USERS = "users, roles and permissions are those of login.config and broker.xml of the instance"
OWN_LOG = "the log of this broker is that of the process"
OWN_METRICS = "metrics are those of broker.xml"
PAGES = "the broker pages messages to its disk instead of refusing them; see global-max-size in broker.xml"
PREPARED = "prepared branches wait for their manager, as transaction-timeout of broker.xml says"
NOT_SPOKEN = "its protocol is not spoken"
NOT_KEPT = "they are not kept at all"
NO_SHARES = "a shared subscription takes any number of consumers, and gives to each what it takes"
NO_JMX = "there is no JMX: management is by CORE, as the commands use it"
INSIDE = "it is about the inside of another program"


@dataclass(frozen=True, slots=True)
class ImqProperty:
    """One property: ``shared`` ones are to be the same on all brokers.  ``updated``: ``update bkr`` may change it."""

    item: Item
    default: str = ""
    shared: bool = False
    updated: bool = False

    @property
    def name(self) -> str:
        return self.item.name


def _each(item: Item, default: str = "", *, updated: bool = False) -> ImqProperty:
    return ImqProperty(item, default, updated=updated)


def _shared(item: Item, default: str = "", *, updated: bool = False) -> ImqProperty:
    return ImqProperty(item, default, shared=True, updated=updated)


def _family(name: str, meaning: str, reason: str) -> ImqProperty:
    return ImqProperty(quiet(name, kinds.TEXT, meaning, reason))


def _database(begin: str, make: Callable[..., ImqProperty], *vendors: str) -> Sequence[ImqProperty]:
    """The properties of one database; those of a vendor have its name between ``begin`` and their own, old ones have nothing there."""

    def each(name: str, meaning: str, kind: Kind = kinds.TEXT) -> list[ImqProperty]:
        return [make(honoured(f"{begin}.{vendor}{name}", kind, meaning)) for vendor in vendors]

    def without_effect(name: str, meaning: str, reason: str) -> list[ImqProperty]:
        return [_family(f"{begin}.{vendor}{name}", meaning, reason) for vendor in vendors]

    return (
        make(honoured(f"{begin}.dbVendor", kinds.TEXT, "The database: postgresql or sqlite. Others stop the start.")),
        *each("opendburl", "Its URL: jdbc:postgresql://HOST:PORT/DATABASE or jdbc:sqlite:FILE."),
        *each("user", "Its user."),
        *each("password", "The password of that; may be masked, or in the passfile."),
        *each("needpassword", "There has to be a password.", kinds.BOOLEAN),
        *each("property.url", "As opendburl."),
        *each("property.serverName", "Without a URL: the host of PostgreSQL; localhost unless set."),
        *each("property.portNumber", "Without a URL: its port; 5432 unless set."),
        *each("property.databaseName", "Without a URL: the database there."),
        *each("property.user", "As user."),
        *each("property.password", "As password."),
        *(
            make(warned(f"{begin}.{vendor}property.*", kinds.TEXT, "More for the driver.", "write it into the URL", ("",)))
            for vendor in vendors
        ),
        *without_effect("driver", "The driver.", OWN_DRIVER),
        *without_effect("createdburl", "URL that makes a database.", OWN_TABLES),
        *without_effect("closedburl", "URL that closes a database.", OWN_TABLES),
        *without_effect("tableoption", "Added to the making of tables.", OWN_TABLES),
        *without_effect("table.*", "Statements that make tables.", OWN_TABLES),
        *without_effect("connection.*", "Connections.", OWN_CONNECTIONS),
    )


CLUSTER: Sequence[ImqProperty] = (
    _shared(honoured(CLUSTER_URL, kinds.TEXT, "The central file, as a file: URL."), updated=True),
    _shared(honoured("imq.cluster.brokerlist", kinds.TEXT, "The members, host:port with commas between.")),
    _each(honoured("imq.cluster.brokerlist.manual", kinds.TEXT, "More members; `-cluster` sets it.")),
    _shared(honoured("imq.cluster.masterbroker", kinds.TEXT, "The member that keeps the change record, host:port.")),
    _shared(honoured("imq.cluster.dynamicChangeMasterBrokerEnabled", kinds.BOOLEAN, "The master may be changed at run time."), "false"),
    _shared(honoured("imq.cluster.nowaitForMasterBroker", kinds.BOOLEAN, "Serve clients before the record is here."), "false"),
    _each(honoured("imq.cluster.nowaitForMasterBrokerTimeoutInSeconds", _SECONDS, "How long what needs the record waits then, s."), "90"),
    _each(
        warned(
            "imq.cluster.masterbroker.enforce",
            kinds.BOOLEAN,
            "A master that is not there is an error.",
            "what needs the record is always refused without it",
            (True,),
        ),
        "true",
    ),
    _shared(honoured("imq.cluster.clusterid", kinds.TEXT, "Name of the cluster, which has to be the same on all brokers.")),
    _each(honoured("imq.cluster.hostname", kinds.TEXT, "Host at which other brokers reach this one; `imq.hostname` unless set.")),
    _each(warned("imq.cluster.port", _PORT, "Port of the service cluster.", NO_PORT_MAPPER, (0,))),
    _shared(
        honoured("imq.cluster.transport", kinds.choice("TCP", "SSL"), "ssl: links use TLS, and so does everybody on that port."), "tcp"
    ),
    _each(honoured("imq.cluster.*.nodelay", kinds.BOOLEAN, "Links send small packets at once.")),
    _each(quiet("imq.cluster.*.inbufsz", kinds.INT, "Size of a buffer.", ONE_LOOP)),
    _each(quiet("imq.cluster.*.outbufsz", kinds.INT, "Size of a buffer.", ONE_LOOP)),
    _each(honoured("imq.cluster.consumerFlowLimit", kinds.integer(1, kinds.INT_MAX), "Messages under way to a remote consumer."), "1000"),
    _each(honoured("imq.cluster.ping.interval", _SECONDS, "Between two pings of a link, s; twice as long without one ends it."), "60"),
    _each(honoured("imq.cluster.locktimeout", _SECONDS, "How long a reserved name waits for other brokers, s."), "60"),
    _each(honoured("imq.cluster.waitReplyTimeout", _SECONDS, "How long a request waits for another broker, s."), "180"),
    _each(warned("imq.cluster.acktimeout", _SECONDS, "A time limit, s.", "an acknowledgement waits as long as the link is there", (180,))),
    _each(honoured("imq.cluster.changeMasterBrokerWaitTimeout", _SECONDS, "How long a change of the master waits for changes, s."), "180"),
    _each(
        honoured("imq.cluster.pendingTransactionCheckInterval", _SECONDS, "Between two questions about an undecided transaction, s."),
        "180",
    ),
    _each(
        honoured("imq.reconnect.interval", kinds.integer(1, kinds.INT_MAX), "Reconnect intervals that temporary destinations wait."), "5"
    ),
    _each(quiet("imq.cluster.waitInfoReplyTimeout", _SECONDS, "A time limit, s.", "there are no such requests")),
    _each(quiet("imq.cluster.waitConnectionInitTimeout", _SECONDS, "A time limit, s.", "a start waits for nobody but the master's record")),
    _each(warned("imq.cluster.shutdownTimeout", _SECONDS, "A time limit, s.", "a stop waits at most 10 s for other brokers", (30,))),
    _each(
        warned(
            "imq.cluster.enforceRemoteDestinationLimit",
            kinds.BOOLEAN,
            "Count messages of other brokers.",
            "limits hold for the messages that a broker keeps",
        )
    ),
    _family("imq.cluster.prefetch.*", "How far ahead a broker asks.", "a remote consumer's window follows what local consumers take"),
    _shared(honoured("imq.cluster.ha", kinds.BOOLEAN, "An enhanced cluster: another broker takes over one that has failed."), "false"),
    _shared(honoured("imq.cluster.nomasterbroker", kinds.BOOLEAN, "A cluster of peers: the change record is in a database."), "false"),
    _shared(honoured("imq.cluster.sharecc.persist", kinds.choice("JDBC"), "Where the record of peers is."), "jdbc"),
    _shared(honoured("imq.cluster.sharecc.persistCreate", kinds.BOOLEAN, "Make the table of the record where there is none."), "true"),
    _each(honoured(f"{RECORD_DATABASE}.connection.retry.max", _COUNT, "How often a start looks for the database; -1 for ever."), "60"),
    _each(honoured(f"{RECORD_DATABASE}.connection.retry.delay", kinds.POSITIVE, "Between two such attempts, ms."), "5000"),
    *_database(RECORD_DATABASE, _shared, "*.", ""),
    _each(honoured("imq.brokerid", kinds.TEXT, "Name of the broker in a database, which no other one has.")),
    _each(
        honoured("imq.cluster.ha.takeoverWaitTimeout", kinds.INT, "How long a start waits while it is taken over, s; below 0 for ever."),
        "300",
    ),
    _each(honoured("imq.cluster.heartbeat.interval", _SECONDS, "Between two pings of a link in an enhanced cluster, s."), "5"),
    _each(
        honoured(
            "imq.cluster.heartbeat.threshold",
            kinds.integer(1, kinds.INT_MAX),
            "So many without an answer make a suspect; after so many attempts (30 unless set) a broker without its database gives up.",
        ),
        "3",
    ),
    _each(quiet("imq.cluster.heartbeat.hostname", kinds.TEXT, "Address of datagrams.", NO_DATAGRAMS)),
    _each(quiet("imq.cluster.heartbeat.port", _PORT, "Port of datagrams.", NO_DATAGRAMS)),
    _family("imq.cluster.heartbeat.*", "More about heartbeats.", NO_DATAGRAMS),
    _shared(honoured("imq.cluster.monitor.interval", _SECONDS, "Between two stamps of a broker in the database, s."), "30"),
    _each(
        honoured("imq.cluster.monitor.threshold", kinds.integer(1, kinds.INT_MAX), "A suspect that has left out so many is taken over."),
        "3",
    ),
    _family("imq.cluster.reaptime", "How long finished transactions are kept, s.", NOT_KEPT),
    _each(honoured("imq.cluster.takeover.delay.interval", kinds.NOT_NEGATIVE, "A pause before a takeover, s."), "0"),
    _family("imq.cluster.maxTakeoverSession*", "Sessions that are remembered.", "the database knows all of them"),
)
"""The properties of clusters."""

SERVICES: Sequence[ImqProperty] = (
    _each(honoured("imq.instancename", kinds.TEXT, "Name of the instance; `-name` sets it."), "imqbroker"),
    _each(honoured("imq.hostname", kinds.TEXT, "Host that the broker listens on; all unless set.")),
    _each(honoured("imq.portmapper.hostname", kinds.TEXT, "The same for the port mapper's port.")),
    _each(
        honoured("imq.portmapper.port", kinds.integer(1, 65535), "The port of clients and links; `-port` sets it."), "7676", updated=True
    ),
    _each(honoured("imq.portmapper.backlog", kinds.POSITIVE, "Connections that wait to be accepted."), "50"),
    _family("imq.portmapper.*", "More about the port mapper.", NO_PORT_MAPPER),
    _shared(honoured("imq.service.activelist", kinds.NAMES, "Services that run: jms, ssljms, admin, ssladmin."), "jms,admin"),
    _family("imq.service.list", "Services that there are.", "it follows from imq.service.activelist"),
    _each(honoured("imq.jms.tcp.port", _PORT, "A further port of the service jms; 0: the port mapper's only."), "0"),
    _each(honoured("imq.jms.hostname", kinds.TEXT, "The host of that port; as imq.hostname unless set.")),
    _each(honoured("imq.ssljms.tls.port", _PORT, "The port of the service ssljms; 0: the system chooses one."), "0"),
    _each(honoured("imq.ssljms.hostname", kinds.TEXT, "The host of that port; as imq.hostname unless set.")),
    _each(honoured("imq.ssladmin.tls.port", _PORT, "The port of the service ssladmin; 0: the system chooses one."), "0"),
    _each(honoured("imq.ssladmin.hostname", kinds.TEXT, "The host of that port; as imq.hostname unless set.")),
    _each(honoured("imq.keystore.file.dirpath", kinds.TEXT, "Folder of the key store, relative to etc; etc unless set.")),
    _each(honoured("imq.keystore.file.name", kinds.TEXT, "Key store of TLS: PKCS12, JKS or PEM."), "keystore"),
    _each(honoured("imq.keystore.password", kinds.TEXT, "Its password.")),
    _each(honoured("imq.passfile.enabled", kinds.BOOLEAN, "Passwords are in a file of their own."), "false"),
    _each(honoured("imq.passfile.dirpath", kinds.TEXT, "Folder of that file, relative to etc; etc unless set.")),
    _each(honoured("imq.passfile.name", kinds.TEXT, "Name of that file."), "passfile"),
    *(_family(f"imq.{name}.*", "More about the service.", ONE_LOOP) for name in ("jms", "ssljms", "admin", "ssladmin")),
    *(_family(f"imq.{name}.*", "More about the service.", NOT_SPOKEN) for name in ("httpjms", "httpsjms", "wsjms", "wssjms")),
    _family("imq.protocol.*", "Buffers.", ONE_LOOP),
    _family("imq.shared.*", "Threads.", ONE_LOOP),
    _each(refused("imq.bridge.enabled", kinds.BOOLEAN, "Bridges to other products.", "there are none; see core bridges")),
    _family("imq.bridge.*", "More about bridges.", "there are none"),
)

DESTINATIONS: Sequence[ImqProperty] = (
    _shared(honoured("imq.autocreate.queue", kinds.BOOLEAN, "Queues are created when they are first used."), "true", updated=True),
    _shared(honoured("imq.autocreate.topic", kinds.BOOLEAN, "Topics are created when they are first used."), "true", updated=True),
    _shared(
        honoured("imq.autocreate.reaptime", kinds.integer(0, kinds.INT_MAX), "They end so long after the last consumer and message, s."),
        "120",
    ),
    _shared(
        honoured("imq.autocreate.queue.maxNumActiveConsumers", kinds.integer(1, kinds.INT_MAX, -1), "Most consumers of such a queue."),
        "-1",
        updated=True,
    ),
    _shared(
        warned(
            "imq.autocreate.queue.maxNumBackupConsumers",
            kinds.integer(-1, kinds.INT_MAX),
            "More consumers that wait.",
            "queues have no backup consumers: further ones are refused",
            (0,),
        ),
        "0",
        updated=True,
    ),
    _shared(honoured("imq.autocreate.queue.localDeliveryPreferred", kinds.BOOLEAN, "Consumers of the queue's broker come first."), "false"),
    _shared(honoured("imq.autocreate.queue.consumerFlowLimit", kinds.integer(1, kinds.INT_MAX), "As consumerFlowLimit of a queue.")),
    _shared(honoured("imq.autocreate.topic.consumerFlowLimit", kinds.integer(1, kinds.INT_MAX), "As consumerFlowLimit of a topic.")),
    *(
        _shared(warned(f"imq.{how}create.topic.maxNumSharedConsumers", kinds.INT, "Most consumers of a subscription.", NO_SHARES, (-1,)))
        for how in ("auto", "admin")
    ),
    *(
        _shared(quiet(f"imq.{how}create.topic.sharedConsumerFlowLimit", kinds.INT, "As consumerFlowLimit, of shared ones.", NO_SHARES))
        for how in ("auto", "admin")
    ),
    _shared(honoured("imq.autocreate.destination.maxNumMsgs", _COUNT, "Most messages of such a destination; -1 no limit."), "-1"),
    _shared(honoured("imq.autocreate.destination.maxTotalMsgBytes", _SIZE, "Most bytes of it; -1 no limit."), "-1"),
    _shared(
        refused(
            "imq.autocreate.destination.maxNumProducers",
            kinds.integer(1, kinds.INT_MAX, -1),
            "Most producers; -1 no limit.",
            "a CORE client gets no answer when it makes a producer, and so cannot be refused one",
            (-1,),
        )
    ),
    _shared(
        refused(
            "imq.autocreate.destination.maxBytesPerMsg",
            _SIZE,
            "Most bytes of one message; -1 no limit.",
            "single messages are not limited",
            (-1,),
        )
    ),
    _shared(
        refused(
            "imq.autocreate.destination.isLocalOnly",
            kinds.BOOLEAN,
            "Not known to other brokers.",
            "other brokers would hear of it",
        )
    ),
    _shared(honoured("imq.autocreate.destination.limitBehavior", kinds.TEXT, "REJECT_NEWEST or FLOW_CONTROL."), "REJECT_NEWEST"),
    _shared(honoured("imq.autocreate.destination.useDMQ", kinds.BOOLEAN, "Dead messages go to mq.sys.dmq."), "true", updated=True),
    _each(honoured("imq.message.expiration.interval", kinds.NOT_NEGATIVE, "How often expired messages are looked for, s."), "60"),
    _each(
        warned("imq.message.max_size", kinds.TEXT, "Most bytes of one.", "large messages go to the disk: there is no limit", ("70m",)),
        updated=True,
    ),
    _each(warned("imq.system.max_count", _COUNT, "Most messages of a broker.", PAGES, (-1,)), "-1", updated=True),
    _each(warned("imq.system.max_size", _SIZE, "Most bytes of a broker.", PAGES, (-1,)), "-1", updated=True),
    _each(
        warned("imq.destination.logDeadMsgs", kinds.BOOLEAN, "Log dead messages.", "metrics and notifications show them"),
        "false",
        updated=True,
    ),
    _each(
        warned("imq.destination.DMQ.truncateBody", kinds.BOOLEAN, "Keep no body of dead messages.", "bodies are kept whole"),
        "false",
        updated=True,
    ),
    *(
        _each(warned(f"imq.destination.{name}DeliveredMessages", kinds.BOOLEAN, "Also those that a consumer has.", "they are its own"))
        for name in ("expire", "purge")
    ),
)

OTHERS: Sequence[ImqProperty] = (
    _each(honoured("imq.persist.store", kinds.choice("FILE", "JDBC"), "Where messages are: in files, or in a database."), "file"),
    *_database(STORE_DATABASE, _each, "*.", ""),
    _family("imq.persist.*", "More about the store.", OWN_STORE),
    *(
        _each(warned(name, kinds.TEXT, "Users and permissions.", OWN_USERS, unless))
        for name, unless in (
            ("imq.accesscontrol.enabled", ("true",)),
            ("imq.accesscontrol.type", ("file",)),
            ("imq.authentication.type", ("digest", "basic")),
        )
    ),
    _each(warned("imq.authentication.*.user_repository", kinds.TEXT, "Where users are.", OWN_USERS, ("file",))),
    _family("imq.accesscontrol.*", "Permissions.", OWN_USERS),
    _family("imq.authentication.*", "Logins.", OWN_USERS),
    _each(warned("imq.user_repository.ldap.*", kinds.TEXT, "Users in LDAP.", OWN_USERS, ())),
    _each(warned("imq.user_repository.jaas.*", kinds.TEXT, "Users of JAAS.", OWN_USERS, ())),
    _family("imq.user_repository.*", "Users.", OWN_USERS),
    _family("imq.imqcmd.password", "Password of the commands.", "the commands read it from their passfile"),
    *(
        _each(quiet(f"imq.log.{name}", kinds.TEXT, "The log.", OWN_LOG), updated=True)
        for name in ("level", "file.rolloverbytes", "file.rolloversecs")
    ),
    _family("imq.log.*", "The log.", OWN_LOG),
    _family("imq.broker.log.level", "The log.", OWN_LOG),
    _each(warned("imq.audit.enabled", kinds.BOOLEAN, "The audit log.", OWN_LOG)),
    _family("imq.broker.adminDefinedRoles.*", "Roles.", OWN_USERS),
    *(_each(warned(f"imq.jmx.rmiregistry.{name}", kinds.BOOLEAN, "A registry for JMX.", NO_JMX)) for name in ("start", "use")),
    _family("imq.jmx.*", "JMX.", NO_JMX),
    _family("imq.metrics.*", "Metrics.", OWN_METRICS),
    _each(warned("imq.transaction.autorollback", kinds.BOOLEAN, "Roll prepared branches back at the start.", PREPARED)),
    _family("imq.transaction.*", "Transactions.", PREPARED),
    _family("imq.txn.*", "How long finished transactions are kept.", NOT_KEPT),
    _family("imq.audit.*", "The audit log.", "it is the part mqbroker.audit of the log, and is always written"),
    _family("imq.memory.*", "Memory.", PAGES),
    _family("imq.*.threshold", "Memory.", PAGES),
    _family("imq.*.count", "Memory.", PAGES),
    *(
        _family(name, "Internals.", INSIDE)
        for name in ("imq.config.version", "imq.restart.code", "imq.packet.*", "imq.diag.*", "imq.fix.*", "imq.home", "imq.varhome")
    ),
    *(
        _family(name, "Internals.", INSIDE)
        for name in ("imq.etchome", "imq.libhome", "imq.instanceshome", "imq.keystore.*", "imq.primaryowner.*", "imq.ping.*")
    ),
    *(
        _family(name, "Internals.", INSIDE)
        for name in ("imq.instanceconfig.version", "imq.debug.*", "imq.cluster.debug.*", "imq.cluster.trust_all", "imq.service.activate")
    ),
    *(
        _family(name, "Internals.", INSIDE)
        for name in ("imq.memory_management.*", "imq.portunif.*", "imq.poodleFix.*", "imq.producer.*", "imq.selector.*")
    ),
    _family("imq.txnlog.*", "Internals.", INSIDE),
)

GROUPS: Sequence[tuple[str, Sequence[ImqProperty]]] = (
    ("Clusters", CLUSTER),
    ("Services", SERVICES),
    ("Destinations", DESTINATIONS),
    ("Others", OTHERS),
)

PROPERTIES: Sequence[ImqProperty] = tuple(each for _, group in GROUPS for each in group)

DEFAULTS = {each.name: each.default for each in PROPERTIES if each.default}

SHARED_NAMES = frozenset(each.name for each in PROPERTIES if each.shared)

UPDATED_NAMES = tuple(sorted(each.name for each in PROPERTIES if each.updated))
"""The properties that ``update bkr`` may change."""

KNOWN_NAMES = tuple(each.name for each in PROPERTIES if "*" not in each.name)

_EXACT = {each.name: each for each in PROPERTIES if "*" not in each.name}


def find_property(name: str) -> ImqProperty | None:
    """The entry of a property: one of that name, or else the first whose ``*`` fits."""
    found = _EXACT.get(name)
    return found or next((each for pattern, each in _patterns() if pattern.fullmatch(name)), None)


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], ImqProperty]]:
    return [(re.compile(re.escape(each.name).replace(r"\*", ".+")), each) for each in PROPERTIES if "*" in each.name]


def is_secret(name: str, value: str = "") -> bool:
    """Is the value not to be shown?  It is a password, or a URL that has one."""
    return "password" in name.lower() or "password=" in value.lower()


def accepted(entry: ImqProperty) -> bool:
    """Does the property change nothing?"""
    return entry.item.support is Support.IGNORED
