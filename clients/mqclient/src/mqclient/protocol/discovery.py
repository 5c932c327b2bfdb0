"""Where brokers announce themselves, and what they say there.

Source: ``protocol-spec/``, chapter "Discovery"; the Artemis manual, chapter "Clusters", section "Server discovery".
"""

from __future__ import annotations

from dataclasses import dataclass

REFRESH_TIMEOUT_MS = 10000
INITIAL_WAIT_TIMEOUT_MS = 10000


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """A multicast group.

    ``local_bind_address`` chooses the network interface (None: the system does); ``local_bind_port`` is the port to send from, -1 = any.
    """

    group_address: str
    group_port: int
    local_bind_address: str | None = None
    local_bind_port: int = -1


@dataclass(frozen=True, slots=True)
class JGroupsEndpoint:
    """A JGroups channel; ``file`` is the name of the file that describes the protocol stack."""

    channel: str
    file: str


Endpoint = UdpEndpoint | JGroupsEndpoint
