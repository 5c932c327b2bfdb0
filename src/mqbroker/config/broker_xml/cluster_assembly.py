"""From the drafts of what a file says about other brokers to the parts of the configuration, checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import combinations
from typing import Any

from mqbroker.config.broker_xml.cluster_drafts import ClusterDrafts, Draft, Place, Ref
from mqbroker.config.broker_xml.transports import Unmask
from mqbroker.config.model.cluster import (
    BridgeConfiguration,
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    DiscoveryGroupConfiguration,
    DivertConfiguration,
    GroupingHandlerConfiguration,
    ScaleDownConfiguration,
    TransformerConfiguration,
)
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER, Configuration
from mqbroker.config.problems import Findings
from mqclient.protocol.discovery import Endpoint, JGroupsEndpoint, UdpEndpoint, check_endpoint
from mqclient.text import nearest_name
from mqclient.urls import masked

_UDP = ("group_address", "group_port", "local_bind_address", "local_bind_port")
_JGROUPS = ("jgroups_file", "jgroups_channel")

DEFAULT_CREDENTIALS = (
    "AMQ222007: Security risk! The cluster runs with the default cluster user and password, which everybody knows: "
    "whoever reaches an acceptor can join as a broker; set cluster-user and cluster-password, the same ones on every broker"
)


def finish_cluster(configuration: Configuration, drafts: ClusterDrafts, findings: Findings, unmask: Unmask) -> None:
    """Put what is in ``drafts`` into ``configuration``, which is complete apart from that."""
    _Assembly(configuration, drafts, findings, unmask).run()


class _Assembly:
    def __init__(self, configuration: Configuration, drafts: ClusterDrafts, findings: Findings, unmask: Unmask) -> None:
        self._configuration = configuration
        self._drafts = drafts
        self._findings = findings
        self._unmask = unmask

    def run(self) -> None:
        configuration, drafts = self._configuration, self._drafts
        for draft in drafts.discovery_groups.values():
            endpoint = self._endpoint(draft, "discovery-group")
            if endpoint is not None:
                values = _known(DiscoveryGroupConfiguration, draft.values)
                configuration.discovery_groups[draft.name] = DiscoveryGroupConfiguration(draft.name, endpoint, **values)
        for draft in drafts.broadcast_groups.values():
            self._broadcast_group(draft)
        for draft in drafts.cluster_connections.values():
            self._cluster_connection(draft)
        for draft in drafts.diverts.values():
            self._divert(draft)
        for draft in drafts.bridges.values():
            self._bridge(draft)
        if drafts.grouping_handler is not None:
            self._grouping_handler(drafts.grouping_handler)
        if drafts.scale_down is not None:
            self._scale_down(drafts.scale_down)
        self._warn_about_addresses()
        self._warn_about_credentials()
        self._warn_about_acceptors()

    # --- blocks

    def _broadcast_group(self, draft: Draft) -> None:
        shown = f"broadcast-group {draft.name}"
        endpoint = self._endpoint(draft, "broadcast-group")
        connectors = self._connectors(draft, "connectors", shown)
        if not connectors and not draft.values.get("connectors"):
            self._warn(draft.place, f"{shown} is left out: it has no connector-ref and would announce nothing")
        elif endpoint is not None and connectors is not None:
            values = _known(BroadcastGroupConfiguration, draft.values) | {"connectors": connectors}
            self._configuration.broadcast_groups.append(BroadcastGroupConfiguration(draft.name, endpoint, **values))

    def _cluster_connection(self, draft: Draft) -> None:
        shown = f"cluster-connection {draft.name}"
        values = _known(ClusterConnectionConfiguration, draft.values)
        values["static_connectors"] = self._connectors(draft, "static_connectors", shown)
        self._discovery_group(draft, values, shown)
        if "forward_when_no_consumers" in draft.values:
            if "message_load_balancing" in values:
                self._warn(
                    draft.at("message_load_balancing"),
                    f"{shown}: forward-when-no-consumers is there too: message-load-balancing has no effect",
                )
            values["message_load_balancing"] = "STRICT" if draft.values["forward_when_no_consumers"] else "ON_DEMAND"
        connector = values.get("connector_ref")
        if connector is None:
            self._error(draft.place, f"{shown} lacks connector-ref: expected the connector by which other brokers reach this one")
        elif connector not in self._configuration.connectors:
            # Artemis starts without the cluster connection too, so an existing file must not stop here.
            text = f"{shown} is left out, as in Artemis: {self._no_connector(connector)}"
            self._warn(draft.at("connector_ref"), text)
        else:
            self._configuration.cluster_connections.append(ClusterConnectionConfiguration(name=draft.name, **values))

    def _divert(self, draft: Draft) -> None:
        values = _known(DivertConfiguration, draft.values)
        values["forwarding_addresses"] = draft.values.get("forwarding_address", ())
        values["transformer"] = _transformer(draft)
        missing = [name for name in ("address", "forwarding_address") if not draft.values.get(name)]
        if missing:
            self._lacks(draft, "divert", missing, "an address")
        else:
            self._configuration.diverts.append(DivertConfiguration(name=draft.name, **values))

    def _bridge(self, draft: Draft) -> None:
        shown = f"bridge {draft.name}"
        values = _known(BridgeConfiguration, draft.values)
        values["static_connectors"] = self._connectors(draft, "static_connectors", shown) or ()
        self._discovery_group(draft, values, shown)
        values["transformer"] = _transformer(draft)
        if "password" in values:
            values["password"] = self._unmask(values["password"], *draft.at("password"))
        if not draft.values.get("queue_name"):
            self._lacks(draft, "bridge", ["queue_name"], "the queue whose messages are forwarded")
        elif not draft.values.get("static_connectors") and "discovery_group" not in draft.values:
            self._error(draft.place, f"{shown} has nowhere to go: expected static-connectors or discovery-group-ref")
        else:
            self._configuration.bridges.append(BridgeConfiguration(name=draft.name, **values))

    def _grouping_handler(self, draft: Draft) -> None:
        if "type" not in draft.values:
            self._lacks(draft, "grouping-handler", ["type"], "LOCAL or REMOTE")
            return
        values = _known(GroupingHandlerConfiguration, draft.values) | {"local": draft.values["type"] == "LOCAL"}
        self._configuration.grouping_handler = GroupingHandlerConfiguration(name=draft.name, **values)

    def _scale_down(self, draft: Draft) -> None:
        values = _known(ScaleDownConfiguration, draft.values)
        values["connectors"] = self._connectors(draft, "connectors", "scale-down") or ()
        self._discovery_group(draft, values, "scale-down", "connectors")
        cluster = values.get("cluster_name")
        known = [each.name for each in self._configuration.cluster_connections]
        if cluster is not None and cluster not in known:
            near = nearest_name(cluster, known) or ", ".join(known) or "none"
            self._error(draft.at("cluster_name"), f"scale-down: there is no cluster-connection {cluster}; expected: {near}")
        self._configuration.scale_down = ScaleDownConfiguration(**values)

    # --- parts of blocks

    def _endpoint(self, draft: Draft, what: str) -> Endpoint | None:
        """Where the group is; None after an error."""
        values, shown = draft.values, f"{what} {draft.name}"
        udp = [name for name in _UDP if values.get(name) is not None]
        jgroups = [name for name in _JGROUPS if values.get(name) is not None]
        if udp and jgroups:
            mixed = ", ".join(_element(name) for name in (*udp, *jgroups))
            self._error(draft.at(*jgroups), f"{shown} mixes elements of UDP and of JGroups ({mixed}): expected only one kind")
            return None
        missing = [name for name in (_JGROUPS if jgroups else ("group_address", "group_port")) if values.get(name) is None]
        if missing:
            other = "" if jgroups else ", or jgroups-file and jgroups-channel"
            self._error(draft.place, f"{shown} lacks {' and '.join(_element(name) for name in missing)}{other}")
            return None
        if jgroups:
            return JGroupsEndpoint(values["jgroups_channel"], values["jgroups_file"])
        address, port = values.get("local_bind_address"), values.get("local_bind_port", -1)
        endpoint = UdpEndpoint(values["group_address"], values["group_port"], address, port)
        try:
            check_endpoint(endpoint)
        except ValueError as error:
            element = "local_bind_port" if port > 0 and not address else "group_address"
            self._error(draft.at(element), f"{shown}: <{_element(element)}>: {error}")
            return None
        return endpoint

    def _connectors(self, draft: Draft, field_name: str, shown: str) -> tuple[str, ...] | None:
        """The names in ``field_name``; None when it is not set, or when one of them is unknown, which is an error."""
        refs: Iterable[Ref] | None = draft.values.get(field_name)
        if refs is None:
            return None
        unknown = [ref for ref in refs if ref.name not in self._configuration.connectors]
        for ref in unknown:
            self._error(ref.place, f"{shown}: {self._no_connector(ref.name)}")
        return None if unknown else tuple(ref.name for ref in refs)

    def _no_connector(self, name: str) -> str:
        known = self._configuration.connectors
        near = nearest_name(name, known)
        return f"there is no connector {masked(name)}{_hint(near, known)}"

    def _discovery_group(self, draft: Draft, values: dict[str, Any], shown: str, static: str = "static_connectors") -> None:
        group = draft.values.get("discovery_group")
        if group is None:
            return
        known = self._drafts.discovery_groups
        if group not in known:
            text = f"{shown}: there is no discovery-group {group}{_hint(nearest_name(group, known), known)}"
            self._error(draft.at("discovery_group"), text)
        elif draft.values.get(static):
            text = f"{shown}: {_element(static)} are there too: the discovery-group {group} has no effect"
            self._warn(draft.at("discovery_group"), text)
            values["discovery_group"] = None

    def _lacks(self, draft: Draft, what: str, missing: Iterable[str], expected: str) -> None:
        names = " and ".join(f"<{_element(name)}>" for name in missing)
        self._error(draft.place, f"{what} {draft.name} lacks {names}: expected {expected}".replace("  ", " "))

    # --- what is odd

    def _warn_about_addresses(self) -> None:
        connections = self._configuration.cluster_connections
        wildcards = self._configuration.wildcards
        for connection in connections:
            place = self._drafts.cluster_connections[connection.name].at("address")
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
                self._warn(self._drafts.cluster_connections[other.name].at("address"), text)

    def _warn_about_credentials(self) -> None:
        configuration = self._configuration
        credentials = (configuration.cluster_user, configuration.cluster_password)
        if configuration.cluster_connections and credentials == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD):
            first = configuration.cluster_connections[0].name
            self._warn(self._drafts.cluster_connections[first].place, DEFAULT_CREDENTIALS)

    def _warn_about_acceptors(self) -> None:
        known = [connection.name for connection in self._configuration.cluster_connections]
        for acceptor in self._configuration.acceptors:
            name = acceptor.parameters.get("clusterConnection")
            if name and name not in known:
                hint = _hint(nearest_name(name, known), known)
                text = f"acceptor {acceptor.name}: clusterConnection={name} is not a cluster-connection{hint}"
                self._warn(self._drafts.acceptors, f"{text}; its clients are informed of the first one")

    def _error(self, place: Place, text: str) -> None:
        self._findings.error(*place, text)

    def _warn(self, place: Place, text: str) -> None:
        self._findings.warn(*place, text)


def _known(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``values`` that ``cls`` has a field for, and that are set."""
    names = {field.name for field in fields(cls)}
    return {name: value for name, value in values.items() if name in names and value is not None}


def _transformer(draft: Draft) -> TransformerConfiguration | None:
    name = draft.values.get("transformer_class_name")
    return TransformerConfiguration(name, draft.values.get("transformer_properties", {})) if name else None


def _element(field_name: str) -> str:
    return field_name.replace("_", "-")


def _hint(near: str | None, known: Iterable[str]) -> str:
    return f"; did you mean {near}?" if near else f"; expected: {', '.join(known) or 'none'}"


def _parts(address: str) -> list[str]:
    return [part.strip() for part in address.split(",") if part.strip()]


def _excluded(address: str) -> Iterator[tuple[str, str]]:
    """Parts of which nothing is left, each with the exclusion that does so."""
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
