"""The members of a cluster as brokers announce them, and how announcements are merged.

Client and broker merge alike.  Source: ``protocol-spec/``, chapter "Topology".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from mqclient.wire.primitives import TransportConfiguration

MEMBERS_MAX = 1_000
"""Members of one topology; further ones are refused."""

DEPARTURES_MAX = 10_000
"""Members that left whose departure is remembered; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class TopologyMember:
    """One node id: a primary, its backup, or both."""

    node_id: str
    unique_event_id: int
    """Time (ms) of the event that was announced, by the clock of its origin; the greater one wins."""
    primary: TransportConfiguration | None = None
    backup: TransportConfiguration | None = None
    backup_group_name: str | None = None
    scale_down_group_name: str | None = None
    server_version: int = 0

    @property
    def connectors(self) -> list[TransportConfiguration]:
        """The known connectors, that of the primary first."""
        return [connector for connector in (self.primary, self.backup) if connector is not None]


TopologyListener = Callable[[TopologyMember, bool], None]
"""Called with a member and True when it appeared or changed, False when it left."""


def same_connector(one: TransportConfiguration | None, other: TransportConfiguration | None) -> bool:
    """Do both lead to the same place?  The name does not matter, nor the spelling of the port as number or text."""
    if one is None or other is None:
        return one is other
    return one.factory_class_name == other.factory_class_name and _comparable(one) == _comparable(other)


def same_place(one: TransportConfiguration | None, other: TransportConfiguration | None) -> bool:
    """Do both name the same host and port, or the same broker of the process?"""
    return one is not None and other is not None and place(one) == place(other)


def distinct(connectors: Iterable[TransportConfiguration]) -> list[TransportConfiguration]:
    """The connectors, without repetitions of the same place."""
    found: list[TransportConfiguration] = []
    for connector in connectors:
        if not any(same_connector(connector, each) for each in found):
            found.append(connector)
    return found


def place(connector: TransportConfiguration) -> tuple[str, str]:
    """(host, port) of a connector; of one within the process ("vm", number)."""
    values = dict(connector.parameters)
    if "serverId" in values:
        return "vm", str(values["serverId"])
    host = str(values.get("host", "localhost"))
    return ("localhost" if host == "127.0.0.1" else host, str(values.get("port", 61616)))


def _comparable(connector: TransportConfiguration) -> dict[str, str]:
    values = {key: str(value) for key, value in connector.parameters}
    if values.get("host") == "127.0.0.1":
        values["host"] = "localhost"
    return values


class Topology:
    """The merged view; members in the order in which they were first heard of."""

    __slots__ = ("_left", "_listeners", "_members")

    def __init__(self) -> None:
        self._members: dict[str, TopologyMember] = {}
        self._left: dict[str, int] = {}
        self._listeners: list[TopologyListener] = []

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[TopologyMember]:
        return iter(list(self._members.values()))

    def get(self, node_id: str) -> TopologyMember | None:
        return self._members.get(node_id)

    def add_listener(self, listener: TopologyListener) -> None:
        """``listener`` is told of every member at once, and of every change from now on."""
        self._listeners.append(listener)
        for member in self:
            listener(member, True)

    def remove_listener(self, listener: TopologyListener) -> None:
        self._listeners.remove(listener)

    def up(self, member: TopologyMember) -> bool:
        """A member appeared or changed.  Returns whether the view changed (listeners were told).

        Refused: news not newer than the member's departure (else the two would chase each other through the cluster), and more than
        :data:`MEMBERS_MAX` members.  News older than the known entry only fill in a missing primary or backup.
        """
        known = self._members.get(member.node_id)
        left = self._left.get(member.node_id)
        if left is not None and member.unique_event_id and member.unique_event_id <= left:
            return False
        if known is None:
            return self._store(member)
        if member.unique_event_id > known.unique_event_id or (known.primary is None and member.primary is not None):
            self._store(
                replace(
                    member,
                    unique_event_id=max(member.unique_event_id, known.unique_event_id),
                    primary=member.primary or known.primary,
                    backup=member.backup or known.backup,
                )
            )
            return True
        if known.backup is None and member.backup is not None:
            self._members[member.node_id] = replace(known, backup=member.backup)
        return False

    def backup_announced(self, member: TopologyMember, now_ms: int) -> None:
        """A backup announced itself for the node id of ``member``; always accepted and told on."""
        known = self._members.get(member.node_id)
        if known is not None:
            member = replace(known, backup=member.backup)
        self._store(replace(member, unique_event_id=now_ms))

    def down(self, node_id: str, unique_event_id: int) -> bool:
        """A member left.  Ignored (False) when it is unknown or a later event of it is known."""
        known = self._members.get(node_id)
        if known is None or known.unique_event_id > unique_event_id:
            return False
        self._left.pop(node_id, None)
        self._left[node_id] = unique_event_id
        if len(self._left) > DEPARTURES_MAX:
            del self._left[next(iter(self._left))]
        self.drop(node_id)
        return True

    def drop(self, node_id: str) -> None:
        """Nobody announces the member any more.  That is no news of its own: the next announcement counts, whatever its time is."""
        known = self._members.pop(node_id, None)
        if known is not None:
            for listener in list(self._listeners):
                listener(known, False)

    def left_at(self, node_id: str) -> int:
        """The event with which a member left last, 0 if it never did."""
        return self._left.get(node_id, 0)

    def forget_departures(self) -> None:
        """Another broker is about to announce the members: earlier news about departures no longer count."""
        self._left.clear()

    def activated(self, member: TopologyMember, now_ms: int) -> None:
        """The own node activated, or repeats its announcement; always accepted."""
        self._store(replace(member, unique_event_id=now_ms))

    def pairs(self) -> list[tuple[TransportConfiguration, TransportConfiguration | None]]:
        """(primary, backup) of every member that has a primary."""
        return [(member.primary, member.backup) for member in self._members.values() if member.primary is not None]

    def _store(self, member: TopologyMember) -> bool:
        if len(self._members) >= MEMBERS_MAX and member.node_id not in self._members:
            return False
        self._members[member.node_id] = member
        for listener in list(self._listeners):
            listener(member, True)
        return True
