"""Templates of property tables: a table that fits the template of the messages before it is not parsed again.

Messages of one producer or one link have tables with the same keys and types at the same places.  A table with the size and the fixed bytes
of a template has the same keys, types and broker properties; only the client's values differ.

Source: ``protocol-spec/``, chapter "Message encoding".
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mqbroker.messaging.message.message import PROPERTIES_CHECKED_FROM
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_CID, KEY_DUPLICATE_ID, KEY_ROUTE_TO, KEY_ROUTING_TYPE
from mqclient.wire.properties import BYTE, BYTES, STRING, check_block, check_entries, walk

INTERNAL = "_AMQ_".encode("utf-16-le")
"""The beginning of the names of properties for the broker."""
BRIDGE_DUPLICATE_ID = KEY_BRIDGE_DUPLICATE_ID.encode("utf-16-le")

_HEAD = struct.Struct(">Bi")
_I32 = struct.Struct(">i")
_unpack_i32 = _I32.unpack_from
_CID = KEY_CID.encode("utf-16-le")
_DUPLICATE_ID = KEY_DUPLICATE_ID.encode("utf-16-le")
_ROUTE_TO = KEY_ROUTE_TO.encode("utf-16-le")
_ROUTING_TYPE = KEY_ROUTING_TYPE.encode("utf-16-le")
_BRIDGED = {_ROUTING_TYPE: BYTE, _ROUTE_TO: BYTES, BRIDGE_DUPLICATE_ID: BYTES}
"""Properties for the broker that a message from a link may have, with their types."""
_OTHERS = frozenset((_CID, _DUPLICATE_ID))
"""Properties that stay in a message from a link: the duplicate id of the bridge counts, not the client's."""
_SAME = frozenset((_ROUTING_TYPE, _ROUTE_TO))
"""Their values are part of a template."""
_ID_ENTRY = _I32.pack(len(_DUPLICATE_ID)) + _DUPLICATE_ID
_NOTHING_KNOWN = b"\xff"
"""Begins no table."""


class Look(NamedTuple):
    """``routed``: the table up to its routing type, and how many ``entries`` that are; ``id_at``: where the duplicate id is, or None."""

    routed: bytes
    routing_type: int | None
    entries: int
    id_at: tuple[int, int] | None


_NOTHING_INTERNAL = Look(b"", None, 0, None)


def look_through(data: bytes, start: int, end: int) -> Look | None:
    """A table that a plain message can have, else None.  A duplicate id stands behind the routing type, if there is one."""
    if data.find(INTERNAL, start, end) < 0:
        return _NOTHING_INTERNAL
    routed, entries, number = b"", 0, 0
    routing_type: int | None = None
    id_at: tuple[int, int] | None = None
    try:
        for key_start, key_end, kind, value_start, value_end in walk(data, start, end):
            number += 1
            key = data[key_start:key_end]
            if key == _ROUTING_TYPE:
                routing_type = data[value_start]
                if kind != BYTE or routing_type > 1 or routed or id_at is not None:
                    return None
                routed, entries = data[start:value_end], number
                if data.find(INTERNAL, value_end, end) < 0:
                    return Look(routed, routing_type, entries, None)
            elif key == _DUPLICATE_ID:
                if id_at is not None or not _is_id(kind, value_start + 4, value_end):
                    return None
                id_at = value_start + 4, value_end
            elif key != _CID and key.startswith(INTERNAL):
                return None
    except MalformedPacketError:
        return None
    return None if routing_type is None and id_at is None else Look(routed, routing_type, entries, id_at)


def id_behind(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """The place of the duplicate id when it is the entry at ``start`` and nothing for the broker follows; else None."""
    kind_at = start + len(_ID_ENTRY)
    first = kind_at + 5
    if not data.startswith(_ID_ENTRY, start) or first > end:
        return None
    last = first + _unpack_i32(data, kind_at + 1)[0]
    return (first, last) if last <= end and _is_id(data[kind_at], first, last) and data.find(INTERNAL, last, end) < 0 else None


def _is_id(kind: int, first: int, last: int) -> bool:
    return last > first and (kind == BYTES or (kind == STRING and not (last - first) & 1))


class Table:
    """Template of property tables; places count from the beginning of the table.

    A table of ``size`` bytes that begins with ``known`` and has each of ``fixed`` (place, bytes) fits the template: its duplicate id, the
    value of ``id_key``, is at ``id_at`` (first, behind the last; None = it has none).  ``found_id`` is the place of the id in the table
    that :meth:`look` has parsed last, whether that fits or not.  With a ``head``, the message is passed on with the head and the places in
    ``kept`` (from, to), and nothing else of its table.
    """

    __slots__ = ("fixed", "found_id", "head", "id_at", "id_key", "kept", "known", "size")

    def __init__(self, id_key: bytes) -> None:
        self.id_key = id_key
        self.known = _NOTHING_KNOWN
        self.size = -1
        self.fixed: list[tuple[int, bytes]] = []
        self.id_at: tuple[int, int] | None = None
        self.found_id: tuple[int, int] | None = None
        self.head = b""
        self.kept: list[tuple[int, int]] = []

    def differs(self, data: bytes, start: int) -> bool:
        """Has the table at ``start``, whose size and beginning are known, other entries?"""
        for place, raw in self.fixed:  # noqa: SIM110 - a generator would cost more than the comparisons
            if not data.startswith(raw, start + place):
                return True
        return False

    def look(self, data: bytes, start: int, end: int) -> bool:
        """Parse the table in ``data[start:end]``: does its message take the fast way, with the messages before it?"""
        raise NotImplementedError

    def _learn(self, entries: list[tuple[int, int, int, int, int]], data: bytes, start: int, end: int, own: int) -> None:
        """Make this table the template: keep all of it but the client's values, which begin at ``own``."""
        pieces: list[tuple[int, bytes]] = []
        position = start
        self.id_at = None
        for key_start, key_end, kind, value_start, value_end in entries:
            key = data[key_start:key_end]
            if value_end > own and key not in _SAME:
                if key == self.id_key:
                    self.id_at = value_start + 4 - start, value_end - start
                stays = value_start + 4 if kind in (STRING, BYTES) else value_start
                pieces.append((position - start, data[position:stays]))
                position = value_end
        pieces.append((position - start, data[position:end]))
        self.known = pieces[0][1]
        self.fixed = [(place, raw) for place, raw in pieces[1:] if raw]
        self.size = end - start


class PlainTable(Table):
    """Tables whose only properties for the broker are ``routing_type`` (None = no type) and, behind it, a duplicate id.

    ``_routed`` is the table up to the routing type, as it was in the last table that was parsed from its beginning, and ``_left`` the
    number of entries behind it.  ``_seen`` is the size of the last table that was looked at: the second one in a row is learnt.
    """

    __slots__ = ("_left", "_routed", "_routing_type", "_seen")

    def __init__(self, routing_type: int | None) -> None:
        super().__init__(_DUPLICATE_ID)
        self._routing_type = routing_type
        self._routed = _NOTHING_KNOWN
        self._left = 0
        self._seen = -1

    def look(self, data: bytes, start: int, end: int) -> bool:
        """Parse the table in ``data[start:end]``: is it one of a plain message, and can all of it be decoded?"""
        if end - start > PROPERTIES_CHECKED_FROM:
            return False
        routed = self._routed
        begins = data.startswith(routed, start)
        place: tuple[int, int] | None = None
        if not begins or data.find(INTERNAL, start + len(routed), end) >= 0:
            place = id_behind(data, start + len(routed), end) if begins else None
            if place is None:
                found = look_through(data, start, end)
                if found is None or found.routing_type != self._routing_type:
                    return False
                routed, place = found.routed, found.id_at
                self._routed, self._left = routed, _unpack_i32(data, start + 1)[0] - found.entries if routed else 0
        try:
            if routed:
                check_entries(data, start + len(routed), end, self._left)
            else:
                check_block(data, start, end)
        except MalformedPacketError:
            return False
        if self._seen == end - start:
            self._learn(list(walk(data, start, end)), data, start, end, start + len(routed))
        self._seen = end - start
        self.found_id = None if place is None else (place[0] - start, place[1] - start)
        return True


class BridgedTable(Table):
    """Tables of messages that a link brings, which state the same queues: ``queue_ids``, 8 bytes each.

    The message is passed on without the properties that the link has added.
    """

    __slots__ = ("queue_ids", "routing_type")

    def __init__(self) -> None:
        super().__init__(BRIDGE_DUPLICATE_ID)
        self.queue_ids = b""
        self.routing_type: int | None = None

    def fits(self, data: bytes, start: int, end: int) -> bool:
        """Is the table in ``data[start:end]`` like the last one?"""
        return end - start == self.size and data.startswith(self.known, start) and not self.differs(data, start)

    def look(self, data: bytes, start: int, end: int) -> bool:
        """Parse the table in ``data[start:end]``: can its message go to the same queues as the messages before it, if any?"""
        if end - start > PROPERTIES_CHECKED_FROM:
            return False
        marks: dict[bytes, tuple[int, int]] = {}
        kept: list[tuple[int, int]] = []
        position = _HEAD.size
        try:
            entries = list(walk(data, start, end))
        except MalformedPacketError:
            return False
        for key_start, key_end, kind, value_start, value_end in entries:
            key = data[key_start:key_end]
            if key in _BRIDGED:
                if key in marks or kind != _BRIDGED[key]:
                    return False
                marks[key] = value_start, value_end
                if key != _ROUTING_TYPE:
                    kept.append((position, key_start - 4 - start))
                    position = value_end - start
            elif key.startswith(INTERNAL) and key not in _OTHERS:
                return False
        if _ROUTE_TO not in marks or BRIDGE_DUPLICATE_ID not in marks or entries[-1][4] != end:
            return False
        queue_ids = data[marks[_ROUTE_TO][0] + 4 : marks[_ROUTE_TO][1]]
        routing_type = data[marks[_ROUTING_TYPE][0]] if _ROUTING_TYPE in marks else None
        id_start, id_end = marks[BRIDGE_DUPLICATE_ID]
        if not queue_ids or len(queue_ids) % 8 or routing_type not in (None, 0, 1) or id_end == id_start + 4:
            return False
        if self.queue_ids and (queue_ids != self.queue_ids or routing_type != self.routing_type):
            return False
        kept.append((position, end - start))
        self.kept = [(first, last) for first, last in kept if first < last]
        self.head = _HEAD.pack(1, len(entries) - 2) if len(entries) > 2 else b"\0"
        self.queue_ids, self.routing_type = queue_ids, routing_type
        self._learn(entries, data, start, end, start)
        self.found_id = self.id_at
        return True
