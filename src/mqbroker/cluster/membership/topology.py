"""The topology of one cluster connection: merged, guarded, and sent to every subscriber.

Source: ``protocol-spec/``, chapter "Topology".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.cluster.membership.client_view import Appearance, ClientView
from mqbroker.messaging.event import Event
from mqbroker.server.transport.topology import answer_alone, member_down, member_up
from mqclient.protocol.topology import MEMBERS_MAX, Topology, TopologyMember, same_connector, same_place
from mqclient.wire.frames import PING_CHANNEL, frame
from mqclient.wire.packets import Packet, encode_packet

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.server.transport.connection import ServerConnection
    from mqclient.wire.primitives import TransportConfiguration

SUBSCRIPTIONS_MAX = 10
"""Subscriptions of one connection that are answered with the whole topology; a peer needs one."""

NAME_LENGTH_MAX = 1024
"""Characters of a node id, a group name or the name of a connector that a member announces."""

PARAMETERS_MAX = 100
"""Parameters of one announced connector."""

CONNECTOR_LENGTH_MAX = 8192
"""Characters of one announced connector with all its parameters."""

EVENT_ID_MAX = 1 << 62
"""The latest time of an event, in ms since 1970, that is believed: later events must have room above it."""

RAISES_MAX = 10
"""Announcements of other brokers with the own node id that this one outdoes in one activation.

A broker that has died announces nothing more.  Two that are active and reach each other only through others would outdo each other for
ever.
"""

REPEATED_WARNING_SECONDS = 10.0
"""The same kind of warning is written at most once in this time."""

log = Logger(namespace="mqbroker.cluster")


class _Subscription:
    """The news for one connection.  A peer that does not read gets the newest state of each changed member when it reads again."""

    __slots__ = ("_behind", "_connection", "_topology", "tables")

    def __init__(self, topology: ClusterTopology, connection: ServerConnection) -> None:
        self._topology = topology
        self._connection = connection
        self._behind: dict[str, int] = {}
        """Node ids of the changed members that the peer was not told of, with the ids of the events."""
        self.tables = 0

    def send_table(self) -> None:
        self.tables += 1
        topology, connection = self._topology, self._connection
        members = [topology.shown(member, connection) for member in topology if not topology.hidden(member.node_id, connection)]
        if not members:
            answer_alone(self._connection)
        for member in members:
            self._send_up(member, last=member is members[-1])

    def changed(self, member: TopologyMember, event_id: int, up: bool, frames: dict[int, bytes]) -> None:
        """A member has changed.  ``frames`` are the frames for this change by version, shared by all subscriptions of the same kind."""
        connection = self._connection
        if not connection.writable:
            self._behind[member.node_id] = event_id
            return
        data = frames.get(connection.version)
        if data is None:
            server_version = connection.server.version
            packet: Packet
            if up:
                packet = member_up(member, False, connection.version, server_version)
            else:
                packet = member_down(member.node_id, event_id, connection.version)
            data = frames[connection.version] = _framed(packet, connection)
        connection.send_frame(data)

    def writable(self) -> None:
        behind, self._behind = self._behind, {}
        for node_id, event_id in behind.items():
            member = self._topology.get(node_id)
            if member is not None:
                self._send_up(self._topology.shown(member, self._connection), last=False)
            else:
                self._connection.send(member_down(node_id, event_id, self._connection.version), PING_CHANNEL)

    def _send_up(self, member: TopologyMember, last: bool) -> None:
        connection = self._connection
        connection.send(member_up(member, last, connection.version, connection.server.version), PING_CHANNEL)


def _framed(packet: Packet, connection: ServerConnection) -> bytes:
    return frame(packet.TYPE, PING_CHANNEL, encode_packet(packet, connection.version or connection.server.version))


class ClusterTopology(Topology):
    """The members as this broker knows them, itself included.

    ``node_id`` is this broker's; ``rival`` is a text for health checks about another broker announced with the same node id, None without
    one.  With ``stand_ins`` clients are told that each member stands in for another one
    (:mod:`mqbroker.cluster.membership.client_view`).  Announcements of the own node id with another connector are refused, and so are
    announcements beyond a limit.
    """

    __slots__ = (
        "_appears",
        "_backups",
        "_client_view",
        "_clock",
        "_own",
        "_raises_left",
        "_repeats",
        "_rival_event",
        "_stopped",
        "_subscriptions",
        "_warned",
        "contested",
        "heard_from",
        "node_id",
        "raised",
        "rival",
        "scaled_down",
    )

    def __init__(self, node_id: str, clock: Clock, *, stand_ins: bool = False) -> None:
        super().__init__()
        self._client_view = ClientView() if stand_ins else None
        self.node_id = node_id
        self.rival: str | None = None
        self.contested: Event[TransportConfiguration] = Event()
        """Each connector but the own one with which the own node id is announced, by a member or in a discovery group, also old ones."""
        self.heard_from: Event[str] = Event()
        """The node id of a broker that has announced itself here, over a connection of its own; it need not be a member, nor news."""
        self.scaled_down: Event[str] = Event()
        """The node id of a member that leaves for good, since another broker gets what it has."""
        self.raised: Event[()] = Event()
        """The own entry has a later event id than the announcements of a broker that has died: others have to hear of it, also those
        without a link to this broker."""
        self._rival_event = 0
        """The latest event id with which another broker was announced as this node; 0 without one."""
        self._raises_left = RAISES_MAX
        self._stopped = False
        self._clock = clock
        self._own: TransportConfiguration | None = None
        self._subscriptions: dict[ServerConnection, _Subscription] = {}
        self._appears: dict[ServerConnection, Appearance] = {}
        """Clients that have come from a broker that was taken over."""
        self._backups: dict[ServerConnection, TopologyMember] = {}
        """The backups that have announced themselves, by their connections, which they keep while they wait."""
        self._repeats: Cancellable | None = None
        self._warned: dict[str, float] = {}
        self.add_listener(self._push)

    # --- this broker

    def own(
        self,
        primary: TransportConfiguration,
        *,
        backup_group_name: str | None = None,
        scale_down_group_name: str | None = None,
        attempts: int = 2,
        interval_ms: int = 1000,
    ) -> None:
        """This broker has become active: enter it, and announce it again ``attempts`` times, every ``interval_ms``."""
        self._own = primary
        for former in [each for each in self if self._is_former(each)]:
            self.drop(former.node_id)
        self.rival = None
        self._rival_event = 0
        self._raises_left = RAISES_MAX
        self._stopped = False
        member = TopologyMember(self.node_id, 0, primary, None, backup_group_name, scale_down_group_name)
        self.activated(member, self._clock.wall_ms())
        self._repeat_later(attempts, interval_ms)

    def _repeat_later(self, attempts: int, interval_ms: int) -> None:
        self._stop_repeats()
        if attempts > 0 and interval_ms > 0:
            self._repeats = self._clock.call_later(interval_ms / 1000, self._repeat, attempts, interval_ms)

    def _repeat(self, attempts: int, interval_ms: int) -> None:
        self._repeats = None
        member = self.get(self.node_id)
        if member is not None:
            # This broker may have contradicted a member whose clock is ahead.
            self.activated(replace(member, primary=self._own), max(self._clock.wall_ms(), member.unique_event_id))
        self._repeat_later(attempts - 1, interval_ms)

    def stop(self) -> None:
        """Repeat the own announcement no more: this broker is going to leave."""
        self._stopped = True
        self._stop_repeats()

    def _stop_repeats(self) -> None:
        if self._repeats is not None:
            self._repeats.cancel()
            self._repeats = None

    # --- others

    def up(self, member: TopologyMember) -> bool:
        """As :meth:`Topology.up`, behind the guard of the own node id and the limits."""
        return self._is_time(member.node_id, member.unique_event_id) and self._up(member)

    def _up(self, member: TopologyMember) -> bool:
        if self._refused(member) or self._is_former(member):
            return False
        own = self._own
        if member.node_id == self.node_id and own is not None:
            if member.primary is None:
                member = replace(member, primary=own)
            elif not same_connector(member.primary, own):
                self.contested(member.primary)
                if self._is_news(member):
                    self._rival_event = max(self._rival_event, member.unique_event_id)
                    self._note_rival(member.primary)
                    return False
        changed = super().up(member)
        if not changed and self.get(member.node_id) is None:
            # The sender does not know that the member has left.  A member that is there after all contradicts the news itself, or another
            # broker with a link to it does.
            self._push(member, False)
        return changed

    def _is_former(self, member: TopologyMember) -> bool:
        """Is it another node at the place of this broker, which has been that node before?  Others may still announce it."""
        return member.node_id != self.node_id and self._own is not None and same_connector(member.primary, self._own)

    def clear_rival(self) -> None:
        """The announced places were visited: no other broker has the own node id.

        Others may know of an announcement by one that has died, whose clock was ahead.  They have dropped the announcement of this broker,
        and would drop each further one until its clock has caught up.  So it announces itself again, above that event id.
        """
        self.rival = None
        own, rival_event = self.get(self.node_id), self._rival_event
        self._rival_event = 0
        if own is not None and rival_event and self._raises_left and not self._stopped:
            self._raises_left -= 1
            if own.unique_event_id <= rival_event:
                self.activated(own, rival_event + 1)
            self.raised()

    def _is_news(self, member: TopologyMember) -> bool:
        """Is the announcement newer than the known one?  Peers may still announce an earlier life of this broker."""
        known = self.get(member.node_id)
        return known is None or member.unique_event_id > known.unique_event_id

    def _note_rival(self, connector: TransportConfiguration) -> None:
        parameters = dict(connector.parameters)
        place = f"{parameters.get('host', 'localhost')}:{parameters.get('port', '')}"[:100]
        self.rival = (
            f"a broker at {place!r} is announced with the node id of this one, {self.node_id}: a copied data folder, or a split brain"
        )
        self._warn("own", f"AMQ222294: {self.rival}")

    def backup_announced(self, member: TopologyMember, now_ms: int) -> None:
        """As :meth:`Topology.backup_announced`, within the limits, and as news for members whose clocks are ahead."""
        if not self._refused(member):
            known = self.get(member.node_id)
            super().backup_announced(member, now_ms if known is None else max(now_ms, known.unique_event_id + 1))

    def backup_waits(self, connection: ServerConnection, member: TopologyMember, now_ms: int) -> None:
        """As :meth:`backup_announced`, of a backup that keeps ``connection`` while it waits: it does not announce itself anew to a primary
        that has died and is back."""
        if not self._refused(member):
            self._backups.pop(connection, None)
            self._backups[connection] = member
            self.backup_announced(member, now_ms)

    def backup_left(self, backup: TransportConfiguration) -> None:
        """The backup of this broker at that place has gone, also if its connection is still there."""
        for connection, waiting in list(self._backups.items()):
            if waiting.node_id == self.node_id and same_place(waiting.backup, backup):
                del self._backups[connection]
        own = self.get(self.node_id)
        if own is not None:
            self.activated(replace(own, backup=None), self._clock.wall_ms())

    def _store(self, member: TopologyMember) -> bool:
        return super()._store(member if member.backup is not None else self._backed_up(member))

    def _backed_up(self, member: TopologyMember) -> TopologyMember:
        for waiting in reversed(self._backups.values()):
            if waiting.node_id == member.node_id and not same_place(waiting.backup, member.primary):
                return replace(member, unique_event_id=member.unique_event_id + 1, backup=waiting.backup)
        return member

    def down(self, node_id: str, unique_event_id: int) -> bool:
        """As :meth:`Topology.down`; this broker itself never leaves its own view."""
        return self._is_time(node_id, unique_event_id) and self._down(node_id, unique_event_id)

    def _down(self, node_id: str, unique_event_id: int) -> bool:
        if node_id == self.node_id and self._stopped:
            return False
        if node_id == self.node_id:
            self._warn("left", f"a peer says that this broker ({node_id}) has left the cluster: possibly a split brain; it is not believed")
            own = self.get(node_id)
            if own is not None and own.unique_event_id <= unique_event_id:
                # A peer that believes it would refuse the announcements of this broker until the clock has caught up.
                self.activated(own, unique_event_id + 1)
            return False
        return super().down(node_id, unique_event_id)

    def lost(self, node_id: str) -> bool:
        """This broker has lost its own link to a member: remove the member, however far the clocks are apart."""
        known = self.get(node_id)
        return known is not None and self._down(node_id, max(known.unique_event_id + 1, self._clock.wall_ms()))

    def found_again(self, member: TopologyMember) -> bool:
        """The link to a member is up again: news that the member has left were wrong, even if they are later than its announcement."""
        event_id = max(member.unique_event_id, self._clock.wall_ms(), self.left_at(member.node_id) + 1)
        return self._up(replace(member, unique_event_id=event_id))

    def announced(self, member: TopologyMember) -> bool:
        """A member has announced itself: the announcement counts as later than any departure."""
        if not self._is_time(member.node_id, member.unique_event_id):
            return False
        left = self.left_at(member.node_id)
        changed = self._up(member if member.unique_event_id > left else replace(member, unique_event_id=left + 1))
        self.heard_from(member.node_id)
        return changed

    def _is_time(self, node_id: str, event_id: int) -> bool:
        if event_id > EVENT_ID_MAX:
            self._warn("time", f"an announcement about the member {node_id[:100]!r} is refused: its event id, {event_id}, is not a time")
        return event_id <= EVENT_ID_MAX

    def _refused(self, member: TopologyMember) -> bool:
        reason = _excess(member)
        if reason is None and len(self) >= MEMBERS_MAX and self.get(member.node_id) is None:
            reason = f"{MEMBERS_MAX} members are known already"
        if reason is not None:
            self._warn("limit", f"the announcement of the member {member.node_id[:100]!r} is refused: {reason}")
        return reason is not None

    def _warn(self, kind: str, text: str) -> None:
        now = self._clock.monotonic()
        last = self._warned.get(kind)
        if last is None or now >= last + REPEATED_WARNING_SECONDS:
            self._warned[kind] = now
            log.warn("{text}", text=text)

    # --- subscribers

    def subscribe(self, connection: ServerConnection) -> None:
        """Send the table now, and each change until :meth:`unsubscribe`."""
        subscription = self._subscriptions.get(connection)
        if subscription is None:
            subscription = self._subscriptions[connection] = _Subscription(self, connection)
        if subscription.tables < SUBSCRIPTIONS_MAX:
            subscription.send_table()

    def unsubscribe(self, connection: ServerConnection) -> None:
        self._subscriptions.pop(connection, None)
        self._appears.pop(connection, None)
        self._backups.pop(connection, None)

    def appear_as(self, connection: ServerConnection, node_id: str) -> None:
        """The client of ``connection`` has come from a node that this broker has taken over: for it, this broker is that node."""
        own = self.get(self.node_id)
        if node_id == self.node_id or own is None:
            return
        since_ms = max(self._clock.wall_ms(), self.left_at(node_id)) + 1
        self._appears.pop(connection, None)
        self._appears[connection] = Appearance(node_id, since_ms, self.shown(own, connection))
        subscription = self._subscriptions.get(connection)
        if subscription is not None:
            shown = self.shown(own, connection)
            subscription.changed(shown, shown.unique_event_id, True, {})

    def hidden(self, node_id: str, connection: ServerConnection) -> bool:
        """Is the peer of ``connection`` told nothing of this node, since for it this broker is that node?"""
        appearance = self._appears.get(connection)
        return appearance is not None and appearance.node_id == node_id

    def writable(self, connection: ServerConnection) -> None:
        """The peer reads again: send the news that were held back."""
        subscription = self._subscriptions.get(connection)
        if subscription is not None:
            subscription.writable()

    def _push(self, member: TopologyMember, up: bool) -> None:
        event_id = member.unique_event_id if up else self.left_at(member.node_id)
        frames: dict[int, bytes] = {}
        view = self._client_view
        for connection, subscription in list(self._subscriptions.items()):
            if view is None or connection.cluster_authorized:
                subscription.changed(member, event_id, up, frames)
        if view is not None:
            self._push_to_clients(view, member, event_id, up)

    def _push_to_clients(self, view: ClientView, member: TopologyMember, event_id: int, up: bool) -> None:
        """Tell clients of a change, and of what follows from it for the member before."""
        changed = view.of(member, self) if up else member
        self._tell_clients(changed, changed.unique_event_id if up else view.gone(member.node_id, event_id), up)
        for before in view.concerned(member.node_id, self):
            shown = view.of(before, self)
            self._tell_clients(shown, shown.unique_event_id, True)

    def _tell_clients(self, shown: TopologyMember, event_id: int, up: bool) -> None:
        frames: dict[int, bytes] = {}
        for connection, subscription in list(self._subscriptions.items()):
            if not connection.cluster_authorized and not self.hidden(shown.node_id, connection):
                renamed = self._renamed(shown, connection) if connection.writable else shown  # it is renamed when the peer reads again
                subscription.changed(renamed, event_id, up, frames if renamed is shown else {})

    def leave_out(self, node_ids: Collection[str]) -> None:
        """Let these members stand in for nobody now; clients hear of it where that makes a difference."""
        view = self._client_view
        if view is None or view.left_out == frozenset(node_ids):
            return
        view.left_out = frozenset(node_ids)
        for member in list(self):
            shown = view.of(member, self)
            self._tell_clients(shown, shown.unique_event_id, True)

    def shown(self, member: TopologyMember, connection: ServerConnection) -> TopologyMember:
        """The description of a member that the peer of ``connection`` gets."""
        if self._client_view is None or connection.cluster_authorized:
            return member
        return self._renamed(self._client_view.of(member, self), connection)

    def _renamed(self, shown: TopologyMember, connection: ServerConnection) -> TopologyMember:
        appearance = self._appears.get(connection) if shown.node_id == self.node_id else None
        return shown if appearance is None else appearance.of(shown)


def _excess(member: TopologyMember) -> str | None:
    """The reason why the announcement of a member exceeds a limit; None when it does not."""
    for name in (member.node_id, member.backup_group_name, member.scale_down_group_name):
        if name is not None and len(name) > NAME_LENGTH_MAX:
            return f"a name of {len(name)} characters, {NAME_LENGTH_MAX} are allowed"
    for connector in member.connectors:
        if len(connector.parameters) > PARAMETERS_MAX:
            return f"a connector with {len(connector.parameters)} parameters, {PARAMETERS_MAX} are allowed"
        length = len(connector.name) + len(connector.factory_class_name)
        length += sum(len(key) + len(value if isinstance(value, str) else "") for key, value in connector.parameters)
        if len(connector.name) > NAME_LENGTH_MAX or length > CONNECTOR_LENGTH_MAX:
            return f"a connector of {length} characters, {CONNECTOR_LENGTH_MAX} are allowed, and {NAME_LENGTH_MAX} in its name"
    return None if member.node_id else "it has no node id"
