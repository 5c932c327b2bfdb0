"""The comparison of a journal that was kept after a split with the one of the broker that went on: who has, and who has consumed, what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mqbroker.cli.data.merge.common import CommonPart
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.ports import QueueRecord
from mqbroker.storage.files.bindings import to_queue
from mqclient.storageformat.records import BRANCH_PREPARED, QUEUE_BINDING, MessageRecord
from mqclient.storageformat.replay import State
from mqclient.wire.message import KEY_ORIGINAL_MESSAGE_ID, CoreMessage, decode_headers, decode_message

CONSUMED_OR_NEW: Final = "it may be older than the split, and then the running broker has consumed it"
OTHER_CONTENT: Final = "it may be older than the split, but is another one in the running broker"
MOVED: Final = "it was made in the kept journal of message {original}, which both copies had"
COMMITTED_HERE: Final = "its XA branch was prepared before the split, and committed in the kept journal"
ACKNOWLEDGED: Final = "it is acknowledged in an XA branch that is prepared in the kept journal"
LAST_VALUE: Final = "its queue keeps last values, and it may take the place of a newer one"
PREPARED: Final = "it was sent in an XA branch that is prepared in the kept journal"
INTERNAL: Final = "it is in a queue by which brokers of a cluster reach each other"
_INTERNAL_PREFIX: Final = Configuration().internal_naming_prefix


@dataclass(frozen=True, slots=True)
class Found:
    """A message of the kept journal, for the queues that it is to be sent to.  ``reason``: why it is not sent; empty if it is."""

    message_id: int
    record: MessageRecord
    queues: tuple[QueueRecord, ...]
    reason: str = ""

    def content(self) -> CoreMessage:
        """The message; of a large one all but the body.  Raises MalformedPacketError."""
        if self.record.body_id is None:
            return decode_message(self.record.buffer)
        return decode_headers(self.record.buffer, self.record.headers)


@dataclass(slots=True)
class Comparison:
    """The differences between the two journals.

    ``missing`` are messages that the kept copy alone has acknowledged.  ``undecided`` are those of which that is not sure, or that may do
    harm when they are sent.  ``unsendable`` cannot be sent.  ``both`` are the ids of messages that are consumed in both journals, by queue.
    ``only_kept`` and ``only_running`` are numbers of messages, by queue, that one journal has consumed and the other one still has.
    ``shared`` is the number of messages that both have.
    """

    missing: list[Found] = field(default_factory=list)
    undecided: list[Found] = field(default_factory=list)
    unsendable: list[Found] = field(default_factory=list)
    both: dict[str, list[int]] = field(default_factory=dict)
    only_kept: Counter[str] = field(default_factory=Counter)
    only_running: Counter[str] = field(default_factory=Counter)
    shared: int = 0


def compare(kept: State, running: State, common: CommonPart) -> Comparison:
    """Compare two journals that began with the common part.  Raises MalformedPacketError for a message that cannot be decoded."""
    result = Comparison()
    queues = [_queues(state) for state in (common.state, kept, running)]
    _compare_consumed(result, kept, running, common, queues)
    comparing = _Comparing(result, kept, running, common, queues[1])
    for message_id in sorted(kept.messages):
        comparing.message(message_id)
    return result


def _queues(state: State) -> dict[int, QueueRecord]:
    """The queues by id."""
    return {queue.queue_id: queue for queue in (to_queue(each.value) for key, each in state.bindings.items() if key[0] == QUEUE_BINDING)}


def _compare_consumed(result: Comparison, kept: State, running: State, common: CommonPart, queues: list[dict[int, QueueRecord]]) -> None:
    for message_id, stored in sorted(common.state.messages.items()):
        if stored.record.branch_id:
            continue
        in_kept, in_running = (_queue_ids(state, message_id) for state in (kept, running))
        for queue_id in stored.reference_table():
            name = next((each[queue_id].name for each in queues if queue_id in each), f"queue {queue_id}")
            if queue_id not in in_kept and queue_id not in in_running:
                result.both.setdefault(name, []).append(message_id)
            elif queue_id not in in_kept:
                result.only_kept[name] += 1
            elif queue_id not in in_running:
                result.only_running[name] += 1


def _queue_ids(state: State, message_id: int) -> Container[int]:
    stored = state.messages.get(message_id)
    return () if stored is None else stored.reference_table()


def _are_same(one: MessageRecord, other: MessageRecord) -> bool:
    """Is this the same message, by address, headers, properties and body?  Of a large body only the size is compared."""
    return (one.buffer, one.address, one.body_size) == (other.buffer, other.address, other.body_size)


class _Comparing:
    """Puts the messages of the kept journal on the lists."""

    def __init__(self, result: Comparison, kept: State, running: State, common: CommonPart, queues: Mapping[int, QueueRecord]) -> None:
        self._result = result
        self._kept = kept
        self._running = running
        self._common = common
        self._queues = queues
        self._acknowledged = {
            pair for branch in kept.branches.values() if branch.record.state == BRANCH_PREPARED for pair in branch.record.acknowledged
        }

    def message(self, message_id: int) -> None:
        stored = self._kept.messages[message_id]
        before = self._common.state.messages.get(message_id)
        other = self._running.messages.get(message_id)
        if before is not None and (stored.record.branch_id or not before.record.branch_id):
            self._result.shared += other is not None
            return
        if other is not None and not other.record.branch_id and _are_same(stored.record, other.record):
            self._result.shared += 1
            return
        found = Found(message_id, stored.record, tuple(self._queues[each] for each in stored.reference_table()))
        if stored.record.branch_id:
            self._result.unsendable.append(replace(found, reason=PREPARED))
            return
        doubt = COMMITTED_HERE if before is not None else self._doubt(found)
        internal = tuple(queue for queue in found.queues if queue.name.startswith(_INTERNAL_PREFIX))
        if internal:
            self._result.unsendable.append(replace(found, queues=internal, reason=INTERNAL))
            found = replace(found, queues=tuple(queue for queue in found.queues if queue not in internal))
        if found.queues:
            # One reason for all queues: a message has one duplicate id, so it cannot be sent to one queue now and to another one later.
            reason = doubt or next(filter(None, (self._reason(message_id, queue) for queue in found.queues)), "")
            (self._result.undecided if reason else self._result.missing).append(replace(found, reason=reason))

    def _doubt(self, found: Found) -> str:
        common = self._common
        later = common.whole or (common.ids_from is not None and found.message_id >= common.ids_from)
        if not later:
            return CONSUMED_OR_NEW if found.message_id not in self._running.messages else OTHER_CONTENT
        original = found.content().get(KEY_ORIGINAL_MESSAGE_ID)
        if isinstance(original, int) and self._is_from_before(original):
            return MOVED.format(original=original)
        return ""

    def _is_from_before(self, message_id: int) -> bool:
        """May this message be older than the cut?"""
        common = self._common
        if message_id in common.state.messages:
            return True
        return not common.whole and (common.ids_from is None or message_id < common.ids_from)

    def _reason(self, message_id: int, queue: QueueRecord) -> str:
        if (queue.queue_id, message_id) in self._acknowledged:
            return ACKNOWLEDGED
        return LAST_VALUE if queue.attributes.get("last_value") else ""
