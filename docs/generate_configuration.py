"""Writes ``docs/configuration.md`` and ``docs/imq-properties.md`` from the tables by which the files are read.

``python docs/generate_configuration.py``
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mqbroker.config.imq.table import GROUPS, ImqProperty
from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.config.model.blocks import CORE_BLOCKS, CORE_GROUPS, HINTS, JMS, OLD_PERMISSIONS
from mqbroker.config.model.cluster import (
    BridgeConfiguration,
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    DiscoveryGroupConfiguration,
    DivertConfiguration,
    GroupingHandlerConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.model.configuration import Configuration, MetricsConfiguration, QueueConfiguration, ResourceLimit
from mqbroker.config.model.matching import Wildcards
from mqbroker.config.model.transport_elements import ACCEPTOR, CONNECTOR
from mqbroker.config.schema.model import Block, Item, Support
from mqbroker.config.schema.values import ROUTING_TYPE, ROUTING_TYPES
from mqclient.protocol.discovery import JGroupsEndpoint

PAGE = Path(__file__).with_name("configuration.md")
IMQ_PAGE = Path(__file__).with_name("imq-properties.md")

IMQ_INTRODUCTION = """# Properties of Open Message Queue

Every property that an instance of [home brokers](imq.md) may have, with OpenMQ's default, and what this broker does with it. A `*` stands
for any text.

* **honoured**: it does what OpenMQ's guide says;
* **ignored**: it is accepted and has no effect, for the reason given; where a value asks for something that therefore does not happen, the
  log says so at the start;
* **refused**: the start stops.

A name that is not here stops the start, and the message names the nearest one. *Shared* properties have to be the same on all brokers of a
cluster, so they belong into the cluster file. Some are compared when a link comes up: `imq.autocreate.queue`, `imq.autocreate.topic`,
`imq.cluster.clusterid`, `imq.cluster.nomasterbroker`, with a master `imq.cluster.nowaitForMasterBroker` and
`imq.cluster.dynamicChangeMasterBrokerEnabled`, and in an enhanced cluster `imq.cluster.ha`, `imq.cluster.monitor.interval` and
`imq.service.activelist`. The page is made from the table by which the files are read
(`python docs/generate_configuration.py`).

In the names of a database `*` is `postgresql` or `sqlite`, the one that `dbVendor` names. Without `dbVendor` the names without a vendor
count, and the URL tells which database it is.
"""

INTRODUCTION = """# Configuration

mqbroker reads the `broker.xml` of Apache ActiveMQ Artemis. This page lists every element, and what the broker does with it:

* **honoured**: it does what the Artemis manual says;
* **ignored**: it is accepted and has no effect, for the reason given. A file that asks for something which therefore does not happen
  causes one warning at start;
* **refused**: the start stops, because without it other messages would go to other consumers, or less would survive.

Names with `@` are attributes. The page is made from the table by which the file is read (`python docs/generate_configuration.py`).

## How the file is read

* The root is `<configuration xmlns="urn:activemq">`; the settings are in `<core xmlns="urn:activemq:core">`, in any order.
  Most elements may be there once.
* A misspelt element or attribute, a bad value or an element that is there twice stops the start. All of them are reported at once,
  with file and line, what was expected, and the nearest valid name. `mqbroker check config FILE` does the same without starting.
* `${name}` and `${name:default}` are replaced in every text and attribute, first by system properties (`-Dname=value`), then by
  environment variables. What has neither value nor default becomes empty, with a warning. A value is put in as text: it never becomes an
  element.
* `xi:include href="…"` takes in another XML file, which must lie in the folder of `broker.xml` or below it. A document type is not allowed.
* Booleans are `true` or `false`. Sizes in bytes may end in `K`, `M` or `G` (also `KB`, `KiB` and so on): powers of 1024.
  Times are milliseconds unless the table says otherwise.
* Passwords may be masked: `ENC(…)` as `mqbroker mask` or `artemis mask` prints it. The key is that of `password-codec`
  (`org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec;key=…`), else of the system property
  `artemis.default.sensitive.string.codec.key`, else of the environment variable `ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY`.

### Overriding the file

System properties that begin with `brokerconfig.` and the file `etc/broker.properties` of an instance override the XML, the properties
file first. Names are those of the elements in the spelling of Java beans: `globalMaxSize`,
`addressSettings."orders.#".maxDeliveryAttempts`, `addressConfigurations.orders.routingTypes`,
`addressConfigurations.orders.queueConfigs.orders.routingType`, `securityRoles."#".amq.send`,
`acceptorConfigurations.artemis.params.port`, `connectorConfigurations.…`, `resourceLimitSettings.user.maxConnections`,
`clusterConfigurations.name.connectorName`, `bridgeConfigurations.name.queueName`, `bridgeConfigurations.name.staticConnectors=a,b`,
`divertConfigurations.name.forwardingAddress`, `divertConfigurations.name.transformerConfiguration.className`,
`broadcastGroupConfigurations.name.groupAddress`, `discoveryGroupConfigurations.name.groupAddress`,
`groupingHandlerConfiguration.type`, `HAPolicyConfiguration=PRIMARY_ONLY` (or `SHARED_STORE_PRIMARY`, `SHARED_STORE_BACKUP`,
`REPLICATION_PRIMARY_QUORUM_VOTING`, `REPLICATION_BACKUP_QUORUM_VOTING`, `REPLICATION_PRIMARY_LOCK_MANAGER`,
`REPLICATION_BACKUP_LOCK_MANAGER`, `COLOCATED`), `HAPolicyConfiguration.failoverOnServerShutdown`,
`HAPolicyConfiguration.scaleDownConfiguration.groupName`; with `COLOCATED`
`HAPolicyConfiguration.primaryConfig=SHARED_STORE_PRIMARY` and `backupConfig=SHARED_STORE_BACKUP` (replication unless named),
`HAPolicyConfiguration.primaryConfig.groupName`.
A part that holds dots is put in quotes. The value `-` takes away what the key names.

### Relative paths

Relative folders and key stores start at the instance folder, or else at the folder in which the broker is started.
"""

ACCEPTORS = """## Acceptors and connectors

`tcp://host:port?name=value;name=value`. The host of an acceptor may be a list with commas between; `0.0.0.0` listens everywhere.
`;` and `&` (`&amp;` in XML) are the same. Values are form-encoded: write `+` as `%2B`. An acceptor whose `protocols` leave out CORE is
not opened. Parameters that nobody knows have no effect and cause a warning with the nearest known name; those of other protocols
(`amqp…`, `stomp…`, `mqtt…`, …) are passed over.
"""

CLUSTERS = """## Brokers that know each other

Broadcast and discovery groups, cluster connections, bridges, diverts, the grouping handler and scale-down are checked against each
other. A start is refused when a group mixes elements of UDP and JGroups, lacks one that it needs, or has an address outside 224.0.0.1
to 239.255.255.255; when a local-bind-port stands without its local-bind-address; for a name that is there twice; and for a connector
or a discovery group that does not exist. A line in the log, and in `mqbroker check config`, tells of:

* AMQ222007: a cluster connection with the default cluster user and password;
* cluster connections whose addresses overlap: such messages go to both clusters;
* an address of a cluster connection with wildcards, which mean nothing there, or with a part that another one excludes;
* a cluster connection whose `connector-ref` does not exist: it is left out;
* a broadcast group without a connector: it is left out;
* static connectors beside a discovery group: the static ones hold;
* an acceptor whose `clusterConnection` does not exist.
"""

DIFFERENCES = """## Where mqbroker is stricter or different

* `1` and `0` are not accepted as booleans (Artemis reads `1` as false).
* In the match of an address-setting or security-setting only the wildcard characters are special. Artemis leaves other characters of
  regular expressions active.
* An unknown permission type stops the start (Artemis warns and ignores it), and so does an unknown name among the overriding properties.
* A second queue with the name of one on another address is left out with a warning, as in Artemis.
* In the URL of an acceptor or connector only known parameters may stand without a value; their defaults hold.
* An unknown connector of a broadcast group, of a bridge or among `static-connectors` stops the start (Artemis logs it and goes on without
  it). An unknown `connector-ref` of a cluster connection is a warning, and the cluster connection is left out, as in Artemis.
* A divert without address and a bridge without queue or target stop the start.
* `global-max-size`, when unset, is the smaller of 1 GiB and a quarter of the memory that is available.
"""

NOWHERE = JGroupsEndpoint("", "")

DEFAULTS: dict[str, object] = {
    "address-setting": AddressSettings(),
    "queue": QueueConfiguration("", purge_on_no_consumers=False, ring_size=-1),
    "resource-limit-setting": ResourceLimit(),
    "wildcard-addresses": Wildcards(),
    "metrics": MetricsConfiguration(),
    "broadcast-group": BroadcastGroupConfiguration("", NOWHERE),
    "discovery-group": DiscoveryGroupConfiguration("", NOWHERE),
    "cluster-connection": ClusterConnectionConfiguration("", ""),
    "divert": DivertConfiguration("", "", ()),
    "bridge": BridgeConfiguration("", ""),
    "grouping-handler": GroupingHandlerConfiguration("", local=True),
    "scale-down": ScaleDownConfiguration(),
    "shared-store/primary": SharedStoreConfiguration(backup=False),
    "shared-store/backup": SharedStoreConfiguration(backup=True),
    "shared-store/master": SharedStoreConfiguration(backup=False),
    "shared-store/slave": SharedStoreConfiguration(backup=True),
    "replication/primary": ReplicationConfiguration(backup=False),
    "replication/backup": ReplicationConfiguration(backup=True),
    "replication/master": ReplicationConfiguration(backup=False),
    "replication/slave": ReplicationConfiguration(backup=True),
}
"""By block, or by the one around it and its own name: where its defaults are."""

INHERITED = {"queue": "as the address settings"}

TABLE_HEAD = "| Name | Value | Default | Broker | Meaning |\n|---|---|---|---|---|"


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    defaults = Configuration()
    parts.append("## Elements of core\n")
    for title, items in CORE_GROUPS:
        parts.append(f"### {title}\n")
        parts.append(_table(items, defaults) + "\n")
    parts.append(ACCEPTORS)
    parts.append("### Parameters of acceptors\n\n" + _table(ACCEPTOR, None) + "\n")
    parts.append("### Parameters of connectors\n\n" + _table(CONNECTOR, None) + "\n")
    parts.append("## Blocks of core\n")
    parts += [_block(block, f"### {block.name}") for block in CORE_BLOCKS]
    parts.append("## The section jms\n")
    parts.append(_block(JMS, ""))
    parts.append("## Elements and names of older versions\n")
    parts += [f"* `{name}`: {text}." for name, text in HINTS.items()]
    parts += [f"* The permission `{old}` is called `{new}` now." for old, new in OLD_PERMISSIONS.items()]
    parts.append("* In `ha-policy`, `master`, `slave` and `live-only` are called `primary`, `backup` and `primary-only` now.")
    parts.append("* `connector-ref` may name its connector in the attribute `connector-name` or `connector-ref` instead of its text.\n")
    parts.append(CLUSTERS)
    parts.append(DIFFERENCES)
    return "\n".join(parts)


def _block(block: Block, heading: str) -> str:
    lines = [heading, ""] if heading else []
    lines += [block.description, ""]
    if block.instead:
        lines += [f"An old element: write `{block.instead}`.", ""]
    if block.support is not Support.HONOURED:
        lines += [f"**{block.support.value}**: {block.reason}.", ""]
    if block.harmless:
        lines += [f"Accepted while empty: {_names(block.harmless)}.", ""]
    if block.inside:
        lines += [f"Everything in it: {_names(block.inside)}.", ""]
    lines += _inside(block, block.name)
    return "\n".join(lines)


def _inside(block: Block, path: str) -> list[str]:
    lines: list[str] = []
    items = list(block.items())
    if items:
        attributes = {item.name for item in block.attributes}
        lines += [f"In `{path}`:", ""]
        defaults = DEFAULTS.get(block.name) or DEFAULTS.get("/".join(path.split("/")[-2:]))
        lines += [_table(items, defaults, attributes, INHERITED.get(block.name, "")), ""]
    for child in block.children:
        if isinstance(child, Block):
            inner = f"{path}/{child.name}"
            note = f" **{child.support.value}**: {child.reason}." if child.support is not Support.HONOURED else ""
            content = f" Everything in it: {_names(child.inside)}." if child.inside else ""
            lines += [f"`{inner}`: {child.description}{note}{content}", ""]
            lines += _inside(child, inner)
    return lines


def _table(items: Iterable[Item], defaults: object, attributes: Iterable[str] = (), inherited: str = "") -> str:
    marked = set(attributes)
    rows = [_row(item, defaults, f"@{item.name}" if item.name in marked else item.name, inherited) for item in items]
    return "\n".join([TABLE_HEAD, *rows])


def _row(item: Item, defaults: object, name: str, inherited: str) -> str:
    default = "required" if item.required else _default(item, defaults, inherited)
    meaning = item.description
    if item.instead and item.instead not in meaning:
        meaning += f" Old name of `{item.instead}`."
    cells = [f"`{name}`", item.kind.expected, default, _support(item), meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(item: Item, defaults: object, inherited: str) -> str:
    if defaults is None or not hasattr(defaults, item.target):
        return ""
    value = getattr(defaults, item.target)
    if value is None:
        return inherited
    if item.kind is ROUTING_TYPE:
        value = next(name for name, number in ROUTING_TYPES.items() if number == value)
    shown = item.kind.show(value)
    return f"`{shown}`" if shown else ""


def _support(item: Item) -> str:
    if item.support is Support.HONOURED:
        return "honoured"
    if item.unless and item.support is Support.REFUSED:
        fine = ", ".join(f"`{item.kind.show(value)}`" if item.kind.show(value) else "empty" for value in item.unless)
        return f"**refused** unless {fine}: {item.reason}"
    return f"**{item.support.value}**: {item.reason}" if item.support is Support.REFUSED else f"ignored: {item.reason}"


def render_imq() -> str:
    """The page about the properties of Open Message Queue."""
    parts = [IMQ_INTRODUCTION]
    for title, entries in GROUPS:
        rows = "\n".join(map(_imq_row, entries))
        parts.append(f"## {title}\n\n| Name | Value | Default | Shared | Broker | Meaning |\n|---|---|---|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _imq_row(entry: ImqProperty) -> str:
    item = entry.item
    meaning = item.description + (" Changed by `update bkr`." if entry.updated else "")
    default = f"`{entry.default}`" if entry.default else ""
    cells = [f"`{entry.name}`", item.kind.expected, default, "yes" if entry.shared else "", _support(item), meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    IMQ_PAGE.write_text(render_imq(), encoding="utf-8")
