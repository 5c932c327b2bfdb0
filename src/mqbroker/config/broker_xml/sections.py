"""The blocks of ``core``, each turned into its part of the :class:`Configuration`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from mqbroker.config.broker_xml.reader import Content, Reader
from mqbroker.config.broker_xml.transports import TransportReader, Written
from mqbroker.config.broker_xml.tree import Node
from mqbroker.config.model.address_settings import ANYCAST, MULTICAST
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, MetricsConfiguration, QueueConfiguration, ResourceLimit
from mqbroker.config.model.matching import HierarchicalRepository, Wildcards
from mqbroker.config.schema.blocks import (
    ADDRESS_SETTINGS,
    ADDRESSES,
    BROKER_PLUGINS,
    CORE,
    METRICS,
    METRICS_PLUGIN,
    OLD_PERMISSIONS,
    OLD_QUEUES,
    PERMISSIONS,
    RESOURCE_LIMITS,
    SECURITY_SETTINGS,
    STORE,
    TRANSPORTS,
    WILDCARDS,
)
from mqbroker.config.schema.model import Block
from mqclient.text import nearest_name

LOGGING_PLUGINS = ("LoggingActiveMQServerPlugin", "NotificationActiveMQServerPlugin", "ConnectionPeriodicExpiryPlugin")
"""Java plugins without which every message still goes where it should."""

PROMETHEUS_PLUGIN = "PrometheusMetricsPlugin"
"""End of the class name of the metrics plugin whose output the broker gives by itself."""


class SectionReader:
    """Reads one block after another into ``configuration``."""

    def __init__(self, configuration: Configuration, reader: Reader, transports: TransportReader) -> None:
        self._configuration = configuration
        self._reader = reader
        self._transports = transports
        self._queue_names: dict[str, str] = {}

    def read(self, core: Content) -> None:
        """Everything in ``core`` that is a block."""
        handlers: dict[str, Callable[[Node], None]] = {
            "wildcard-addresses": self._wildcards,
            "acceptors": self._acceptors,
            "connectors": self._connectors,
            "security-settings": self._security,
            "resource-limit-settings": self._resource_limits,
            "address-settings": self._address_settings,
            "addresses": self._addresses,
            "queues": self._old_queues,
            "store": self._store,
            "metrics-plugin": self._metrics_plugin,
            "metrics": self._metrics,
            "broker-plugins": self._broker_plugins,
            "remoting-incoming-interceptors": self._interceptors,
            "remoting-outgoing-interceptors": self._interceptors,
        }
        for name, handle in handlers.items():
            for node in core.blocks.get(name, ()):
                handle(node)

    def jms(self, content: Content, block: Block) -> None:
        """The queues and topics of a ``jms`` section."""
        for _, topic in self._reader.inside(content, block, "topic"):
            if "name" in topic.values:
                self._address(topic.values["name"], MULTICAST)
        for node, queue in self._reader.inside(content, block, "queue"):
            name = queue.values.get("name")
            if name is None:
                continue
            filter_string = None
            for _, selector in self._reader.inside(queue, block.block("queue"), "selector"):
                filter_string = self._filter(selector)
            durable = queue.values.get("durable", True)
            self._add_queue(
                node, QueueConfiguration(name, name, ANYCAST, filter_string, durable=durable, purge_on_no_consumers=False, ring_size=-1)
            )

    def _wildcards(self, node: Node) -> None:
        values = self._reader.read(node, WILDCARDS).values
        wildcards = Wildcards(**values)
        if len({wildcards.delimiter, wildcards.any_words, wildcards.single_word}) < 3:
            self._reader.error(node, "<wildcard-addresses>: delimiter, any-words and single-word must be three different characters")
            return
        self._configuration.wildcards = wildcards

    def _written(self, node: Node, outer: Block, inner: str) -> list[Written]:
        """The URLs in ``node``; as in Artemis one without a name, or with the name of an earlier one, is left out."""
        written: dict[str, Written] = {}
        for child, content in self._reader.inside(self._reader.read(node, outer), outer, inner):
            name = content.values.get("name")
            if name is None or content.text is None:
                if name is None and "name" not in child.attributes:
                    self._reader.warn(
                        child, f"an {inner} without a name is left out" if inner[0] in "aeiou" else f"a {inner} without a name is left out"
                    )
            elif name in written:
                self._reader.warn(child, f"{inner} {name} is left out: there is one of that name on line {written[name].line}")
            else:
                written[name] = Written(content.text, name, child.file, child.line)
        return list(written.values())

    def _acceptors(self, node: Node) -> None:
        for written in self._written(node, TRANSPORTS[0], "acceptor"):
            uri = self._transports.acceptor(written)
            if uri is not None:
                self._configuration.acceptors.append(uri)

    def _connectors(self, node: Node) -> None:
        for written in self._written(node, TRANSPORTS[1], "connector"):
            uri = self._transports.connector(written)
            if uri is not None:
                self._configuration.connectors[written.name] = uri

    def _security(self, node: Node) -> None:
        content = self._reader.read(node, SECURITY_SETTINGS)
        block = SECURITY_SETTINGS.block("security-setting")
        for child, setting in self._reader.inside(content, SECURITY_SETTINGS, "security-setting"):
            match = setting.values.get("match")
            if match is None or not self._usable_match(child, match):
                continue
            if match in self._configuration.security_settings:
                self._reader.warn(child, f"AMQ222301: a second security-setting for {match} is left out")
                continue
            permissions: dict[str, frozenset[str]] = {}
            for place, permission in self._reader.inside(setting, block, "permission"):
                kind = self._permission(place, permission.values.get("type"))
                if kind is not None:
                    permissions[kind] = permissions.get(kind, frozenset()) | permission.values.get("roles", frozenset())
            self._configuration.security_settings[match] = permissions
        for _, mapping in self._reader.inside(content, SECURITY_SETTINGS, "role-mapping"):
            source = mapping.values.get("from")
            if source is not None:
                mapped = self._configuration.role_mapping
                mapped[source] = mapped.get(source, frozenset()) | mapping.values.get("to", frozenset())

    def _permission(self, node: Node, text: str | None) -> str | None:
        if text is None or text in PERMISSIONS:
            return text
        if text in OLD_PERMISSIONS:
            self._reader.warn(node, f"AMQ221038: the permission {text} is an old name: write {OLD_PERMISSIONS[text]}")
            return OLD_PERMISSIONS[text]
        near = nearest_name(text, PERMISSIONS)
        hint = f"; did you mean {near}?" if near else f": expected one of {', '.join(PERMISSIONS)}"
        self._reader.error(node, f"AMQ222177: there is no permission {text}{hint}")
        return None

    def _usable_match(self, node: Node, match: str) -> bool:
        configuration = self._configuration
        try:
            HierarchicalRepository[object](configuration.wildcards, configuration.literal_match_markers).check_match(match)
        except ValueError as error:
            self._reader.error(node, str(error))
            return False
        if any(character in "[](){}+?|^\\" for character in match) and not configuration.literal_match_markers:
            self._reader.warn(node, f"the match {match} is not a regular expression: only the wildcard characters are special")
        return True

    def _resource_limits(self, node: Node) -> None:
        content = self._reader.read(node, RESOURCE_LIMITS)
        for child, limit in self._reader.inside(content, RESOURCE_LIMITS, "resource-limit-setting"):
            user = limit.values.get("match")
            if user is None:
                continue
            if user in self._configuration.resource_limits:
                self._reader.warn(child, f"a second resource-limit-setting for {user} is left out")
                continue
            self._configuration.resource_limits[user] = ResourceLimit(
                limit.values.get("max_connections", -1), limit.values.get("max_queues", -1)
            )

    def _address_settings(self, node: Node) -> None:
        content = self._reader.read(node, ADDRESS_SETTINGS)
        for child, setting in self._reader.inside(content, ADDRESS_SETTINGS, "address-setting"):
            match = setting.values.pop("match", None)
            if match is None or not self._usable_match(child, match):
                continue
            if match in self._configuration.address_settings:
                self._reader.warn(child, f"AMQ222301: a second address-setting for {match} is left out")
                continue
            self._configuration.address_settings[match] = setting.values

    def _addresses(self, node: Node) -> None:
        content = self._reader.read(node, ADDRESSES)
        block = ADDRESSES.block("address")
        for child, address in self._reader.inside(content, ADDRESSES, "address"):
            name = address.values.get("name")
            if name is None:
                continue
            if not address.blocks:
                self._reader.error(
                    child, f"AMQ229247: the address {name} has no routing type: expected <anycast>, <multicast> or both in it"
                )
                continue
            for kind, routing_type in (("multicast", MULTICAST), ("anycast", ANYCAST)):
                for _, routed in self._reader.inside(address, block, kind):
                    self._address(name, routing_type)
                    for place, queue in self._reader.inside(routed, block.block(kind), "queue"):
                        self._queue(place, queue, block.block(kind).block("queue"), name, routing_type)

    def _old_queues(self, node: Node) -> None:
        content = self._reader.read(node, OLD_QUEUES)
        block = OLD_QUEUES.block("queue")
        for child, queue in self._reader.inside(content, OLD_QUEUES, "queue"):
            name = queue.values.get("name")
            self._reader.warn(child, f"AMQ222307: the queue {name} in <queues> is multicast; write it in <addresses>")
            self._queue(child, queue, block, queue.values.pop("address", name), MULTICAST)

    def _queue(self, node: Node, content: Content, block: Block, address: str | None, routing_type: int) -> None:
        values: dict[str, Any] = {"purge_on_no_consumers": False, "ring_size": -1, **content.values}
        for _, inner in self._reader.inside(content, block, "filter"):
            values["filter_string"] = self._filter(inner)
        if "name" in values and address is not None:
            self._add_queue(node, QueueConfiguration(address=address, routing_type=routing_type, **values))

    def _filter(self, content: Content) -> str | None:
        return self._reader.findings.filter(content.values.get("string"), content.node.file, content.node.line)

    def _address(self, name: str, routing_type: int) -> AddressConfiguration:
        for known in self._configuration.addresses:
            if known.name == name:
                known.routing_types |= {routing_type}
                return known
        added = AddressConfiguration(name, frozenset({routing_type}))
        self._configuration.addresses.append(added)
        return added

    def _add_queue(self, node: Node, queue: QueueConfiguration) -> None:
        queue.configuration_managed = True
        assert queue.routing_type is not None
        queues = self._address(queue.address, queue.routing_type).queues
        earlier = self._queue_names.setdefault(queue.name, queue.address)
        if earlier != queue.address:
            self._reader.warn(node, f"a second queue {queue.name} is left out: the first is on the address {earlier}, and names are unique")
            return
        same = next((position for position, known in enumerate(queues) if known.name == queue.name), None)
        if same is None:
            queues.append(queue)
        else:
            self._reader.warn(node, f"the address {earlier} has a second queue {queue.name}: the later one counts")
            queues[same] = queue

    def _store(self, node: Node) -> None:
        self._reader.read(node, STORE)

    def _metrics(self, node: Node) -> None:
        content = self._reader.read(node, METRICS)
        known = {entry.name for entry in fields(MetricsConfiguration)}
        self._configuration.metrics = MetricsConfiguration(**{name: value for name, value in content.values.items() if name in known})
        for _, plugin in self._reader.inside(content, METRICS, "plugin"):
            self._plugin(plugin, self._configuration.metrics)

    def _metrics_plugin(self, node: Node) -> None:
        self._configuration.metrics = MetricsConfiguration()
        self._plugin(self._reader.read(node, METRICS_PLUGIN), self._configuration.metrics)

    def _plugin(self, content: Content, metrics: MetricsConfiguration) -> None:
        class_name = content.values.get("class_name")
        properties = {
            inner.values["key"]: inner.values.get("value", "")
            for _, inner in self._reader.inside(content, METRICS_PLUGIN, "property")
            if "key" in inner.values
        }
        if class_name is None:
            return
        if not class_name.endswith(PROMETHEUS_PLUGIN):
            self._reader.warn(
                content.node,
                f"the metrics plugin {class_name} is a Java class and cannot be loaded; only one ending in {PROMETHEUS_PLUGIN} is built in",
            )
            return
        metrics.plugin_class_name = class_name
        metrics.plugin_properties = properties

    def _broker_plugins(self, node: Node) -> None:
        content = self._reader.read(node, BROKER_PLUGINS)
        for child, plugin in self._reader.inside(content, BROKER_PLUGINS, "broker-plugin"):
            class_name = plugin.values.get("class_name", "")
            if class_name.endswith(LOGGING_PLUGINS):
                self._reader.warn(child, f"the plugin {class_name} is a Java class and has no effect")
            elif class_name:
                self._reader.error(
                    child, f"the plugin {class_name} is a Java class and cannot be loaded: it may decide what clients may do"
                )

    def _interceptors(self, node: Node) -> None:
        self._reader.read(node, CORE.block(node.name))
