"""The cluster channel of a connection, for packets between brokers that belong to no session.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mqclient.core.connection.channel import Channel
from mqclient.core.runtime import Runtime
from mqclient.core.settings import LocatorSettings
from mqclient.errors import MQError
from mqclient.protocol.channel import SessionChannel
from mqclient.wire.frames import CLUSTER_CHANNEL, HEADER_SIZE
from mqclient.wire.packets import VERSION_MAX, Packet, decode_packet

P = TypeVar("P", bound=Packet)


class ClusterChannel:
    """Channel 3 of one connection.  Packets that answer no call are ignored, unless :meth:`listen` asks for them.

    ``fail`` ends the connection, ``write_frame`` writes to it.
    """

    def __init__(
        self, runtime: Runtime, settings: LocatorSettings, fail: Callable[[MQError], None], write_frame: Callable[[bytes], None]
    ) -> None:
        self._channel = Channel(
            runtime,
            SessionChannel(CLUSTER_CHANNEL, -1, VERSION_MAX),
            settings.call_timeout,
            settings.call_failover_timeout,
            fail,
        )
        self._channel.attach(write_frame)
        self._channel.unlock()
        self._listeners: dict[type[Packet], Callable[[Any], object]] = {}
        self.on_close: Callable[[MQError], object] | None = None
        """Called with the reason when the connection is over."""

    def send(self, packet: Packet) -> None:
        """Send without waiting for an answer."""
        self._channel.send(packet)

    async def call(self, packet: Packet, answer: type[P]) -> P:
        """The answer to ``packet``.

        Raises ``ConnectionTimedOutError`` after ``call_timeout``, with which the connection is given up.
        """
        future: Any = self._channel.call(packet, answer)
        received: P = await future
        return received

    def listen(self, packet_class: type[P], function: Callable[[P], object]) -> None:
        """Call ``function`` with each packet of this class, which answers no call."""
        self._listeners[packet_class] = function

    def close(self, error: Any) -> None:
        """The connection is over."""
        self._channel.close(error, error)
        if self.on_close is not None:
            self.on_close(error)

    # --- events of the connection

    def frame_received(self, packet_type: int, frame: bytes) -> None:
        packet = decode_packet(packet_type, frame[HEADER_SIZE:], VERSION_MAX)
        listener = self._listeners.get(type(packet))
        if listener is None:
            self._channel.answered(packet)
        else:
            listener(packet)

    def flush_confirmations(self) -> None:
        """Nothing to do: this channel has no confirmations."""

    def link_paused(self) -> None:
        self._channel.pause()

    def link_resumed(self) -> None:
        self._channel.resume()
