"""The index of entries that are still needed, by the segment with their record.

``Message.store_state`` is the segment with the message's record, None while it is not stored.  The segment's ``live`` has the message
with its references: a queue id where there is one and nothing more to say of it (the usual case costs no object), else a dict of
queue id to (delivery count, scheduled ms).  Duplicate ids, branches and bindings are there under their keys, with their encoded records,
and what is kept of pages (see ``pages.Kept``) under itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mqbroker.messaging.event import Event
from mqbroker.messaging.message.message import Message
from mqbroker.storage.files.journal.batch import Change
from mqbroker.storage.files.journal.pages import Kept
from mqbroker.storage.files.journal.segments import Segment, SegmentLog
from mqclient.storageformat.records import QUEUE_BINDING

References = dict[int, tuple[int, int]]

_ADD = Change.ADD
_ACKNOWLEDGE = Change.ACKNOWLEDGE

RECORD_BYTES = 22
"""Bytes of a message record beside its buffer."""


class LiveIndex:
    """Keeps ``Segment.live`` of both journals."""

    def __init__(self, messages: SegmentLog, bindings: SegmentLog) -> None:
        self._messages = messages
        self._bindings = bindings
        self._numbered: dict[object, Segment] = {}
        """The segment of each record of duplicate ids or of a branch, by record id; both take their ids from one sequence."""
        self._branches: dict[int, dict[Message, None]] = {}
        """The stored messages of each prepared branch, and the branch of each of them."""
        self._branch_of: dict[Message, int] = {}
        self._bound: dict[object, Segment] = {}
        self.emptied: Event[()] = Event()
        """The oldest segment of a journal has nothing live any more."""
        self.queue_gone: Event[()] = Event()
        """A queue was deleted."""

    def apply(self, changes: Iterable[tuple[Change, Any, Any]], segment: Segment) -> None:
        """Take in the changes of a batch whose records go to ``segment``."""
        for change, subject, value in changes:
            if change is _ADD:
                if subject.store_state is None and value.__class__ is int:
                    segment.live[subject] = value
                    segment.live_bytes += len(subject.buffer) + RECORD_BYTES
                    subject.store_state = segment
                else:
                    self._add(subject, value, segment)
            elif change is _ACKNOWLEDGE:
                owner = subject.store_state
                if owner is None:
                    continue
                references = owner.live[subject]
                if references.__class__ is dict:
                    references.pop(value, None)
                    if not references:
                        self.forget(owner, subject)
                elif references == value:
                    if subject.large is None and not self._branch_of and len(owner.live) > 1:
                        # As forget, which would cost twice the time.
                        del owner.live[subject]
                        owner.live_bytes -= len(subject.buffer) + RECORD_BYTES
                        subject.store_state = None
                    else:
                        self.forget(owner, subject)
            else:
                self._apply(change, subject, value, segment)

    def place(self, message: Message, references: int | References, segment: Segment) -> None:
        """The record of this message, with these references, is in ``segment`` now."""
        if isinstance(references, dict) and len(references) == 1:
            ((queue_id, details),) = references.items()
            if details == (0, 0):
                references = queue_id
        segment.live[message] = references
        segment.live_bytes += len(message.buffer) + RECORD_BYTES
        message.store_state = segment

    def place_plain(self, messages: Iterable[Message], segments: Mapping[int, Segment]) -> None:
        """As :meth:`place`, for messages of a start whose ``store_state`` says where they are (see ``plain``)."""
        place: Any = None
        segment: Any = None
        for message in messages:
            if message.store_state is not place:
                place = message.store_state
                segment = segments[place[0]]
            segment.live[message] = place[1]
            segment.live_bytes += len(message.buffer) + RECORD_BYTES
            message.store_state = segment

    def put_numbered(self, number: int, record: bytes, segment: Segment) -> None:
        """The record of a duplicate id or of a branch is in ``segment`` now."""
        self._put(self._numbered, number, record, segment)

    def put_prepared(self, branch_id: int, message: Message) -> None:
        """This stored message counts only with its branch."""
        self._branches.setdefault(branch_id, {})[message] = None
        self._branch_of[message] = branch_id

    def branch_of(self, message: Message) -> int:
        """The prepared branch that a stored message belongs to, 0 = none."""
        return self._branch_of.get(message, 0)

    def put_binding(self, key: object, record: bytes, segment: Segment) -> None:
        self._put(self._bound, key, record, segment)

    def keep(self, kept: Kept, segment: Segment, size: int) -> None:
        """The journal's records of a page begin in ``segment`` now, where they count ``size`` bytes."""
        self.drop(kept)
        kept.segment = segment
        kept.kept_size = size
        segment.live[kept] = None
        segment.live_bytes += size

    def drop(self, kept: Kept) -> None:
        """The journal need not say it any more."""
        owner = kept.segment
        if owner is not None:
            kept.segment = None
            del owner.live[kept]
            owner.live_bytes -= kept.kept_size
            if not owner.live:
                self._emptied(owner)

    def has_queue(self, queue_id: int) -> bool:
        return (QUEUE_BINDING, queue_id) in self._bound

    def references(self, message: Message) -> References:
        """The references of a stored message, in a form that can be changed."""
        owner: Any = message.store_state
        references = owner.live[message]
        if references.__class__ is not dict:
            references = owner.live[message] = {references: (0, 0)}
        return references  # type: ignore[no-any-return]

    def move(self, message: Message, references: References, segment: Segment) -> None:
        """The record of a stored message was written anew, into ``segment``."""
        owner: Any = message.store_state
        self._displace(owner, message)
        self.place(message, references, segment)

    def drop_gone(self, message: Message) -> References:
        """Drop references to queues that are gone; returns those that are left.  The message is forgotten when there are none."""
        owner: Any = message.store_state
        references = owner.live[message]
        if references.__class__ is not dict:
            references = {references: (0, 0)}
        left = {queue_id: details for queue_id, details in references.items() if self.has_queue(queue_id)}
        if not left:
            self.forget(owner, message)
        elif len(left) < len(references):
            owner.live[message] = left
        return left

    def forget(self, owner: Segment, message: Message) -> None:
        """The message has no references any more."""
        self._displace(owner, message)
        message.store_state = None
        if self._branch_of:
            self._leave_branch(message)
        body: Any = message.large
        if body is not None:
            body.record_gone()

    def _displace(self, owner: Segment, message: Message) -> None:
        del owner.live[message]
        owner.live_bytes -= len(message.buffer) + RECORD_BYTES
        if not owner.live:
            self._emptied(owner)

    def _add(self, message: Message, queue_ids: int | tuple[int, ...], segment: Segment) -> None:
        if isinstance(queue_ids, int):
            queue_ids = (queue_ids,)
        if message.store_state is not None:
            references = self.references(message)
            for queue_id in queue_ids:
                references.setdefault(queue_id, (0, 0))
            return
        self.place(message, dict.fromkeys(queue_ids, (0, 0)), segment)
        body: Any = message.large
        if body is not None:
            body.record_added()

    def _apply(self, change: Change, subject: Any, value: Any, segment: Segment) -> None:
        if change is Change.COUNT or change is Change.SCHEDULE:
            queue_id, number = value
            if subject.store_state is not None:
                references = self.references(subject)
                if queue_id in references:
                    count, scheduled = references[queue_id]
                    references[queue_id] = (number, scheduled) if change is Change.COUNT else (count, number)
        elif change is Change.PUT_DUPLICATE:
            self.put_numbered(subject, value, segment)
        elif change is Change.DELETE_DUPLICATE:
            self._delete(self._numbered, subject)
        elif change is Change.PUT_BINDING:
            self.put_binding(subject, value, self._bindings.current)
        elif change is Change.PUT_BRANCH:
            self.put_numbered(subject, value, segment)
        elif change is Change.ADD_PREPARED:
            branch_id, queue_ids = value
            self._add(subject, queue_ids, segment)
            self.put_prepared(branch_id, subject)
        elif change is Change.END_BRANCH:
            self._end_branch(subject, value)
        else:
            self._delete(self._bound, subject)
            if subject[0] == QUEUE_BINDING:
                self.queue_gone()

    def _end_branch(self, branch_id: int, commit: bool) -> None:
        for message in self._branches.pop(branch_id, ()):
            del self._branch_of[message]
            if not commit:
                self.forget(message.store_state, message)  # type: ignore[arg-type]
        self._delete(self._numbered, branch_id)

    def _leave_branch(self, message: Message) -> None:
        branch_id = self._branch_of.pop(message, 0)
        if branch_id:
            self._branches[branch_id].pop(message)

    def _put(self, places: dict[object, Segment], key: object, record: bytes, segment: Segment) -> None:
        self._delete(places, key)
        places[key] = segment
        segment.live[key] = record
        segment.live_bytes += len(record)

    def _delete(self, places: dict[object, Segment], key: object) -> None:
        owner = places.pop(key, None)
        if owner is not None:
            owner.live_bytes -= len(owner.live.pop(key))
            if not owner.live:
                self._emptied(owner)

    def _emptied(self, owner: Segment) -> None:
        for log in (self._messages, self._bindings):
            if owner is log.segments[0] and owner is not log.current:
                self.emptied()
