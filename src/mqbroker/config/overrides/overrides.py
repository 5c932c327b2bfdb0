"""Settings that override broker.xml: properties files, and system properties with a prefix (Artemis manual, "Broker properties").

A key is a path of names with dots between, in the spelling of Java beans: ``globalMaxSize``, ``addressSettings."a.b".maxDeliveryAttempts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mqbroker.config.broker_xml.bean_names import BeanReader, folded
from mqbroker.config.broker_xml.cluster_drafts import ClusterDrafts
from mqbroker.config.broker_xml.transports import TransportReader, Written
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration, ResourceLimit
from mqbroker.config.model.matching import HierarchicalRepository
from mqbroker.config.overrides.cluster_overrides import ClusterOverrides
from mqbroker.config.problems import Findings
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.address import ADDRESS_SETTING
from mqbroker.config.schema.blocks import CORE, OLD_PERMISSIONS, PERMISSIONS, QUEUE, RESOURCE_LIMITS
from mqbroker.config.schema.model import Block, Support, honoured
from mqbroker.config.schema.values import NAMES, ROUTING_TYPE, TEXT
from mqclient.urls import TransportUri, format_parameters

_REFUSED_FAMILIES = {
    "federationconfigurations": "federations",
    "amqpconnections": "broker-connections",
    "amqpconnection": "broker-connections",
    "connectionrouters": "connection-routers",
    "connectorserviceconfigurations": "connector-services",
}
"""First names of keys about things that are refused in broker.xml, and the element there."""


def apply_entries(
    configuration: Configuration, entries: Sequence[Entry], transports: TransportReader, drafts: ClusterDrafts, findings: Findings
) -> None:
    """Change ``configuration``, and ``drafts`` of what it says about other brokers, as ``entries`` say, in their order."""
    _Overrides(configuration, transports, drafts, findings).apply(entries)


class _Overrides:
    def __init__(self, configuration: Configuration, transports: TransportReader, drafts: ClusterDrafts, findings: Findings) -> None:
        self._configuration = configuration
        self._transports = transports
        self._beans = BeanReader(findings)
        self._urls: dict[str, dict[str, _Transport]] = {"acceptor": {}, "connector": {}}
        self._families: dict[str, Callable[[Entry], None]] = {
            "addressSettings": self._address_settings,
            "addressConfigurations": self._addresses,
            "securityRoles": self._security,
            "acceptorConfigurations": lambda entry: self._transport(entry, "acceptor"),
            "connectorConfigurations": lambda entry: self._transport(entry, "connector"),
            "resourceLimitSettings": self._resource_limits,
            **ClusterOverrides(drafts, self._beans).families(),
        }

    def apply(self, entries: Sequence[Entry]) -> None:
        families = {folded(name): handle for name, handle in self._families.items()}
        for entry in entries:
            first = folded(entry.path[0])
            if first in _REFUSED_FAMILIES:
                block = CORE.block(_REFUSED_FAMILIES[first])
                self._beans.error(entry, f"{entry.path[0]} cannot be used: {block.reason}")
            elif first in families:
                families[first](entry)
            elif len(entry.path) == 1:
                self._core(entry)
            else:
                self._beans.unknown(entry, entry.path[0], [*self._families])
        self._finish_transports()
        for entry in entries:
            if folded(entry.path[0]) == "addressconfigurations":
                self._check_routing_types(entry)

    def _check_routing_types(self, entry: Entry) -> None:
        for address in self._configuration.addresses:
            if address.name in entry.path[1:2] and not address.routing_types:
                text = f"expected addressConfigurations.{address.name}.routingTypes"
                self._beans.error(entry, f"AMQ229247: the address {address.name} has no routing type: {text}")

    def _core(self, entry: Entry) -> None:
        found = self._beans.value(entry, entry.path[0], CORE.items(), (*self._families,))
        if found is not None:
            setattr(self._configuration, *found)

    def _usable_match(self, entry: Entry, match: str) -> bool:
        configuration = self._configuration
        try:
            HierarchicalRepository[object](configuration.wildcards, configuration.literal_match_markers).check_match(match)
        except ValueError as error:
            self._beans.error(entry, str(error))
            return False
        return True

    def _address_settings(self, entry: Entry) -> None:
        if not self._beans.long_enough(entry, 2, "addressSettings.match.name"):
            return
        settings, match = self._configuration.address_settings, entry.path[1]
        if len(entry.path) == 2 and entry.removes:
            settings.pop(match, None)
        elif self._beans.long_enough(entry, 3, "addressSettings.match.name") and self._usable_match(entry, match):
            partial = settings.setdefault(match, {})
            found = self._beans.value(entry, entry.path[2], ADDRESS_SETTING)
            if found is not None:
                partial[found[0]] = found[1]

    def _addresses(self, entry: Entry) -> None:
        expected = "addressConfigurations.address.routingTypes or addressConfigurations.address.queueConfigs.queue.name"
        if not self._beans.long_enough(entry, 2, expected):
            return
        addresses, name = self._configuration.addresses, entry.path[1]
        known = next((address for address in addresses if address.name == name), None)
        if len(entry.path) == 2 and entry.removes:
            if known is not None:
                addresses.remove(known)
            return
        if known is None:
            known = AddressConfiguration(name, frozenset())
            addresses.append(known)
        if not self._beans.long_enough(entry, 3, expected):
            return
        member = folded(entry.path[2])
        if member == "routingtypes" or member == "routingtype":
            for text in NAMES.convert(entry.value):
                value = self._beans.convert(replace(entry, value=text), honoured("routingTypes", ROUTING_TYPE, ""))
                if value is not None:
                    known.routing_types |= {value}
        elif member == "queueconfigs" and self._beans.long_enough(entry, 4, expected):
            self._queue(entry, known)
        elif member != "name":
            self._beans.unknown(entry, entry.path[2], ["routingTypes", "queueConfigs"])

    def _queue(self, entry: Entry, address: AddressConfiguration) -> None:
        name = entry.path[3]
        queue = next((queue for queue in address.queues if queue.name == name), None)
        if entry.removes and len(entry.path) == 4:
            if queue is not None:
                address.queues.remove(queue)
            return
        if queue is None:
            queue = QueueConfiguration(
                name,
                address.name,
                min(address.routing_types, default=0),
                purge_on_no_consumers=False,
                ring_size=-1,
                configuration_managed=True,
            )
            address.queues.append(queue)
        if len(entry.path) < 5:
            return
        items = (
            honoured("routing-type", ROUTING_TYPE, ""),
            honoured("filter-string", TEXT, ""),
            honoured("address", TEXT, ""),
            *QUEUE.items(),
        )
        found = self._beans.value(entry, entry.path[4], items)
        if found is None:
            return
        if found[0] == "address" and found[1] != address.name:
            self._beans.error(entry, f"{'.'.join(entry.path)}: the queue is on the address {address.name}")
            return
        setattr(queue, *found)
        if found[0] == "filter_string":
            self._beans.filter(entry)
        if found[0] == "routing_type":
            address.routing_types |= {found[1]}

    def _security(self, entry: Entry) -> None:
        if not self._beans.long_enough(entry, 2, "securityRoles.match.role.permission"):
            return
        settings, match = self._configuration.security_settings, entry.path[1]
        if len(entry.path) == 2 and entry.removes:
            settings.pop(match, None)
            return
        if not self._beans.long_enough(entry, 4, "securityRoles.match.role.permission") or not self._usable_match(entry, match):
            return
        role, kind = entry.path[2], OLD_PERMISSIONS.get(entry.path[3], entry.path[3])
        if kind not in PERMISSIONS:
            self._beans.unknown(entry, kind, PERMISSIONS)
            return
        permissions = settings.setdefault(match, {})
        roles = permissions.get(kind, frozenset())
        permissions[kind] = roles | {role} if entry.value.lower() == "true" else roles - {role}

    def _resource_limits(self, entry: Entry) -> None:
        if not self._beans.long_enough(entry, 3, "resourceLimitSettings.user.maxConnections or maxQueues"):
            return
        limit = self._configuration.resource_limits.setdefault(entry.path[1], ResourceLimit())
        block = RESOURCE_LIMITS.child("resource-limit-setting")
        assert isinstance(block, Block)
        found = self._beans.value(
            entry, entry.path[2], (item for item in block.items() if item.support is Support.HONOURED and item.name != "match")
        )
        if found is not None:
            setattr(limit, *found)

    def _transport(self, entry: Entry, what: str) -> None:
        if not self._beans.long_enough(entry, 2, f"{entry.path[0]}.name.params.key"):
            return
        name = entry.path[1]
        if len(entry.path) == 2 and entry.removes:
            self._drop_transport(what, name)
            return
        gathered = self._urls[what].get(name)
        if gathered is None:
            gathered = self._urls[what][name] = _Transport.of(self._known_transport(what, name), entry)
        gathered.entry = entry
        if len(entry.path) == 2:
            gathered.text = entry.value
        elif folded(entry.path[2]) in ("params", "extraparams") and len(entry.path) == 4:
            gathered.parameters[entry.path[3]] = entry.value
        elif folded(entry.path[2]) not in ("factoryclassname", "name"):
            self._beans.unknown(entry, entry.path[2], ["params", "extraParams"])

    def _known_transport(self, what: str, name: str) -> TransportUri | None:
        if what == "connector":
            return self._configuration.connectors.get(name)
        return next((uri for uri in self._configuration.acceptors if uri.name == name), None)

    def _drop_transport(self, what: str, name: str) -> None:
        self._urls[what].pop(name, None)
        self._configuration.connectors.pop(name, None) if what == "connector" else None
        if what == "acceptor":
            self._configuration.acceptors = [uri for uri in self._configuration.acceptors if uri.name != name]

    def _finish_transports(self) -> None:
        for name, gathered in self._urls["acceptor"].items():
            uri = self._transports.acceptor(gathered.written(name))
            kept = [known for known in self._configuration.acceptors if known.name != name]
            self._configuration.acceptors = [*kept, uri] if uri is not None else kept
        for name, gathered in self._urls["connector"].items():
            uri = self._transports.connector(gathered.written(name))
            if uri is not None:
                self._configuration.connectors[name] = uri


@dataclass(slots=True)
class _Transport:
    """An acceptor or connector while its properties come in one by one."""

    text: str
    parameters: dict[str, str]
    entry: Entry

    @classmethod
    def of(cls, known: TransportUri | None, entry: Entry) -> _Transport:
        if known is None:
            return cls("", {}, entry)
        return cls(str(replace(known, parameters={})), dict(known.parameters), entry)

    def written(self, name: str) -> Written:
        plain = {key: value for key, value in self.parameters.items() if key.lower() not in ("host", "port")}
        place = {key.lower(): value for key, value in self.parameters.items() if key.lower() in ("host", "port")}
        text = self.text
        if place or not text:
            known = text.partition("://")[2].rpartition(":") if text else ("localhost", ":", "61616")
            text = f"tcp://{place.get('host', known[0])}:{place.get('port', known[2])}"
        if plain:
            text += ("&" if "?" in text else "?") + format_parameters(plain)
        return Written(text, name, self.entry.file, self.entry.line)
