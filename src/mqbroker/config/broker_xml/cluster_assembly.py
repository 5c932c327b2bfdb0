"""Makes the parts of the :class:`Configuration` about other brokers from the contents of files, and checks them against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from typing import Any, TypeVar

from mqbroker.config.broker_xml.reader import Content, Place, Ref
from mqbroker.config.broker_xml.transports import Unmask
from mqbroker.config.model.cluster import (
    BridgeConfiguration,
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    ColocatedConfiguration,
    DiscoveryGroupConfiguration,
    DivertConfiguration,
    GroupingHandlerConfiguration,
    LockManagerConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
    TransformerConfiguration,
)
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER, Configuration
from mqbroker.config.problems import Findings, did_you_mean
from mqbroker.config.schema.values import BOOLEAN
from mqclient.protocol.discovery import Endpoint, JGroupsEndpoint, UdpEndpoint, check_endpoint
from mqclient.text import nearest_name
from mqclient.urls import masked

Policy = TypeVar("Policy", SharedStoreConfiguration, ReplicationConfiguration)

_UDP = ("group_address", "group_port", "local_bind_address", "local_bind_port")
_JGROUPS = ("jgroups_file", "jgroups_channel")

_VOTING = ("check_for_active_server", "vote_on_replication_failure", "quorum_size", "vote_retry_wait", "quorum_vote_wait")
"""Settings of the proof that voters give."""

DEFAULT_CREDENTIALS = (
    "AMQ222007: Security risk! The cluster runs with the default cluster user and password, which everybody knows: "
    "whoever reaches an acceptor can join as a broker; set cluster-user and cluster-password, the same ones on every broker"
)


def finish_cluster(configuration: Configuration, core: Content, findings: Findings, unmask: Unmask) -> None:
    """Put the blocks of ``core`` about other brokers into ``configuration``, which is complete apart from them."""
    _Assembly(configuration, core, findings, unmask).run()


class _Assembly:
    def __init__(self, configuration: Configuration, core: Content, findings: Findings, unmask: Unmask) -> None:
        self._configuration = configuration
        self._core = core
        self._findings = findings
        self._unmask = unmask
        self._groups = self._named("discovery-groups", "discovery-group")
        self._connections = self._named("cluster-connections", "cluster-connection")

    def run(self) -> None:
        configuration = self._configuration
        for name, content in self._groups.items():
            endpoint = self._endpoint(content, "discovery-group")
            if endpoint is not None:
                values = _known(DiscoveryGroupConfiguration, content.values)
                configuration.discovery_groups[name] = DiscoveryGroupConfiguration(endpoint=endpoint, **values)
        for content in self._named("broadcast-groups", "broadcast-group").values():
            self._broadcast_group(content)
        for content in self._connections.values():
            self._cluster_connection(content)
        for content in self._named("diverts", "divert").values():
            self._divert(content)
        for content in self._named("bridges", "bridge").values():
            self._bridge(content)
        for content in self._core.all("grouping-handler"):
            self._grouping_handler(content)
        for content in self._core.all("ha-policy"):
            self._ha_policy(content)
        self._check_database_policy()
        self._warn_about_addresses()
        self._warn_about_credentials()
        self._warn_about_acceptors()

    def _named(self, outer: str, inner: str) -> dict[str, Content]:
        known: dict[str, Content] = {}
        for content in self._core.all(outer, inner):
            if content.name is None:
                continue
            earlier = known.setdefault(content.name, content)
            if earlier is not content:
                text = f"there is a second {inner} {content.name} (first on line {earlier.place[1]}): their names are unique"
                self._error(content.place, text)
        return known

    # --- blocks

    def _broadcast_group(self, content: Content) -> None:
        shown = f"broadcast-group {content.name}"
        endpoint = self._endpoint(content, "broadcast-group")
        connectors = self._connectors(content, "connectors", shown)
        if not connectors and not content.values.get("connectors"):
            self._warn(content.place, f"{shown} is left out: it has no connector-ref and would announce nothing")
        elif endpoint is not None and connectors is not None:
            values = _known(BroadcastGroupConfiguration, content.values) | {"connectors": connectors}
            self._configuration.broadcast_groups.append(BroadcastGroupConfiguration(endpoint=endpoint, **values))

    def _cluster_connection(self, content: Content) -> None:
        shown = f"cluster-connection {content.name}"
        values = _known(ClusterConnectionConfiguration, content.values)
        values["static_connectors"] = self._connectors(content, "static_connectors", shown)
        self._discovery_group(content, values, shown)
        if "forward_when_no_consumers" in content.values:
            if "message_load_balancing" in values:
                self._warn(
                    content.at("message_load_balancing"),
                    f"{shown}: forward-when-no-consumers is there too: message-load-balancing has no effect",
                )
            values["message_load_balancing"] = "STRICT" if content.values["forward_when_no_consumers"] else "ON_DEMAND"
        connector = values.get("connector_ref")
        if connector is None:
            self._error(content.place, f"{shown} lacks connector-ref: expected the connector by which other brokers reach this one")
        elif connector not in self._configuration.connectors:
            # Artemis starts without the cluster connection too, so an existing file must not stop here.
            text = f"{shown} is left out, as in Artemis: {self._no_connector(connector)}"
            self._warn(content.at("connector_ref"), text)
        else:
            self._configuration.cluster_connections.append(ClusterConnectionConfiguration(**values))

    def _divert(self, content: Content) -> None:
        values = _known(DivertConfiguration, content.values)
        values["forwarding_addresses"] = content.values.get("forwarding_address", ())
        values["transformer"] = self._transformer(content)
        self._filter(content)
        missing = [name for name in ("address", "forwarding_address") if not content.values.get(name)]
        if missing:
            self._lacks(content, "divert", missing, "an address")
        else:
            self._configuration.diverts.append(DivertConfiguration(**values))

    def _bridge(self, content: Content) -> None:
        shown = f"bridge {content.name}"
        values = _known(BridgeConfiguration, content.values)
        values["static_connectors"] = self._connectors(content, "static_connectors", shown) or ()
        self._discovery_group(content, values, shown)
        values["transformer"] = self._transformer(content)
        self._filter(content)
        if "password" in values:
            values["password"] = self._unmask(values["password"], *content.at("password"))
        if not content.values.get("queue_name"):
            self._lacks(content, "bridge", ["queue_name"], "the queue whose messages are forwarded")
        elif not content.values.get("static_connectors") and content.values.get("discovery_group") is None:
            self._error(content.place, f"{shown} has nowhere to go: expected static-connectors or discovery-group-ref")
        else:
            self._configuration.bridges.append(BridgeConfiguration(**values))

    def _grouping_handler(self, content: Content) -> None:
        if "type" not in content.values:
            self._lacks(content, "grouping-handler", ["type"], "LOCAL or REMOTE")
            return
        values = {"name": "", **_known(GroupingHandlerConfiguration, content.values), "local": content.values["type"] == "LOCAL"}
        self._configuration.grouping_handler = GroupingHandlerConfiguration(**values)

    def _ha_policy(self, content: Content) -> None:
        if len(content.inside) > 1:
            self._error(content.place, f"<ha-policy> holds {', '.join(name for name, _ in content.inside)}: expected one of them")
            return
        for name, policy in content.inside:
            self._configuration.has_ha_policy = True
            if name == "shared-store":
                self._shared_store(policy)
            if name == "replication":
                self._replication(policy)
            self._scale_down(policy)

    def _check_database_policy(self) -> None:
        """Brokers may share a database, and nothing else."""
        configuration = self._configuration
        if configuration.database_store is None:
            return
        for content in self._core.all("ha-policy"):
            if configuration.replication is not None:
                text = "there are no files to copy; brokers that have one database are a <shared-store>"
                self._error(content.place, f"<replication> cannot be used with a <database-store>: {text}")
            elif configuration.colocated is not None:
                text = "brokers ask each other for backups by their folders"
                self._error(content.place, f"<colocated> cannot be used with a <database-store>: {text}")

    def _role(self, content: Content, policy: str) -> tuple[bool, Content] | None:
        """Is it a backup, and what is said of it; None after an error."""
        roles = [(name, inner) for name, inner in content.inside if name != "manager"]
        if len(roles) != 1:
            names = ", ".join(name for name, _ in roles)
            self._error(content.place, f"<{policy}> holds {names or 'nothing'}: expected primary or backup")
            return None
        ((name, role),) = roles
        return name in ("backup", "slave"), role

    def _shared_store(self, content: Content) -> None:
        if not self._configuration.persistence_enabled:
            self._error(content.place, "<shared-store> needs persistence-enabled: without a journal there is nothing to share")
        if any(content.all("colocated")):
            self._configuration.shared_store = self._colocated(content, "shared-store", self._read_shared_store)
            self._check_lock_folder(content)
            return
        found = self._role(content, "shared-store")
        if found is None:
            return
        backup, role = found
        self._configuration.shared_store = self._read_shared_store(backup, role)
        self._scale_down(role)

    @staticmethod
    def _read_shared_store(backup: bool, role: Content) -> SharedStoreConfiguration:
        return SharedStoreConfiguration(backup, **_known(SharedStoreConfiguration, role.values))

    def _replication(self, content: Content) -> None:
        if not self._configuration.persistence_enabled:
            self._error(content.place, "<replication> needs persistence-enabled: without a journal there is nothing to copy")
        if not self._configuration.cluster_connections:
            self._error(content.place, "<replication> needs a cluster-connection, by which primary and backup find each other")
        if any(content.all("colocated")):
            self._configuration.replication = self._colocated(content, "replication", self._read_replication)
            return
        found = self._role(content, "replication")
        if found is None:
            return
        backup, role = found
        manager = self._lock_manager(content, role)
        self._configuration.replication = self._read_replication(backup, role, manager)
        self._scale_down(role)
        scale_down = self._configuration.scale_down
        if manager is not None and scale_down is not None and scale_down.enabled:
            text = "the lock manager says whose data are newest, and does not know that they have been given away"
            self._error(role.place, f"<scale-down> of a backup cannot be used with a <manager>: {text}")

    def _read_replication(self, backup: bool, role: Content, manager: LockManagerConfiguration | None = None) -> ReplicationConfiguration:
        known = [each.name for each in self._configuration.cluster_connections]
        if known:
            self._known_cluster(role, "replication", known)
        values = _known(ReplicationConfiguration, role.values)
        if manager is None and values.get("coordination_id") is not None:
            self._error(role.at("coordination_id"), "<coordination-id> needs a <manager>: votes know no competing primaries")
        if "/" in (values.get("coordination_id") or ""):
            self._error(role.at("coordination_id"), "<coordination-id> is not valid: expected a text without a slash")
        return ReplicationConfiguration(backup, manager=manager, **values)

    def _colocated(self, content: Content, policy: str, read: Callable[[bool, Content], Policy]) -> Policy:
        """The policy of this broker itself; what it hosts is put into the configuration."""
        if len(content.inside) > 1:
            self._error(content.place, f"<{policy}> holds {', '.join(name for name, _ in content.inside)}: expected one of them")
        colocated = next(content.all("colocated"))
        own, hosted = self._either(colocated, "primary", "master"), self._either(colocated, "backup", "slave")
        values = _known(ColocatedConfiguration, colocated.values)
        values["excludes"] = self._connectors(colocated, "excludes", "colocated") or ()
        values["scale_down"] = next((self._read_scale_down(each) for each in hosted.all("scale-down")), None)
        self._configuration.colocated = ColocatedConfiguration(read(True, hosted), **values)
        if not self._configuration.cluster_connections:
            self._error(colocated.place, "<colocated> needs a cluster-connection, by which brokers ask each other for backups")
        return read(False, own)

    def _either(self, content: Content, name: str, old: str) -> Content:
        """The element of this name or of its old one, empty where there is none."""
        found = [*content.all(name), *content.all(old)]
        if len(found) > 1:
            self._error(found[1].place, f"<colocated> holds {name} and {old}: expected one of them")
        return found[0] if found else Content(content.place)

    def _check_lock_folder(self, content: Content) -> None:
        """Two brokers of one store must have the same locks, and a request does not tell where they are."""
        colocated, folder = self._configuration.colocated, self._configuration.node_manager_lock_directory
        if colocated is not None and colocated.request_backup and folder not in (None, self._configuration.journal_directory):
            text = (
                "<request-backup> cannot be used with node-manager-lock-directory: the broker that hosts the backup would have other locks"
            )
            self._error(content.place, text)

    def _lock_manager(self, content: Content, role: Content) -> LockManagerConfiguration | None:
        managers = [*content.all("manager"), *role.all("manager")]
        if not managers:
            return None
        manager = managers[0]
        if len(managers) > 1:
            self._error(managers[1].place, "there is a second <manager>: expected one, in the role or beside it")
        if any(name in ("master", "slave") for name, _ in content.inside):
            text = "<manager> cannot be used: under its old name a role is always one of a pair that votes: write primary or backup"
            self._error(manager.place, text)
        for name in _VOTING:
            if role.values.get(name) is not None:
                self._warn(role.at(name), f"<{_element(name)}> has no effect: with a <manager> nobody votes")
        properties = {key: value for each in manager.all("properties") for key, value in each.properties().items()}
        return LockManagerConfiguration(manager.values.get("class_name"), properties)

    def _known_cluster(self, content: Content, shown: str, known: Sequence[str]) -> None:
        """Report a cluster-name that no cluster connection has."""
        cluster = content.values.get("cluster_name")
        if cluster is not None and cluster not in known:
            near = nearest_name(cluster, known) or ", ".join(known) or "none"
            self._error(content.at("cluster_name"), f"{shown}: there is no cluster-connection {cluster}; expected: {near}")

    def _scale_down(self, role: Content) -> None:
        for content in role.all("scale-down"):
            self._configuration.scale_down = self._read_scale_down(content)

    def _read_scale_down(self, content: Content) -> ScaleDownConfiguration:
        if content.text is not None:
            try:
                content.values["enabled"] = BOOLEAN.convert(content.text)
            except ValueError:
                text = f"<scale-down>: {content.text!r} is not valid: expected {BOOLEAN.expected}, or elements"
                self._error(content.place, text)
        values = _known(ScaleDownConfiguration, content.values)
        values["connectors"] = self._connectors(content, "connectors", "scale-down") or ()
        self._discovery_group(content, values, "scale-down", "connectors")
        self._known_cluster(content, "scale-down", [each.name for each in self._configuration.cluster_connections])
        return ScaleDownConfiguration(**values)

    # --- parts of blocks

    def _endpoint(self, content: Content, what: str) -> Endpoint | None:
        """The endpoint of a group; None after an error."""
        values, shown = content.values, f"{what} {content.name}"
        udp = [name for name in _UDP if values.get(name) is not None]
        jgroups = [name for name in _JGROUPS if values.get(name) is not None]
        if udp and jgroups:
            mixed = ", ".join(_element(name) for name in (*udp, *jgroups))
            self._error(content.at(*jgroups), f"{shown} mixes elements of UDP and of JGroups ({mixed}): expected only one kind")
            return None
        missing = [name for name in (_JGROUPS if jgroups else ("group_address", "group_port")) if values.get(name) is None]
        if missing:
            other = "" if jgroups else ", or jgroups-file and jgroups-channel"
            self._error(content.place, f"{shown} lacks {' and '.join(_element(name) for name in missing)}{other}")
            return None
        if jgroups:
            return JGroupsEndpoint(values["jgroups_channel"], values["jgroups_file"])
        address, port = values.get("local_bind_address"), values.get("local_bind_port", -1)
        endpoint = UdpEndpoint(values["group_address"], values["group_port"], address, port)
        try:
            check_endpoint(endpoint)
        except ValueError as error:
            element = "local_bind_port" if port > 0 and not address else "group_address"
            self._error(content.at(element), f"{shown}: <{_element(element)}>: {error}")
            return None
        return endpoint

    def _filter(self, content: Content) -> None:
        self._findings.filter(content.values.get("filter_string"), *content.at("filter_string"))

    def _transformer(self, content: Content) -> TransformerConfiguration | None:
        inner = next(content.all("transformer"), None)
        if inner is None:
            old = content.values.get("transformer_class_name")
            return TransformerConfiguration(old) if old else None
        if "class_name" not in inner.values:
            self._error(inner.place, "<transformer> lacks <class-name>: expected which transformer it is")
        name = inner.values.get("class_name")
        return TransformerConfiguration(name, inner.properties()) if name else None

    def _connectors(self, content: Content, field_name: str, shown: str) -> tuple[str, ...] | None:
        """The names in ``field_name``; None when it is not set, or when one of them is unknown, which is an error."""
        refs: Iterable[Ref] | None = content.values.get(field_name)
        if refs is None:
            return None
        unknown = [ref for ref in refs if ref.name not in self._configuration.connectors]
        for ref in unknown:
            self._error(ref.place, f"{shown}: {self._no_connector(ref.name)}")
        return None if unknown else tuple(ref.name for ref in refs)

    def _no_connector(self, name: str) -> str:
        known = self._configuration.connectors
        return f"there is no connector {masked(name)}{_hint(name, known)}"

    def _discovery_group(self, content: Content, values: dict[str, Any], shown: str, static: str = "static_connectors") -> None:
        group = content.values.get("discovery_group")
        if group is None:
            return
        known = self._groups
        if group not in known:
            text = f"{shown}: there is no discovery-group {group}{_hint(group, known)}"
            self._error(content.at("discovery_group"), text)
        elif content.values.get(static):
            text = f"{shown}: {_element(static)} are there too: the discovery-group {group} has no effect"
            self._warn(content.at("discovery_group"), text)
            values["discovery_group"] = None

    def _lacks(self, content: Content, what: str, missing: Iterable[str], expected: str) -> None:
        names = " and ".join(f"<{_element(name)}>" for name in missing)
        self._error(content.place, f"{what} {content.name} lacks {names}: expected {expected}".replace("  ", " "))

    # --- warnings

    def _warn_about_addresses(self) -> None:
        connections = self._configuration.cluster_connections
        wildcards = self._configuration.wildcards
        for connection in connections:
            place = self._connections[connection.name].at("address")
            for part in _parts(connection.address):
                if wildcards.any_words in part or wildcards.single_word in part:
                    text = f"{part!r} has wildcards, which mean nothing here: only addresses that begin with these very characters match"
                    self._warn(place, f"cluster-connection {connection.name}: <address>: {text}")
            for part, exclusion in _excluded(connection.address):
                text = f"{part!r} matches nothing: {exclusion!r} excludes it"
                self._warn(place, f"cluster-connection {connection.name}: <address>: {text}")
        for one, other in combinations(connections, 2):
            common = _overlap(one.address, other.address)
            if common is not None:
                which = f"addresses that begin with {common}" if common else "every address"
                text = f"cluster-connections {one.name} and {other.name} both match {which}: such messages go to both clusters"
                self._warn(self._connections[other.name].at("address"), text)

    def _warn_about_credentials(self) -> None:
        configuration = self._configuration
        credentials = (configuration.cluster_user, configuration.cluster_password)
        if configuration.cluster_connections and credentials == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD):
            first = configuration.cluster_connections[0].name
            self._warn(self._connections[first].place, DEFAULT_CREDENTIALS)

    def _warn_about_acceptors(self) -> None:
        known = [connection.name for connection in self._configuration.cluster_connections]
        place = next((content.place for content in self._core.all("acceptors")), self._core.place)
        for acceptor in self._configuration.acceptors:
            name = acceptor.parameters.get("clusterConnection")
            if name and name not in known:
                hint = _hint(name, known)
                text = f"acceptor {acceptor.name}: clusterConnection={name} is not a cluster-connection{hint}"
                self._warn(place, f"{text}; its clients are informed of the first one")

    def _error(self, place: Place, text: str) -> None:
        self._findings.error(*place, text)

    def _warn(self, place: Place, text: str) -> None:
        self._findings.warn(*place, text)


def _known(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``values`` that are set and are fields of ``cls``."""
    names = {field.name for field in fields(cls)}
    return {name: value for name, value in values.items() if name in names and value is not None}


def _element(field_name: str) -> str:
    return field_name.replace("_", "-")


def _hint(name: str, known: Iterable[str]) -> str:
    return did_you_mean(name, known, f"; expected: {', '.join(known) or 'none'}")


def _parts(address: str) -> list[str]:
    return [part.strip() for part in address.split(",") if part.strip()]


def _excluded(address: str) -> Iterator[tuple[str, str]]:
    """The parts that an exclusion makes empty, each with that exclusion."""
    parts = _parts(address)
    for part in parts:
        exclusion = next((each for each in parts if len(each) > 1 and each[0] == "!" and part.startswith(each[1:])), None)
        if exclusion is not None:
            yield part, exclusion


def _overlap(one: str, other: str) -> str | None:
    """The beginning of addresses that both lists match, the shortest; None when there are none.  Empty: all addresses."""
    excluded = [part[1:] for part in (*_parts(one), *_parts(other)) if part.startswith("!")]
    included = [[part for part in _parts(text) if not part.startswith("!")] or [""] for text in (one, other)]
    both = (max(left, right, key=len) for left in included[0] for right in included[1] if left.startswith(right) or right.startswith(left))
    free = [beginning for beginning in both if not any(beginning.startswith(part) for part in excluded)]
    return min(free, key=len, default=None)
