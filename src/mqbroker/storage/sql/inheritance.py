"""A state that was read becomes what the broker works with: messages in memory, accounts of pages, and what was inherited.

Runs on the loop, in one go, however many messages there are: only those for the memory are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Inherited, Recovered, RecoveredBranch, RecoveredReference
from mqbroker.storage.sql.batch import Kept, KeptElsewhere, Origins
from mqbroker.storage.sql.damage import DAMAGE, Damage, check_message
from mqbroker.storage.sql.source import END, Origin, Source
from mqbroker.storage.sql.texts import given

if TYPE_CHECKING:
    from mqbroker.storage.sql.adoption import State
    from mqbroker.storage.sql.bodies import SqlBodies
    from mqbroker.storage.sql.pager import SqlPager

Assigned = Callable[[Origin, "State", Collection[int]], object]
"""Called when the queues of an inherited session are there, with the ids (there) of those that were deleted."""


def own_state(state: State, pager: SqlPager, bodies: SqlBodies) -> Recovered:
    """The own session: its messages that wait are in the pages from now on."""
    loaded = _Loaded(state, bodies, None)
    broken = {damage.key for damage in state.damaged if damage.role == "queue"}
    for (address, queue_id), messages in loaded.counts.items():
        if queue_id not in broken:
            folder = pager.folder(address)
            folder.readable = pager.adopted
            share = folder.share(queue_id)
            share.unread = share.durable_unread = share.own.unread = messages
            if queue_id in state.whole:
                share.own.place = pager.adopted
            else:
                share.own.early = loaded.early.get((address, queue_id), set())
    return loaded.recovered


def inherit_state(state: State, pager: SqlPager, bodies: SqlBodies, origins: Origins, origin: Origin, assigned: Assigned) -> Inherited:
    """A session that was inherited: its messages wait until its queues are there."""
    loaded = _Loaded(state, bodies, origin)

    def assign(known: Mapping[int, int | None]) -> dict[tuple[str, int], int]:
        queues = {there: here for there, here in known.items() if here is not None}
        origin.queues.update({here: there for there, here in queues.items()})
        came: dict[tuple[str, int], int] = {}
        for (address, there), messages in loaded.counts.items():
            if there in queues and messages > 0:
                folder = pager.folder(address)
                source = Source(folder, state.session, there, 0, END, origin, messages)
                source.early = loaded.early.get((address, there), set())
                folder.share(queues[there]).inherit(source)
                origin.sources.add(source)
                came[address, queues[there]] = messages
        origin.kept = {(queues[there], place) for there, place in loaded.in_memory if there in queues}
        origin.branches = loaded.branch_places
        origins.all.append(origin)
        origins.branches.update(dict.fromkeys(origin.branches, origin))
        assigned(origin, state, known.keys() - queues.keys())
        return came

    return Inherited(loaded.recovered, assign)


class _Loaded:
    """``counts`` and ``early`` (places that no reader gives) are by address and queue id; ``in_memory`` are queue ids and places."""

    def __init__(self, state: State, bodies: SqlBodies, origin: Origin | None) -> None:
        self.counts = dict(state.counts)
        self.early: dict[tuple[str, int], set[int]] = {}
        self.in_memory: list[tuple[int, int]] = []
        self.branch_places: dict[int, list[int]] = {branch.branch_id: [] for branch in state.branches}
        self.recovered = Recovered(
            state.addresses,
            state.queues,
            [],
            state.duplicate_ids,
            [RecoveredBranch(record) for record in state.branches],
            state.settings,
            unreadable=state.unreadable,
        )
        self._read(state, bodies, origin)

    def _read(self, state: State, bodies: SqlBodies, origin: Origin | None) -> None:
        recovered = self.recovered
        branches = {branch.record.branch_id: branch for branch in recovered.branches}
        entries: dict[int, tuple[Message, list[RecoveredReference]] | None] = {}
        for row in state.rows:
            place, name, _, _, _, branch, _, _, queue_id, deliveries, due = row
            name = given(name)
            if place not in entries:
                entries[place] = entry = _entry(state, row, bodies, origin)
                if entry is not None:
                    (branches[branch].messages if branch else recovered.messages).append(entry)
                    if branch:
                        self.branch_places[branch].append(place)
            entry = entries[place]
            self.early.setdefault((name, queue_id), set()).add(place)
            self.counts[name, queue_id] = self.counts.get((name, queue_id), 0) - 1
            if entry is not None:
                entry[1].append(RecoveredReference(queue_id, deliveries, max(due, 0)))
                self.in_memory.append((queue_id, place))
        for found in (recovered.messages, *(each.messages for each in recovered.branches)):
            found.sort(key=lambda each: each[0].message_id)


def _entry(
    state: State, row: tuple[object, ...], bodies: SqlBodies, origin: Origin | None
) -> tuple[Message, list[RecoveredReference]] | None:
    """A message for the memory; None: it is damaged."""
    place, folder, address, headers, buffer, _, body_id, size, *_ = row
    assert isinstance(place, int) and isinstance(headers, int)
    body = None
    if isinstance(body_id, int):
        assert isinstance(size, int)
        body = bodies.stored(body_id, size, state.session)
    try:
        message = Message.read(bytes(buffer), headers, given(str(folder if address is None else address)), body)  # type: ignore[call-overload]
        check_message(message)
    except DAMAGE as error:
        state.damaged.append(Damage(state.session, "message", place, str(error), body_id if isinstance(body_id, int) else None))
        return None
    if body is not None:
        body.hold()
    message.store_state = Kept(place, None) if origin is None else KeptElsewhere(place, origin)
    return message, []
