"""A JGroups channel over TCP: members find each other, and one connection between two of them carries the announcements of both.

A member that sends listens on a port and tells the others where; a member that only receives connects to these ports.  Source:
``protocol-spec/``, chapter "Discovery".
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.core.discovery.jgroups import Channel, ChannelHandle
from mqclient.core.discovery.network import Listener, Multicast, Network
from mqclient.core.runtime import BroadcastLink, Link, Runtime, Timer
from mqclient.errors import MalformedPacketError, MQError, NotConnectedError
from mqclient.protocol.jgroups import (
    ANNOUNCEMENT,
    MEMBER,
    MEMBERS,
    MEMBERS_TOLD_MAX,
    Message,
    MessageSplitter,
    Place,
    TcpStack,
    decode_message,
    decode_places,
    encode_message,
    encode_places,
)
from mqclient.wire.primitives import TransportConfiguration

CONNECTIONS_MAX = 256
"""Connections of one channel over TCP; further ones are not accepted."""

LEARNED_PLACES_MAX = 256
"""Places that others have told of, kept by one channel."""

_TURN_SECONDS = 2.0
"""Between attempts to reach members, and between signs of life."""

_SILENCE_SECONDS = 10.0
"""A connection without a sign of life for so long is given up."""

_CONNECT_SECONDS = 2.0
_FAILURES_MAX = 10
"""Attempts in vain after which a place that another member has told of is forgotten."""

_FILE_SUFFIX = ".mqbroker"
_FILE_SIZE_MAX = 4096


class MemberLink:
    """A connection to a member; implements :class:`mqclient.core.runtime.LinkHandler`.  ``place``: where it was made to, None: accepted."""

    def __init__(self, channel: MemberChannel, place: Place | None, now: float) -> None:
        self.place = place
        self.member: bytes | None = None
        """The id of the member, once it has introduced itself."""
        self.heard_at = now
        self.link: Link | None = None
        self.connecting: Any = None
        """The future of the link, while it is awaited; None otherwise."""
        self.over = False
        self._channel = channel
        self._splitter = MessageSplitter(self._message)
        self._paused = False

    def attach(self, link: Link) -> None:
        self.link = link
        if self.over:
            link.abort()

    def send(self, message: bytes) -> None:
        """Ignored while the peer does not read: gathered announcements would be old when they arrive."""
        if self.link is not None and not self.over and not self._paused:
            self.link.write(MessageSplitter.framed(message))

    def close(self) -> None:
        if not self.over:
            self.over = True
            if self.link is not None:
                self.link.abort()
            elif self.connecting is not None:
                self.connecting.cancel()
            self._channel.link_over(self)

    @property
    def peer(self) -> str:
        return self.link.peer if self.link is not None else ""

    def data_received(self, data: bytes) -> None:
        if self.over:
            return
        self.heard_at = self._channel.runtime.now()
        try:
            self._splitter.feed(data)
        except MalformedPacketError:
            if not self.over:
                self._channel.damaged(self.peer)
                self.close()

    def link_lost(self, reason: str) -> None:
        if not self.over:
            self.over = True
            self._channel.link_over(self)

    def link_paused(self) -> None:
        self._paused = True

    def link_resumed(self) -> None:
        self._paused = False

    def _message(self, message: Message) -> None:
        if not self.over:
            self._channel.message(self, message)


class MemberChannel(Channel):
    """The transport TCP, and the ways to find members that go with it: TCPPING, MPING, FILE_PING."""

    def __init__(self, runtime: Runtime, network: Network, name: str, closed: Callable[[], None], stack: TcpStack) -> None:
        super().__init__(runtime, network, name, closed)
        self._stack = stack
        self._running = False
        self._listener: Listener | None = None
        self._group: BroadcastLink | None = None
        self._timer: Timer | None = None
        self._links: list[MemberLink] = []
        self._given = [(host, port + more) for host, port, further in stack.members for more in range(further + 1)]
        self._learned: dict[Place, int] = {}
        """Places that were told of, with the number of attempts in vain."""
        self._latest: dict[ChannelHandle, bytes] = {}
        """The last announcement that each handle has sent."""
        self._who: dict[Place, bytes] = {}
        """The member that answered at each place."""
        folder = stack.folder
        self._folder = None if folder is None else posixpath.join(folder, quote(name, safe=""))
        self._port_failing = False
        self._folder_failing = False
        self._folder_busy = False

    # --- life ---

    def start(self) -> None:
        if self._running:
            return
        if self._stack.multicast is not None:
            place = self._stack.multicast
            self._group = self.network.multicast(Multicast(place.address, place.port, place.interface, ttl=place.ttl), self._datagram)
        self._running = True
        self._timer = self.runtime.call_later(0, self._turn)

    def serve(self) -> None:
        if self._listener is not None:
            return
        stack = self._stack
        problem: OSError | None = None
        for port in range(stack.bind_port, stack.bind_port + stack.port_range + 1):
            try:
                self._listener = self.network.listen(stack.bind_address or "", port, self._accepted)
                break
            except OSError as error:
                problem = error
        if self._listener is None:
            last = stack.bind_port + stack.port_range
            raise NotConnectedError(f"JGroups channel {self.name}: no free port from {stack.bind_port} to {last}: {problem}")
        self._introduce()

    def stop(self) -> None:
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            if self._folder is not None:
                self.network.remove_file(self._folder, self._file_name(listener))
        group, self._group = self._group, None
        if group is not None:
            group.close()
        for link in list(self._links):
            link.close()

    def send(self, handle: ChannelHandle, data: bytes) -> None:
        super().send(handle, data)
        if self.has(handle):
            self._latest[handle] = self.announcement(data)

    def leave(self, handle: ChannelHandle) -> None:
        self._latest.pop(handle, None)
        super().leave(handle)

    def transmit(self, message: bytes) -> None:
        if self._running and self._listener is None:
            try:
                self.serve()
                self._port_failing = False
            except NotConnectedError as error:
                if not self._port_failing:
                    self._port_failing = True
                    self.runtime.log_warning(str(error))
        for link in list(self._links):
            if link.member is not None:
                link.send(message)

    # --- links ---

    def message(self, link: MemberLink, message: Message) -> None:
        """From a link.  Raises :class:`MalformedPacketError`."""
        if message.channel != self.name:
            link.close()
        elif message.kind == MEMBER:
            self._introduced(link, message)
        elif link.member is None:
            link.close()
        elif message.kind == MEMBERS:
            for place in decode_places(message.payload):
                self._learn(place)
            self._dial()
        elif message.kind == ANNOUNCEMENT:
            self.received(message, link.peer)

    def link_over(self, link: MemberLink) -> None:
        if link in self._links:
            self._links.remove(link)

    def _accepted(self, link: Link) -> MemberLink:
        handler = MemberLink(self, None, self.runtime.now())
        handler.attach(link)
        if not self._running or len(self._links) >= CONNECTIONS_MAX:
            handler.close()
            return handler
        self._links.append(handler)
        handler.send(self._introduction())
        return handler

    def _introduced(self, link: MemberLink, message: Message) -> None:
        places = decode_places(message.payload)
        if link.place is not None:
            self._answers(link.place, message.sender)
        if message.sender == self.id:
            link.close()
            return
        if link.member is not None:
            return  # a sign of life
        for other in list(self._links):
            if other.member == message.sender and other is not link:
                # Both sides decide alike: of two connections the one that the member with the smaller id has made is kept.
                if (other.place is None) != (link.place is None) and (other.place is not None) == (self.id < message.sender):
                    link.close()
                    return
                other.close()
        link.member = message.sender
        seen = link.peer if link.place is None else link.place[0]
        for host, port in places:
            if port:
                self._learn((host or seen, port))
                self._answers((host or seen, port), message.sender)
        known = [place for place, who in self._who.items() if who not in (self.id, message.sender) and self._is_linked(who)]
        if known:
            link.send(self._encoded(MEMBERS, tuple(known[:MEMBERS_TOLD_MAX])))
        self._catch_up(link)

    def _catch_up(self, link: MemberLink) -> None:
        """A new member need not wait for the next announcement."""
        for message in self._latest.values():
            link.send(message)

    def _learn(self, place: Place) -> None:
        host, port = place
        if host and port and place not in self._given and place not in self._learned and len(self._learned) < LEARNED_PLACES_MAX:
            self._learned[place] = 0

    def _answers(self, place: Place, member: bytes) -> None:
        """Note the member at a place."""
        if place in self._learned:
            self._learned[place] = 0
        elif place not in self._given:
            return
        self._who[place] = member

    def _is_linked(self, member: bytes) -> bool:
        return any(link.member == member for link in self._links)

    def _dial(self) -> None:
        dialled = {link.place for link in self._links}
        for place in (*self._given, *self._learned):
            who = self._who.get(place)
            known = who is not None and (who == self.id or self._is_linked(who))
            if not known and place not in dialled and len(self._links) < CONNECTIONS_MAX:
                link = MemberLink(self, place, self.runtime.now())
                self._links.append(link)
                self._watch(self.runtime.spawn(self._connect(link, place)))

    async def _connect(self, link: MemberLink, place: Place) -> None:
        host, port = place
        connector = TransportConfiguration(f"JGroups channel {self.name}", NETTY_CONNECTOR, (("host", host), ("port", str(port))))
        link.connecting = self.runtime.connect(connector, link, _CONNECT_SECONDS)
        try:
            link.attach(await link.connecting)
        except BaseException as error:
            if link.over:
                return  # the attempt was given up, so every error is ignored
            link.link_lost("")
            if not isinstance(error, (MQError, OSError, ValueError)):
                raise
            if place in self._learned:
                self._learned[place] += 1
                if self._learned[place] >= _FAILURES_MAX:
                    del self._learned[place]
                    self._who.pop(place, None)
        else:
            link.send(self._introduction())
            if link.member is not None:
                self._catch_up(link)  # it was introduced while this side could not yet send

    # --- turns ---

    def _turn(self) -> None:
        self._timer = self.runtime.call_later(_TURN_SECONDS, self._turn)
        now = self.runtime.now()
        for link in list(self._links):
            if link.link is not None and now - link.heard_at >= _SILENCE_SECONDS:
                link.close()
        self._introduce()
        self._dial()
        if self._folder is not None and not self._folder_busy:
            self._watch(self.runtime.spawn(self._look_into(self._folder)))

    def _introduce(self) -> None:
        """Tell all members where this one listens."""
        introduction = self._introduction()
        for link in list(self._links):
            link.send(introduction)
        if self._group is not None and self._listener is not None:
            self._group.send(introduction)

    def _introduction(self) -> bytes:
        listener = self._listener
        place = ("", 0) if listener is None else (self._stack.external_address or self._stack.bind_address or "", listener.port)
        return self._encoded(MEMBER, (place,))

    def _encoded(self, kind: int, places: tuple[Place, ...]) -> bytes:
        return encode_message(kind, self.id, self.name, encode_places(places))

    def _datagram(self, data: bytes, source: str) -> None:
        """Another member tells by multicast where it listens."""
        try:
            message = decode_message(data)
            places = decode_places(message.payload) if message.kind == MEMBER else ()
        except MalformedPacketError:
            self.damaged(source)
            return
        self._told(message, places, source.rpartition(":")[0])

    def _told(self, message: Message, places: tuple[Place, ...], source: str) -> None:
        if message.channel == self.name and message.sender != self.id:
            for host, port in places:
                self._learn((host or source, port))
            self._dial()

    async def _look_into(self, folder: str) -> None:
        """Write this member's place into the folder, and read the places of other members."""
        self._folder_busy = True
        try:
            listener = self._listener
            if listener is not None:
                shown = self._encoded(MEMBER, ((self._shown_address(), listener.port),))
                await self.network.write_file(folder, self._file_name(listener), shown)
                if self._listener is not listener:
                    self.network.remove_file(folder, self._file_name(listener))
            contents = await self.network.read_folder(folder, _FILE_SUFFIX, LEARNED_PLACES_MAX, _FILE_SIZE_MAX)
            self._folder_failing = False
        except OSError as error:
            if not self._folder_failing:
                self._folder_failing = True
                self.runtime.log_warning(f"JGroups channel {self.name}: the folder {folder} cannot be used, more attempts follow: {error}")
            return
        finally:
            self._folder_busy = False
        if not self._running:
            return
        for content in contents:
            try:
                message = decode_message(content)
                places = decode_places(message.payload)
            except MalformedPacketError:
                self.damaged(folder)
            else:
                self._told(message, places, "")

    def _file_name(self, listener: Listener) -> str:
        # By its place and not by its id: a member that starts again takes the place of its former self.
        return f"{quote(self._shown_address(), safe='')}_{listener.port}{_FILE_SUFFIX}"

    def _shown_address(self) -> str:
        return self._stack.external_address or self._stack.bind_address or self.network.local_address()

    def _watch(self, work: Any) -> None:
        """Log the error of a task that is not awaited."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                self.runtime.log_failure(f"JGroups channel {self.name}", error)

        self.runtime.spawn(watched())
