"""A JGroups channel that several share in one process, and the kind of it that multicasts everything.

Source: the Artemis manual, chapter "Clusters"; ``protocol-spec/``, chapter "Discovery".
"""

from __future__ import annotations

from collections.abc import Callable

from mqclient.core.discovery.network import Multicast, Network, Received
from mqclient.core.runtime import BroadcastLink, Runtime
from mqclient.errors import MalformedPacketError
from mqclient.protocol.jgroups import ANNOUNCEMENT, ID_SIZE, Message, MulticastPlace, decode_message, encode_message


class ChannelHandle:
    """Implements :class:`mqclient.core.runtime.BroadcastLink`; one user of a channel."""

    def __init__(self, channel: Channel, received: Received | None) -> None:
        self.received = received
        self._channel = channel

    def send(self, data: bytes) -> None:
        self._channel.send(self, data)

    def close(self) -> None:
        self._channel.leave(self)


class Channel:
    """``closed`` is called when its last user has left; :meth:`open` of a subclass may be called again and again before."""

    def __init__(self, runtime: Runtime, network: Network, name: str, closed: Callable[[], None]) -> None:
        encode_message(ANNOUNCEMENT, bytes(ID_SIZE), name, b"")  # the name fits
        self.runtime = runtime
        self.network = network
        self.name = name
        self.id = runtime.random_bytes(ID_SIZE)
        self._closed = closed
        self._handles: list[ChannelHandle] = []

    def open(self, received: Received | None) -> BroadcastLink:
        """Raises ``NotConnectedError`` when the system refuses."""
        handle = ChannelHandle(self, received)
        try:
            self.start()
            if received is None:
                self.serve()
        except BaseException:
            if not self._handles:
                self.stop()
                self._closed()
            raise
        self._handles.append(handle)
        return handle

    def leave(self, handle: ChannelHandle) -> None:
        if handle in self._handles:
            self._handles.remove(handle)
            if not self._handles:
                self.stop()
                self._closed()

    def send(self, handle: ChannelHandle, data: bytes) -> None:
        """To all other members, and to the other users of this one."""
        if handle not in self._handles:
            return
        self.transmit(self.announcement(data))
        self._deliver(data, "this process", handle)

    def announcement(self, data: bytes) -> bytes:
        return encode_message(ANNOUNCEMENT, self.id, self.name, data)

    def has(self, handle: ChannelHandle) -> bool:
        return handle in self._handles

    def received(self, message: Message, source: str) -> None:
        """An announcement has come from another member."""
        if message.channel == self.name and message.sender != self.id:
            self._deliver(message.payload, source, None)

    def damaged(self, source: str) -> None:
        """Count bytes that are no message of this form: listeners count them as unreadable."""
        self._deliver(b"", source, None)

    # --- for subclasses ---

    def start(self) -> None:
        """Join.  Called again and again: only the first time something happens.  Raises ``NotConnectedError``."""
        raise NotImplementedError

    def serve(self) -> None:
        """A handle of this channel wants to send.  Raises ``NotConnectedError``."""

    def stop(self) -> None:
        raise NotImplementedError

    def transmit(self, message: bytes) -> None:
        raise NotImplementedError

    def _deliver(self, data: bytes, source: str, but: ChannelHandle | None) -> None:
        for handle in list(self._handles):
            if handle is not but and handle.received is not None and handle in self._handles:
                handle.received(data, source)


class MulticastChannel(Channel):
    """The transport UDP: every message is a datagram to a multicast group."""

    def __init__(self, runtime: Runtime, network: Network, name: str, closed: Callable[[], None], place: MulticastPlace) -> None:
        super().__init__(runtime, network, name, closed)
        self._group = Multicast(place.address, place.port, place.interface, ttl=place.ttl)
        self._link: BroadcastLink | None = None

    def start(self) -> None:
        if self._link is None:
            self._link = self.network.multicast(self._group, self._datagram)

    def stop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def transmit(self, message: bytes) -> None:
        if self._link is not None:
            self._link.send(message)

    def _datagram(self, data: bytes, source: str) -> None:
        try:
            message = decode_message(data)
        except MalformedPacketError:
            self.damaged(source)
            return
        if message.kind == ANNOUNCEMENT:
            self.received(message, source)
