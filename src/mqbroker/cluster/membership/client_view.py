"""How clients see members of which each stands in for another one: as the backup of the one before.

Clients that lose their broker then go on at the next one, as with a pair, with nothing but their settings for reconnection.  Members are
not told of this: for them none is a backup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqclient.protocol.topology import TopologyMember


class ClientView:
    """The order is that of the node ids, in a circle.

    Clients heed only announcements with a later event id than before: where the next member changes, so does the id that they are told.
    """

    def __init__(self) -> None:
        self.left_out: frozenset[str] = frozenset()
        """Node ids of members that stand in for nobody now, unless there is no other one."""
        self._told: dict[str, tuple[str | None, int]] = {}
        """By node id: who stands in, and the event id with which clients were told that."""

    def of(self, member: TopologyMember, members: Iterable[TopologyMember]) -> TopologyMember:
        """The description of ``member``, one of ``members``, that clients get."""
        following = self._following(member, members)
        backup = None if following is None else following.node_id
        told, event_id = self._told.get(member.node_id, (backup, member.unique_event_id))
        if told != backup:
            event_id += 1
        event_id = max(event_id, member.unique_event_id)
        self._told[member.node_id] = backup, event_id
        return replace(member, unique_event_id=event_id, backup=None if following is None else following.primary)

    def gone(self, node_id: str, event_id: int) -> int:
        """The event id with which clients are told that a member has left."""
        told = self._told.pop(node_id, None)
        return event_id if told is None else max(event_id, told[1])

    def concerned(self, node_id: str, members: Iterable[TopologyMember]) -> list[TopologyMember]:
        """The members for which ``node_id`` stands in, or has stood in: the one before it, and those before that may be left out."""
        others = [each for each in members if each.node_id != node_id and each.primary is not None]
        order = sorted(others, key=lambda each: (each.node_id < node_id, each.node_id), reverse=True)
        found: list[TopologyMember] = []
        for each in order:
            found.append(each)
            if each.node_id not in self.left_out:
                break
        return found

    def _following(self, member: TopologyMember, members: Iterable[TopologyMember]) -> TopologyMember | None:
        others = [each for each in members if each.node_id != member.node_id and each.primary is not None]
        others = [each for each in others if each.node_id not in self.left_out] or others
        later = [each for each in others if each.node_id > member.node_id]
        return min(later or others, key=lambda each: each.node_id, default=None)


class Appearance:
    """The node id under which a broker appears to a client that has come from a node which the broker has taken over.

    The client has heard of that node before, from the node itself and from brokers that have refused to serve it meanwhile.  It heeds only
    announcements with a later event id: ``since_ms`` is the first one.
    """

    def __init__(self, node_id: str, since_ms: int, own: TopologyMember) -> None:
        """``own`` is the broker as clients are told of it now."""
        self.node_id = node_id
        self._event_id = max(since_ms, own.unique_event_id)
        self._seen = own.unique_event_id

    def of(self, own: TopologyMember) -> TopologyMember:
        """The description of this broker that the client gets, where others get ``own``."""
        if own.unique_event_id > self._seen:
            self._seen = own.unique_event_id
            self._event_id = max(self._event_id + 1, self._seen)
        return replace(own, node_id=self.node_id, unique_event_id=self._event_id)
