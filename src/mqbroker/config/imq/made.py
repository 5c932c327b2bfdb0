"""The configuration that the properties of an instance make, above what its broker.xml says."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mqbroker.config.broker_xml.cluster_assembly import DEFAULT_CREDENTIALS
from mqbroker.config.imq.checked import Checked
from mqbroker.config.imq.databases import Databases, find_databases
from mqbroker.config.imq.destinations import DEAD_MESSAGE_QUEUE, AttributeRefused, parse_attributes, settings_with
from mqbroker.config.imq.members import ENHANCED, MASTER, Members, find_members
from mqbroker.config.imq.passwords import Passwords
from mqbroker.config.imq.places import Place
from mqbroker.config.masking import codec_key
from mqbroker.config.model.address_elements import ADDRESS_SETTING
from mqbroker.config.model.address_settings import ANYCAST, MULTICAST, PartialSettings
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import (
    DEFAULT_CLUSTER_PASSWORD,
    DEFAULT_CLUSTER_USER,
    AddressConfiguration,
    Configuration,
    QueueConfiguration,
)
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import FAILURES, EnhancedCluster, HomeCluster
from mqbroker.config.problems import Findings, did_you_mean
from mqclient.urls import TransportUri

CONNECTION = "imq"
"""The name of the cluster connection of home brokers, and of the connector to this one."""

SERVICES = ("jms", "ssljms", "admin", "ssladmin")
SECURE = ("ssljms", "ssladmin")
"""Services that have a port with TLS of their own, beside a port of clients and links without it."""
SLOW_DETECTION_S = 10
"""A takeover that takes longer to begin is warned of."""

RETRY_MS = 5000
"""Between two attempts to link with another broker."""

EVERYTHING = "#"
_BEHIND_HTTP = ("httpjms", "httpsjms", "wsjms", "wssjms")
_AUTO_CREATED = {
    ANYCAST: {
        "imq.autocreate.destination.": ("maxNumMsgs", "maxTotalMsgBytes", "limitBehavior", "useDMQ"),
        "imq.autocreate.queue.": ("maxNumActiveConsumers", "localDeliveryPreferred", "consumerFlowLimit"),
    },
    MULTICAST: {
        "imq.autocreate.destination.": ("maxNumMsgs", "maxTotalMsgBytes", "limitBehavior", "useDMQ"),
        "imq.autocreate.topic.": ("consumerFlowLimit",),
    },
}
"""The properties of queues and topics that are created automatically, by prefix; all of them are attributes of destinations."""


@dataclass(frozen=True, slots=True)
class Instance:
    """The place of the instance, for values that the properties leave out.

    ``broker_xml`` is its path for messages, ``etc`` the folder of key stores; ``host_names`` are the names of this machine, the best first.
    ``environment`` are the variables of the process, of which one may be the key of masked passwords.
    """

    folder: str
    broker_xml: str
    etc: str
    host_names: Sequence[str]
    read_file: Callable[[str], bytes]
    environment: Mapping[str, str] = field(default_factory=dict)


def make_home_broker(configuration: Configuration, checked: Checked, instance: Instance, findings: Findings) -> None:
    """Put everything that ``checked`` asks for into ``configuration``, which comes from a broker.xml."""
    _Maker(configuration, checked, instance, findings).make()


def connector_to(place: Place, parameters: Mapping[str, str], name: str = "") -> TransportUri:
    """The connector to a member; all connectors of a home cluster have the same ``parameters``."""
    return TransportUri("tcp", place.host, place.port, dict(parameters), name or f"{CONNECTION}-{place}")


@dataclass(slots=True)
class _Maker:
    configuration: Configuration
    checked: Checked
    instance: Instance
    findings: Findings
    services: frozenset[str] = field(default=frozenset(), init=False)
    tls: dict[str, str] = field(default_factory=dict, init=False)
    """The parameters of acceptors with TLS; empty where there are none."""
    databases: Databases = field(default=Databases(), init=False)
    passwords: Passwords = field(init=False)

    def make(self) -> None:
        self.passwords = Passwords(self.checked, self.instance.etc, self.instance.read_file, self.findings, self._key)
        self._refuse_other_clusters()
        self.configuration.name = self.checked["imq.instancename"]
        self.services = self._active_services()
        if self._secure_port or self.services.intersection(SECURE):
            self.tls = self._tls()
        written = self.configuration.database_store
        self.databases = find_databases(self.checked, self.instance.folder, self.passwords, self.findings, lambda: written)
        self.configuration.database_store = self._store()
        members = find_members(self.checked, self.instance.host_names, self.findings)
        if members is None:
            return
        self._acceptors(members)
        self._links(members)
        self._destinations()
        self.configuration.message_expiry_scan_period = self._ms("imq.message.expiration.interval") or -1
        self.configuration.home_cluster = self._home_cluster(members)

    def _key(self) -> str:
        """The key of masked passwords, as in the broker.xml."""
        return codec_key(self.configuration.password_codec, self.instance.environment.get)

    def _refuse_other_clusters(self) -> None:
        configuration = self.configuration
        file = self.instance.broker_xml
        if configuration.cluster_connections:
            text = "<cluster-connections>: the members of a home cluster are those of imq.cluster.brokerlist; take the section out"
            self.findings.error(file, 0, text)
        if configuration.has_ha_policy:
            text = "<ha-policy>: a home broker keeps its messages until it is back, and has no other policy; take the section out"
            self.findings.error(file, 0, text)

    def _active_services(self) -> frozenset[str]:
        names: frozenset[str] = frozenset(self.checked.get("imq.service.activelist", frozenset()))
        for name in sorted(names.difference(SERVICES)):
            reason = "its protocol is not spoken" if name in _BEHIND_HTTP else f"it is not known{did_you_mean(name, SERVICES)}"
            self.findings.error(*self.checked.place("imq.service.activelist"), f"imq.service.activelist: service {name}: {reason}")
        return names

    # --- the ways in

    def _acceptors(self, members: Members) -> None:
        checked = self.checked
        host = (
            checked.get("imq.portmapper.hostname") or checked.get("imq.hostname") or (members.own.host if members.loopback else "0.0.0.0")
        )
        common = {"protocols": "CORE", "backlog": str(checked["imq.portmapper.backlog"])}
        made = [self._acceptor("jms", host, members.own.port, self._secure_port, common)]
        plain = checked["imq.jms.tcp.port"]
        if plain and (plain != members.own.port or self._secure_port):
            made.append(self._acceptor("jms-tcp", checked.get("imq.jms.hostname", host), plain, False, common))
        for name in SECURE:
            if name in self.services and not self._secure_port:
                at, port = checked.get(f"imq.{name}.hostname", host), checked[f"imq.{name}.tls.port"]
                made.append(self._acceptor(name, at, port, True, common))
        self.configuration.acceptors[:0] = made

    @property
    def _secure_port(self) -> bool:
        """Does the port of clients and links use TLS?"""
        return bool(self.checked["imq.cluster.transport"] == "SSL") or ("ssljms" in self.services and "jms" not in self.services)

    def _acceptor(self, name: str, host: str, port: int, secure: bool, parameters: dict[str, str]) -> TransportUri:
        return TransportUri("tcp", host, port, parameters | (self.tls if secure else {}), name)

    def _tls(self) -> dict[str, str]:
        """The key store, from the properties or else from an acceptor of the broker.xml."""
        checked = self.checked
        for acceptor in self.configuration.acceptors:
            if acceptor.parameters.get("sslEnabled", "").lower() == "true" and not checked.layers.given("imq.keystore.file.name"):
                return {name: value for name, value in acceptor.parameters.items() if name not in ("protocols", "backlog")}
        folder = posixpath.join(self.instance.etc, checked.get("imq.keystore.file.dirpath", ""))
        path = posixpath.normpath(posixpath.join(folder, checked["imq.keystore.file.name"]))
        password = self.passwords.get("imq.keystore.password")
        if password is None:
            wanted = "imq.cluster.transport" if checked["imq.cluster.transport"] == "SSL" else "imq.service.activelist"
            text = f"{wanted}: TLS needs imq.keystore.password, the password of the key store"
            self.findings.error(*checked.place(wanted), text)
        return {"sslEnabled": "true", "keyStorePath": path, "keyStorePassword": password or ""}

    # --- other brokers

    def _links(self, members: Members) -> None:
        configuration, checked = self.configuration, self.checked
        parameters = self._link_parameters()
        names: list[str] = []
        configuration.connectors[CONNECTION] = connector_to(members.own, parameters, CONNECTION)
        for place in members.others:
            connector = connector_to(place, parameters)
            configuration.connectors[connector.name] = connector
            names.append(connector.name)
        interval, silent, retry = self._ms("imq.cluster.ping.interval"), 2, RETRY_MS
        if self.checked[ENHANCED]:
            interval, silent = self._ms("imq.cluster.heartbeat.interval"), checked["imq.cluster.heartbeat.threshold"]
            retry = min(RETRY_MS, interval)
        connection = ClusterConnectionConfiguration(
            CONNECTION,
            CONNECTION,
            check_period=interval,
            connection_ttl=silent * interval,
            retry_interval=retry,
            max_retry_interval=retry,
            message_load_balancing="OFF",
            static_connectors=None if self._finds_members(members) else tuple(names),
        )
        configuration.cluster_connections = [connection]
        if (configuration.cluster_user, configuration.cluster_password) == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD):
            self.findings.warn(self.instance.broker_xml, 0, DEFAULT_CREDENTIALS)
        if checked.layers.given("imq.cluster.clusterid") and not checked.get("imq.cluster.clusterid"):
            self.findings.error(*checked.place("imq.cluster.clusterid"), "imq.cluster.clusterid is empty: expected the name of the cluster")

    def _finds_members(self, members: Members) -> bool:
        """Without a list, peers find each other through their database."""
        return self.databases.record is not None and not members.others

    def _link_parameters(self) -> dict[str, str]:
        """The parameters of a connector of the broker.xml with TLS, or else trust in the own key store, which all brokers have."""
        transport = "ssl" if self._secure_port else "tcp"
        parameters: dict[str, str] = {}
        if self._secure_port:
            given = (each.parameters for each in self.configuration.connectors.values())
            found = next((dict(each) for each in given if each.get("sslEnabled", "").lower() == "true"), None)
            if found is None:
                found = {"sslEnabled": "true", "trustStorePath": self.tls["keyStorePath"], "verifyHost": "false"}
                if self.tls.get("keyStorePassword"):
                    found["trustStorePassword"] = self.tls["keyStorePassword"]
            parameters = found
        nodelay = self.checked.get(f"imq.cluster.{transport}.nodelay")
        return parameters if nodelay is None else parameters | {"tcpNoDelay": "true" if nodelay else "false"}

    # --- destinations

    def _destinations(self) -> None:
        configuration, checked = self.configuration, self.checked
        delay = self._ms("imq.autocreate.reaptime")
        creates = checked["imq.autocreate.queue"] or checked["imq.autocreate.topic"]
        below: dict[str, Any] = {
            "auto_create_addresses": creates,
            "auto_create_queues": creates,
            "auto_delete_addresses": True,
            "auto_delete_queues": True,
            "auto_delete_addresses_delay": delay,
            "auto_delete_queues_delay": delay,
            "auto_delete_addresses_skip_usage_check": True,
            "auto_delete_queues_skip_usage_check": True,
        }
        given = {name: value for name, value in below.items() if checked.layers.given(_GIVES[name])}
        above: dict[str, Any] = {"dead_letter_address": DEAD_MESSAGE_QUEUE, "expiry_address": DEAD_MESSAGE_QUEUE}
        found = {kind: self._auto_created(kind) for kind in _AUTO_CREATED}
        configuration.automatic_settings = {kind: settings for kind, settings in found.items() if settings}
        written = {name: value for name, value in configuration.address_settings.get(EVERYTHING, {}).items() if value is not None}
        configuration.address_settings[EVERYTHING] = below | written | given | above
        if all(each.name != DEAD_MESSAGE_QUEUE for each in configuration.addresses):
            queue = QueueConfiguration(DEAD_MESSAGE_QUEUE, DEAD_MESSAGE_QUEUE, ANYCAST)
            configuration.addresses.append(AddressConfiguration(DEAD_MESSAGE_QUEUE, frozenset((ANYCAST,)), [queue]))

    def _auto_created(self, kind: int) -> PartialSettings:
        """The settings of destinations of this routing type that are created automatically, and of no others."""
        layers = self.checked.layers
        names = {prefix + name: name for prefix, attributes in _AUTO_CREATED[kind].items() for name in attributes}
        texts = {name: layers.text(key) for key, name in names.items() if layers.given(key) and layers.text(key)}
        try:
            beans = settings_with({}, parse_attributes(texts, queue=kind == ANYCAST))
        except AttributeRefused as error:
            if kind == ANYCAST:  # told once
                self.findings.error("imq.autocreate", 0, str(error))
            return {}
        targets = {item.bean: item.target for item in ADDRESS_SETTING}
        return {targets[bean]: value for bean, value in beans.items()}

    # --- the model

    def _ms(self, name: str) -> int:
        return int(self.checked[name]) * 1000

    def _home_cluster(self, members: Members) -> HomeCluster:
        checked = self.checked
        return HomeCluster(
            brokers=tuple(map(str, members.all)),
            master=None if members.master is None else str(members.master),
            address=str(members.own),
            dynamic_change_master=checked["imq.cluster.dynamicChangeMasterBrokerEnabled"],
            master_from_command_line=checked.layers.from_command_line(MASTER),
            nowait_for_master=checked["imq.cluster.nowaitForMasterBroker"],
            nowait_for_master_s=checked["imq.cluster.nowaitForMasterBrokerTimeoutInSeconds"],
            change_master_wait_s=checked["imq.cluster.changeMasterBrokerWaitTimeout"],
            consumer_flow_limit=checked["imq.cluster.consumerFlowLimit"],
            autocreate_queue=checked["imq.autocreate.queue"],
            autocreate_topic=checked["imq.autocreate.topic"],
            reconnect_interval_multiplier=checked["imq.reconnect.interval"],
            wait_reply_s=checked["imq.cluster.waitReplyTimeout"],
            lock_timeout_s=checked["imq.cluster.locktimeout"],
            pending_transaction_check_s=checked["imq.cluster.pendingTransactionCheckInterval"],
            cluster_id=checked.get("imq.cluster.clusterid"),
            broker_id=self.databases.broker_id,
            record=self.databases.record,
            finds_members=self._finds_members(members),
            enhanced=self._enhanced_cluster() if checked[ENHANCED] else None,
            services=self.services,
        )

    def _store(self) -> DatabaseStoreConfiguration | None:
        """In an enhanced cluster PostgreSQL does not let a broker that stands still in a transaction hold up its taker."""
        store = self.databases.store
        if store is None or not self.checked[ENHANCED]:
            return store
        return replace(store, idle_timeout=self._ms("imq.cluster.monitor.interval") * self.checked["imq.cluster.monitor.threshold"])

    def _enhanced_cluster(self) -> EnhancedCluster:
        checked = self.checked
        given = checked.layers.given("imq.cluster.heartbeat.threshold")
        found = EnhancedCluster(
            heartbeat_interval=checked["imq.cluster.heartbeat.interval"],
            heartbeat_threshold=checked["imq.cluster.heartbeat.threshold"],
            monitor_interval=checked["imq.cluster.monitor.interval"],
            monitor_threshold=checked["imq.cluster.monitor.threshold"],
            failures=checked["imq.cluster.heartbeat.threshold"] if given else FAILURES,
            takeover_wait=checked["imq.cluster.ha.takeoverWaitTimeout"],
            takeover_delay=checked["imq.cluster.takeover.delay.interval"],
        )
        if found.detection_s > SLOW_DETECTION_S:
            text = (
                f"a broker that has failed is taken over after up to {found.detection_s:g} s: "
                "imq.cluster.heartbeat.interval × threshold, and imq.cluster.monitor.interval × (threshold + 1)"
            )
            self.findings.warn(*checked.place(ENHANCED), text)
        return found


_GIVES = {
    "auto_create_addresses": "imq.autocreate.queue",
    "auto_create_queues": "imq.autocreate.queue",
    "auto_delete_addresses": "imq.autocreate.reaptime",
    "auto_delete_queues": "imq.autocreate.reaptime",
    "auto_delete_addresses_delay": "imq.autocreate.reaptime",
    "auto_delete_queues_delay": "imq.autocreate.reaptime",
    "auto_delete_addresses_skip_usage_check": "imq.autocreate.reaptime",
    "auto_delete_queues_skip_usage_check": "imq.autocreate.reaptime",
}
"""The property that a setting of everything follows, so that it wins over the broker.xml where somebody has given it."""
