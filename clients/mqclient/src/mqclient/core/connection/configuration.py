"""From a connection URL to connectors and settings.

Source: the Artemis manual, chapter "Configuring Core"; names are case-sensitive, an unknown one is no error there, and a warning here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from mqclient import openmq
from mqclient.core.settings import WITHOUT_EFFECT, LocatorSettings, url_parameter_names
from mqclient.protocol.discovery import DiscoveryGroupConfiguration, Endpoint, JGroupsEndpoint, UdpEndpoint, check_endpoint
from mqclient.urls import ConnectionUrl
from mqclient.wire.primitives import TransportConfiguration

NETTY_CONNECTOR = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
"""Java class name that connectors over TCP carry on the wire."""

IN_VM_CONNECTOR = "org.apache.activemq.artemis.core.remoting.impl.invm.InVMConnectorFactory"
"""Java class name of connectors to a broker in the same process (``vm://0``)."""

_IN_VM_DEFAULTS = {"clientFailureCheckPeriod": "-1", "connectionTTL": "-1"}
"""Within a process nothing falls silent."""

TRANSPORT_PARAMETERS = frozenset(
    {
        "name",
        "sslEnabled",
        "trustStorePath",
        "trustStorePassword",
        "trustStoreType",
        "keyStorePath",
        "keyStorePassword",
        "keyStoreType",
        "verifyHost",
        "trustAll",
        "sniHost",
        "enabledCipherSuites",
        "enabledProtocols",
        "crlPath",
        "tcpNoDelay",
        "connect-timeout-millis",
        "localAddress",
        "localPort",
        "httpEnabled",
        "httpClientIdleTime",
        "httpClientIdleScanPeriod",
        "httpRequiresSessionId",
    }
)
"""Connector parameters that the transports of this client honour."""

TRANSPORT_WITHOUT_EFFECT = frozenset(
    {
        "protocols",
        "trustStoreProvider",
        "keyStoreProvider",
        "keyStoreAlias",
        "sslProvider",
        "trustManagerFactoryPlugin",
        "forceSSLParameters",
        "useDefaultSslContext",
        "sslContext",
        "tcpSendBufferSize",
        "tcpReceiveBufferSize",
        "writeBufferLowWaterMark",
        "writeBufferHighWaterMark",
        "remotingThreads",
        "nioRemotingThreads",
        "batchDelay",
        "directDeliver",
        "handshake-timeout",
        "useEpoll",
        "useKQueue",
        "useNio",
        "useGlobalWorkerPool",
        "activemqServerName",
    }
)
"""Connector parameters that are accepted and change nothing."""

REFUSED_WHEN_TRUE = {
    "socksEnabled": "SOCKS proxies are not supported",
    "httpUpgradeEnabled": "an upgrade of HTTP to CORE is not supported (httpEnabled is)",
    "useServlet": "servlets are not supported",
    "proxyProtocolEnabled": "the PROXY protocol is not supported",
}
"""Ignoring these would connect in another way than was asked for: ValueError."""

_RELATED = ("socks", "http", "udp", "jgroups", "localBind")
_OF_DISCOVERY = {"udp": frozenset({"localBindAddress", "localBindPort", "stoppingTimeout"}), "jgroups": frozenset({"file"})}
_TRUE = {"true": True, "false": False}


@dataclass(slots=True)
class Configuration:
    """The content of a URL: either ``connectors``, or none and a ``discovery`` group.  ``warnings`` are sentences for the log."""

    connectors: tuple[TransportConfiguration, ...]
    settings: LocatorSettings
    warnings: list[str] = field(default_factory=list)
    discovery: DiscoveryGroupConfiguration | None = None

    @property
    def brokers(self) -> tuple[TransportConfiguration, ...] | DiscoveryGroupConfiguration:
        """The connectors or the discovery group, as a locator takes them."""
        return self.connectors if self.discovery is None else self.discovery


def configuration_from_url(url: str | ConnectionUrl, known: frozenset[str] = frozenset()) -> Configuration:
    """Read a URL, or an address list of Open Message Queue.  ``known`` are names of parameters that the caller handles (those of JMS).

    Raises ``ValueError`` (:class:`mqclient.urls.UrlError`) for a text that is no URL, a scheme that cannot be used, a bad value.
    """
    parsed = openmq.connection_url(url) if isinstance(url, str) else url
    warnings: list[str] = []
    everything = dict(_IN_VM_DEFAULTS) if parsed.scheme == "vm" else {}
    everything.update(parsed.parameters)
    for endpoint in parsed.endpoints:
        everything.update(endpoint.parameters)
    settings = settings_from_parameters(everything)
    discovers = parsed.scheme in _OF_DISCOVERY
    warnings += _unknown(everything, known, _OF_DISCOVERY.get(parsed.scheme, frozenset()))
    if discovers:
        return Configuration((), settings, warnings, discovery_from_url(parsed, settings))
    connectors = []
    for number, endpoint in enumerate(parsed.endpoints):
        if endpoint.scheme == "vm":
            connectors.append(TransportConfiguration(f"connector-{number}", IN_VM_CONNECTOR, (("serverId", endpoint.host),)))
            continue
        parameters = {"host": endpoint.host, "port": str(endpoint.port)}
        for name, value in endpoint.parameters.items():
            if name in TRANSPORT_PARAMETERS and name != "name":
                parameters[name] = value
            if name in REFUSED_WHEN_TRUE and value.lower() == "true":
                raise ValueError(f"{name}=true: {REFUSED_WHEN_TRUE[name]}")
        name = endpoint.parameters.get("name", f"connector-{number}")
        connectors.append(TransportConfiguration(name, NETTY_CONNECTOR, tuple(parameters.items())))
    return Configuration(tuple(connectors), settings, warnings)


def one_kind(
    brokers: Sequence[TransportConfiguration | DiscoveryGroupConfiguration],
) -> tuple[TransportConfiguration, ...] | DiscoveryGroupConfiguration:
    """Connectors, or the one discovery group among ``brokers``.  Raises ValueError for a mixture."""
    connectors = tuple(each for each in brokers if isinstance(each, TransportConfiguration))
    if len(connectors) == len(brokers):
        return connectors
    first = brokers[0]
    if len(brokers) > 1 or not isinstance(first, DiscoveryGroupConfiguration):
        raise ValueError("expected connectors, or one discovery group")
    return first


def discovery_from_url(url: ConnectionUrl, settings: LocatorSettings) -> DiscoveryGroupConfiguration:
    """The group that a URL with ``udp`` or ``jgroups`` names.  Raises ValueError for an endpoint that cannot be used."""
    if len(url.endpoints) > 1:
        raise ValueError(f"{url.scheme}:// names one group, found {len(url.endpoints)}")
    main = url.endpoints[0]
    parameters = main.parameters
    endpoint: Endpoint
    if main.scheme == "udp":
        port = str(_converted("localBindPort", parameters.get("localBindPort", "-1"), "int"))
        endpoint = UdpEndpoint(main.host, main.port, parameters.get("localBindAddress") or None, int(port))
    else:
        endpoint = JGroupsEndpoint(main.host, parameters.get("file", ""))
    check_endpoint(endpoint)
    return DiscoveryGroupConfiguration(endpoint, settings.refresh_timeout, settings.discovery_initial_wait_timeout)


def settings_from_parameters(parameters: Mapping[str, str]) -> LocatorSettings:
    """The settings among ``parameters``; other parameters are ignored.  Raises ValueError naming parameter, bad value and allowed
    values."""
    settings = LocatorSettings()
    kinds = {entry.name: str(entry.type) for entry in fields(LocatorSettings)}
    names = url_parameter_names()
    names["initialWaitTimeout"] = names["discoveryInitialWaitTimeout"]
    for name, value in parameters.items():
        attribute = names.get(name)
        if attribute is not None:
            setattr(settings, attribute, _converted(name, value, kinds[attribute]))
    return settings


def _converted(name: str, value: str, kind: str) -> object:
    if kind == "bool":
        found = _TRUE.get(value.strip().lower())
        if found is None:
            raise ValueError(f"{name}={value!r}: expected true or false")
        return found
    try:
        if kind == "int":
            return int(value)
        if kind == "float":
            return float(value)
    except ValueError:
        raise ValueError(f"{name}={value!r}: expected {'a whole number' if kind == 'int' else 'a number'}") from None
    return value


def _unknown(parameters: Mapping[str, str], known: frozenset[str], of_discovery: frozenset[str]) -> list[str]:
    names = {*url_parameter_names(), *WITHOUT_EFFECT, *TRANSPORT_PARAMETERS, *TRANSPORT_WITHOUT_EFFECT, *REFUSED_WHEN_TRUE}
    names |= known | of_discovery
    names |= {"host", "port", "initialWaitTimeout"}
    warnings = []
    for name in parameters:
        if name in WITHOUT_EFFECT:
            warnings.append(f"the URL parameter {name} has no effect: {WITHOUT_EFFECT[name]}")
        elif name.startswith(openmq.PREFIX):
            warnings.append(openmq.unknown_attribute(name))
        elif name not in names and not name.startswith(_RELATED):
            near = difflib.get_close_matches(name, names, 1)
            warnings.append(f"the URL parameter {name} is not known and does nothing" + (f"; is {near[0]} meant?" if near else ""))
    return warnings
