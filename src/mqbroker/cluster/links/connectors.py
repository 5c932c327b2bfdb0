"""Connectors of the configuration in the form of announcements between brokers."""

from __future__ import annotations

from mqclient.core.connection.configuration import IN_VM_CONNECTOR, NETTY_CONNECTOR
from mqclient.urls import TransportUri
from mqclient.wire.primitives import TransportConfiguration


def announced_form(uri: TransportUri) -> TransportConfiguration:
    """Name, factory class and parameters as a peer of Java compares them: every value is a text, the port comes before the host."""
    parameters = {key: value for key, value in uri.parameters.items() if key != "name"}
    if uri.scheme == "vm":
        return TransportConfiguration(uri.name, IN_VM_CONNECTOR, (("serverId", uri.host), *parameters.items()))
    return TransportConfiguration(uri.name, NETTY_CONNECTOR, (("port", str(uri.port)), ("host", uri.host), *parameters.items()))
