"""Sending messages of the kept journal to the running broker, each with a duplicate id, so that a second run adds nothing."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mqbroker.cli.connection import reason
from mqbroker.cli.data.export import body_chunks
from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.merge.comparison import Comparison, Found
from mqbroker.cli.data.merge.split import Split
from mqbroker.cli.data.routed import to_queues
from mqbroker.cli.status import CommandError
from mqbroker.messaging.delivery.sending import duplicate_id_of
from mqbroker.messaging.message.message import Message
from mqclient.blocking import Runner
from mqclient.core.api import ClientProducer, ClientSession
from mqclient.errors import MQError
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.properties import BYTES

NO_QUEUE: Final = "the running broker has no queue {queue} of address {address}"
NO_BODY: Final = "the file of its large body, {file}, is missing or cut off"
_MADE_ID: Final = struct.Struct(">16sQq")


class Target(NamedTuple):
    """A queue of the running broker."""

    address: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Sendable:
    """A message with the ids of its queues in the running broker, by address.  ``made_id`` None: the message has an id of its own."""

    found: Found
    queue_ids: dict[str, list[int]]
    made_id: bytes | None


@dataclass(slots=True)
class Plan:
    """The messages to send.  ``known`` are those that the running broker has got already, by an earlier run or from their senders."""

    to_send: list[Sendable] = field(default_factory=list)
    known: list[Sendable] = field(default_factory=list)
    unsendable: list[Found] = field(default_factory=list)

    def ids(self) -> Counter[str]:
        """The number of duplicate ids that each address has to remember, so that another run adds nothing."""
        return Counter(address for each in (*self.to_send, *self.known) for address in each.queue_ids)


def make_plan(
    split: Split, comparison: Comparison, kept: DataFolders, with_undecided: bool, target: Callable[[str], Target | None]
) -> Plan:
    """Decide what is sent.  ``target`` asks for a queue of the running broker by its name.  Raises MalformedPacketError."""
    plan = Plan()
    known_ids = split.known_ids()
    # The same in every run, whatever is included: an id must not change.
    own_ids = {each.message_id: _own_id(each) for each in (*comparison.missing, *comparison.undecided)}
    times = Counter(own_ids.values())
    targets: dict[str, Target | None] = {}
    chosen = (*comparison.missing, *(comparison.undecided if with_undecided else ()))
    for found in sorted(chosen, key=lambda each: each.message_id):
        queue_ids: dict[str, list[int]] = {}
        problem = _missing_body(found, kept)
        for queue in found.queues:
            if queue.name not in targets:
                targets[queue.name] = target(queue.name)
            there = targets[queue.name]
            if there is None or there.address != queue.address:
                problem = problem or NO_QUEUE.format(queue=queue.name, address=queue.address)
            else:
                queue_ids.setdefault(there.address, []).append(there.queue_id)
        if problem:
            plan.unsendable.append(replace(found, reason=problem))
            continue
        own_id = own_ids[found.message_id]
        # Copies that a broker has made, such as dead letters of two queues, have the id of the one message that they are copies of.
        made_id = _MADE_ID.pack(split.node_id, split.copy_id, found.message_id) if own_id is None or times[own_id] > 1 else None
        sendable = Sendable(found, queue_ids, made_id)
        is_known = all((address, made_id or own_id) in known_ids for address in queue_ids)
        (plan.known if is_known else plan.to_send).append(sendable)
    return plan


def _own_id(found: Found) -> bytes | None:
    return duplicate_id_of(Message.read(found.record.buffer, found.record.headers))


def _missing_body(found: Found, kept: DataFolders) -> str:
    if found.record.body_id is None or not found.record.body_size:
        return ""
    file = kept.large_body(found.record.body_id)
    return "" if file.is_file() and file.stat().st_size >= found.record.body_size else NO_BODY.format(file=file)


def id_cache_problem(plan: Plan, sizes: Mapping[str, int]) -> str:
    """The error when an address keeps fewer duplicate ids than it gets, so that another run would double messages; else empty."""
    for address, number in sorted(plan.ids().items()):
        size = max(sizes[address], 0)
        if number > size:
            return (
                f"address {address} keeps {size} duplicate ids, fewer than the {number} messages that it is to get: another run would send "
                "the first ones again. Nothing was sent; raise id-cache-size of the address"
            )
    return ""


def send(messages: Sequence[Sendable], kept: DataFolders, runner: Runner, session: ClientSession, sent: Callable[[], None]) -> int:
    """Send them, each confirmed, and return their number; ``sent`` is called after each.  Raises :class:`CommandError`."""
    call: Callable[..., Any] = runner.call
    create_producer: Callable[..., Any] = session.create_producer
    producer: ClientProducer = call(create_producer)
    for done, each in enumerate(messages):
        content, record = each.found.content(), each.found.record
        if each.made_id is not None:
            content.properties[KEY_DUPLICATE_ID] = (BYTES, each.made_id)
        try:
            for address, queue_ids in each.queue_ids.items():
                body = (content.body,) if record.body_id is None else body_chunks(kept.large_body(record.body_id), record.body_size)
                call(producer.send, to_queues(content, queue_ids, body, record.body_id is not None), address)
        except (MQError, OSError) as error:
            text = f"message {each.found.message_id}: {reason(error)}; {done} messages were sent before, which another run does not repeat"
            raise CommandError(text) from error
        sent()
    return len(messages)
