"""The members of a cluster, as the driver finds them and the executors connect to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqclient.core.connection.configuration import TRANSPORT_PARAMETERS
from mqclient.core.connection.connection import describe
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.wire.primitives import TransportConfiguration

OF_THIS_SIDE: Final = TRANSPORT_PARAMETERS - {"name", "sslEnabled", "tcpNoDelay", "connect-timeout-millis", "localAddress", "localPort"}
"""Parameters of TLS that a broker does not announce with its connector, because every client has its own."""


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """One member of a cluster, or a broker that is alone: its node id, and the connectors of the member and its backup, in that order."""

    node_id: str
    """Empty: any node that answers at ``connectors``."""
    connectors: tuple[TransportConfiguration, ...]
    alone: bool = False
    """Does the broker say that it belongs to no cluster?"""

    def __repr__(self) -> str:
        # Parameters of TLS have passwords.
        return f"{self.node_id} ({places(self.connectors)})"


def places(brokers: Sequence[TransportConfiguration] | DiscoveryGroupConfiguration) -> str:
    """Hosts and ports, for messages."""
    if isinstance(brokers, DiscoveryGroupConfiguration):
        return "the discovery group"
    return ", ".join(describe(each) for each in brokers)


def with_tls_of(own: TransportConfiguration, announced: TransportConfiguration) -> TransportConfiguration:
    """An announced connector with the TLS settings of the own connection: its trust and key stores."""
    known = dict(announced.parameters)
    if str(known.get("sslEnabled", "")).lower() != "true":
        return announced
    missing = tuple((name, value) for name, value in own.parameters if name in OF_THIS_SIDE and name not in known)
    return TransportConfiguration(announced.name, announced.factory_class_name, (*announced.parameters, *missing))
