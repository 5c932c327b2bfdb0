"""Endpoints on which brokers announce themselves: UDP multicast, and the channels of JGroups stack files.

Source: the Artemis manual, chapter "Clusters", section "Server discovery"; ``protocol-spec/``, chapter "Discovery".
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from mqclient.core.discovery.network import Multicast, Network, Received
from mqclient.core.runtime import BroadcastLink, Runtime
from mqclient.protocol.discovery import Endpoint, JGroupsEndpoint, UdpEndpoint, check_endpoint

if TYPE_CHECKING:
    from mqclient.core.discovery.jgroups import Channel


class Broadcasts:
    """The open endpoints of a runtime.  A JGroups channel that is open already is shared, whatever stack file is named."""

    def __init__(self, runtime: Runtime, network: Network) -> None:
        self._runtime = runtime
        self._network = network
        self._channels: dict[str, Channel] = {}

    def open(self, endpoint: Endpoint, received: Received | None) -> BroadcastLink:
        """Implements :meth:`mqclient.core.runtime.Runtime.open_broadcast`."""
        check_endpoint(endpoint)
        if isinstance(endpoint, UdpEndpoint):
            group = Multicast(endpoint.group_address, endpoint.group_port, endpoint.local_bind_address or None, endpoint.local_bind_port)
            return self._network.multicast(group, received)
        channel = self._channels.get(endpoint.channel)
        if channel is None:
            channel = self._make(endpoint)
            self._channels[endpoint.channel] = channel
        return channel.open(received)

    def _make(self, endpoint: JGroupsEndpoint) -> Channel:
        # Few need JGroups, and every start of a program would pay for it.
        from mqclient.core.discovery.jgroups import MulticastChannel
        from mqclient.core.discovery.members import MemberChannel
        from mqclient.protocol.jgroups import TcpStack, read_stack

        try:
            content = self._network.read_file(endpoint.file)
        except OSError as error:
            raise ValueError(f"the stack file {endpoint.file} of JGroups channel {endpoint.channel} cannot be read: {error}") from error
        stack = read_stack(content, endpoint.file, self._network.environment)
        runtime, network = self._runtime, self._network
        about = f"JGroups channel {endpoint.channel}"
        runtime.log_warning(f"{about}: it joins mqbrokers and mqclients; members that run JGroups itself (brokers in Java) are not reached")
        if stack.unprotected:
            names = ", ".join(stack.unprotected)
            runtime.log_warning(f"{about}: {names} of its stack file is not applied: announcements are neither secret nor signed")

        def closed() -> None:
            del self._channels[endpoint.channel]

        if not isinstance(stack.transport, TcpStack):
            return MulticastChannel(runtime, network, endpoint.channel, closed, stack.transport)
        transport = stack.transport
        if transport.folder is not None:
            transport = replace(transport, folder=posixpath.join(posixpath.dirname(endpoint.file), transport.folder))
        return MemberChannel(runtime, network, endpoint.channel, closed, transport)
