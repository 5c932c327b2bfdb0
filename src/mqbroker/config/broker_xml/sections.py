"""Makes the part of the :class:`Configuration` about the broker itself from the contents of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from mqbroker.config.broker_xml.reader import Content
from mqbroker.config.broker_xml.transports import Unmask, read_transport
from mqbroker.config.model.address_settings import ANYCAST, MULTICAST
from mqbroker.config.model.blocks import DATA_SOURCE, OLD_PERMISSIONS, PERMISSIONS
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, MetricsConfiguration, QueueConfiguration, ResourceLimit
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.matching import HierarchicalRepository, Wildcards
from mqbroker.config.problems import Findings, did_you_mean
from mqclient.urls import TransportUri

LOGGING_PLUGINS = ("LoggingActiveMQServerPlugin", "NotificationActiveMQServerPlugin", "ConnectionPeriodicExpiryPlugin")
"""Java plugins without which every message still goes where it should."""

PROMETHEUS_PLUGIN = "PrometheusMetricsPlugin"
"""End of the class name of the metrics plugin whose output the broker gives by itself."""


def finish_sections(configuration: Configuration, core: Content, findings: Findings, unmask: Unmask) -> None:
    """Put the blocks of ``core`` into ``configuration``, which has its plain elements."""
    _Sections(configuration, core, findings, unmask).run()


class _Sections:
    def __init__(self, configuration: Configuration, core: Content, findings: Findings, unmask: Unmask) -> None:
        self._configuration = configuration
        self._core = core
        self._findings = findings
        self._unmask = unmask
        self._queue_names: dict[str, str] = {}

    def run(self) -> None:
        configuration = self._configuration
        for content in self._core.all("wildcard-addresses"):
            self._wildcards(content)
        configuration.acceptors += self._transports("acceptor")
        configuration.connectors |= {uri.name: uri for uri in self._transports("connector")}
        self._security()
        for user, limit in self._last("resource-limit"):
            configuration.resource_limits[user] = ResourceLimit(limit.values.get("max_connections", -1), limit.values.get("max_queues", -1))
        for setting in self._core.all("address-settings", "address-setting"):
            match = setting.name
            if match in configuration.address_settings:
                self._warn(setting, f"AMQ222301: a second address-setting for {match} is left out")
            elif match is not None and self._usable_match(setting, match):
                configuration.address_settings[match] = {name: value for name, value in setting.values.items() if name != "match"}
        for address in self._core.all("addresses", "address"):
            self._address(address)
        for content in self._core.all("store", "database-store"):
            self._database_store(content)
        self._metrics()
        self._broker_plugins()

    def _database_store(self, content: Content) -> None:
        names = {entry.name for entry in fields(DatabaseStoreConfiguration)}
        self._read_data_source(content)
        values = {name: value for name, value in content.values.items() if name in names and value is not None}
        if "url" not in values:
            expected = "expected jdbc:sqlite:FILE or jdbc:postgresql://HOST:PORT/DATABASE; the Derby default of Artemis cannot be opened"
            self._error(content, f"<database-store> lacks <jdbc-connection-url>: {expected}")
            return
        for name in ("user", "password"):
            if name in values:
                values[name] = self._unmask(values[name], *content.at(name))
        configuration = self._configuration.database_store = DatabaseStoreConfiguration(**values)
        problem = configuration.problem()
        if problem is not None:
            self._findings.error(*content.at("url"), f"<jdbc-connection-url>: {problem}")
        problem = configuration.lease_problem()
        if problem is not None:
            self._findings.error(*content.at("lock_renew_period"), f"<jdbc-lock-renew-period>: {problem}")

    def _read_data_source(self, content: Content) -> None:
        """The properties of a data source that say the same as elements become those."""
        for each in content.all("data-source-properties", "data-source-property"):
            key = each.values.get("key")
            if key is None:
                continue
            name, element = DATA_SOURCE.get(key, ("", ""))
            if not name:
                self._warn(each, f"<data-source-property key={key}> has no effect: it is for a Java class, which cannot be loaded")
            elif content.values.get(name) is not None:
                self._error(each, f"<data-source-property key={key}> and <{element}> say the same: expected one of them")
            else:
                content.put(name, each.values.get("value") or None, each.place)

    def _wildcards(self, content: Content) -> None:
        wildcards = Wildcards(**content.values)
        if len({wildcards.delimiter, wildcards.any_words, wildcards.single_word}) < 3:
            self._error(content, "<wildcard-addresses>: delimiter, any-words and single-word must be three different characters")
        else:
            self._configuration.wildcards = wildcards

    def _transports(self, what: str) -> Iterator[TransportUri]:
        """The acceptors or connectors; as in Artemis one without a name, or with the name of an earlier one, is left out."""
        lines: dict[str, int] = {}
        for content in self._core.all(f"{what}s", what):
            name = content.name
            if name is None:
                self._warn(content, f"{'an' if what == 'acceptor' else 'a'} {what} without a name is left out")
            elif name in lines:
                self._warn(content, f"{what} {name} is left out: there is one of that name on line {lines[name]}")
            elif content.text is not None:
                lines[name] = content.place[1]
                uri = read_transport(what, content, self._findings, self._unmask)
                if uri is not None:
                    yield uri

    def _last(self, what: str) -> Iterable[tuple[str, Content]]:
        """The settings by their match; of several with the same one the last counts, as in Artemis."""
        found: dict[str, Content] = {}
        for content in self._core.all(f"{what}-settings", f"{what}-setting"):
            match = content.name
            if match in found:
                self._warn(content, f"there is a second {what}-setting for {match}: the later one counts")
            if match is not None:
                found[match] = content
        return found.items()

    def _security(self) -> None:
        for match, setting in self._last("security"):
            permissions: dict[str, frozenset[str]] = {}
            for content in setting.all("permission"):
                kind = self._permission(content)
                if kind is not None:
                    known, roles = permissions.get(kind, frozenset()), content.values.get("roles", frozenset())
                    permissions[kind] = known - roles if content.values.get("denied") else known | roles
            if self._usable_match(setting, match):
                self._configuration.security_settings[match] = permissions
        mapped = self._configuration.role_mapping
        for mapping in self._core.all("security-settings", "role-mapping"):
            source = mapping.values.get("from")
            if source is not None:
                mapped[source] = mapped.get(source, frozenset()) | mapping.values.get("to", frozenset())

    def _permission(self, content: Content) -> str | None:
        text: str | None = content.values.get("type")
        if text is None or text in PERMISSIONS:
            return text
        if text in OLD_PERMISSIONS:
            self._warn(content, f"AMQ221038: the permission {text} is an old name: write {OLD_PERMISSIONS[text]}")
            return OLD_PERMISSIONS[text]
        hint = did_you_mean(text, PERMISSIONS, f": expected one of {', '.join(PERMISSIONS)}")
        self._error(content, f"AMQ222177: there is no permission {text}{hint}")
        return None

    def _usable_match(self, content: Content, match: str) -> bool:
        configuration = self._configuration
        try:
            HierarchicalRepository[object](configuration.wildcards, configuration.literal_match_markers).check_match(match)
        except ValueError as error:
            self._error(content, str(error))
            return False
        if any(character in "[](){}+?|^\\" for character in match) and not configuration.literal_match_markers:
            self._warn(content, f"the match {match} is not a regular expression: only the wildcard characters are special")
        return True

    def _address(self, content: Content) -> None:
        name = content.name
        if name is None:
            return
        types: frozenset[int] = content.values.get("routing_types", frozenset())
        queues: list[Content] = []
        for kind, routing_type in (("multicast", MULTICAST), ("anycast", ANYCAST)):
            for routed in content.all(kind):
                types |= {routing_type}
                for queue in routed.all("queue"):
                    queue.values.setdefault("routing_type", routing_type)
                    queues.append(queue)
        for queue in content.all("queue"):  # properties add it without its kind
            queue.values.setdefault("routing_type", min(types, default=None))
            queues.append(queue)
        types |= {queue.values["routing_type"] for queue in queues} - {None}
        if not types:
            expected = f"expected <anycast>, <multicast> or both in it, or addressConfigurations.{name}.routingTypes"
            self._error(content, f"AMQ229247: the address {name} has no routing type: {expected}")
            return
        address = next((known for known in self._configuration.addresses if known.name == name), None)
        if address is None:
            address = AddressConfiguration(name, frozenset())
            self._configuration.addresses.append(address)
        address.routing_types |= types
        for queue in queues:
            self._queue(address, queue)

    def _queue(self, address: AddressConfiguration, content: Content) -> None:
        name = content.name
        if name is None:
            return
        self._findings.filter(content.values.get("filter_string"), *content.at("filter_string"))
        values: dict[str, Any] = {"purge_on_no_consumers": False, "ring_size": -1, "configuration_managed": True, **content.values}
        queue = QueueConfiguration(address=address.name, **values)
        earlier = self._queue_names.setdefault(name, address.name)
        if earlier != address.name:
            self._warn(content, f"a second queue {name} is left out: the first is on the address {earlier}, and names are unique")
            return
        same = next((position for position, known in enumerate(address.queues) if known.name == name), None)
        if same is None:
            address.queues.append(queue)
        else:
            self._warn(content, f"the address {earlier} has a second queue {name}: the later one counts")
            address.queues[same] = queue

    def _metrics(self) -> None:
        for plugin in self._core.all("metrics-plugin"):
            self._configuration.metrics = self._shown(MetricsConfiguration(), plugin)
        for content in self._core.all("metrics"):
            self._configuration.metrics = MetricsConfiguration(**content.values)
            for plugin in content.all("plugin"):
                self._shown(self._configuration.metrics, plugin)

    def _shown(self, metrics: MetricsConfiguration, plugin: Content) -> MetricsConfiguration:
        class_name = plugin.values.get("class_name")
        if class_name is not None and not class_name.endswith(PROMETHEUS_PLUGIN):
            known = f"only one ending in {PROMETHEUS_PLUGIN} is built in"
            self._warn(plugin, f"the metrics plugin {class_name} is a Java class and cannot be loaded; {known}")
        elif class_name is not None:
            metrics.plugin_class_name = class_name
            metrics.plugin_properties = plugin.properties()
        return metrics

    def _broker_plugins(self) -> None:
        for plugin in self._core.all("broker-plugins", "broker-plugin"):
            class_name = plugin.values.get("class_name", "")
            if class_name.endswith(LOGGING_PLUGINS):
                self._warn(plugin, f"the plugin {class_name} is a Java class and has no effect")
            elif class_name:
                self._error(plugin, f"the plugin {class_name} is a Java class and cannot be loaded: it may decide what clients may do")

    def _error(self, content: Content, text: str) -> None:
        self._findings.error(*content.place, text)

    def _warn(self, content: Content, text: str) -> None:
        self._findings.warn(*content.place, text)
