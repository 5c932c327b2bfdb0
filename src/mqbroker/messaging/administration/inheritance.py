"""Taking over the data of another broker: its queues become those of the same name here, and its branches branches of this broker.

The messages stay in the store, in the pages of their addresses, before everything that is sent from now on (decision 42).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mqbroker.messaging.delivery.restoring import Entry, Held, restore_messages
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.messaging.administration.administration import Administration
    from mqbroker.messaging.administration.registrar import Ended
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import Inherited, QueueRecord, Recovered, RecoveredDuplicateId
    from mqbroker.messaging.queues.queue import Queue


def join_queues(core: MessagingCore, administration: Administration, inherited: Inherited, ended: Ended) -> dict[int, Queue]:
    """Make the addresses and queues that are missing, and let the queues have what the other broker's had; what has ``ended`` goes.

    Messages and branches in ``inherited.found`` are of the own queues from then on, which are returned by their ids.
    """
    found = inherited.found
    for address in found.addresses:
        if address.name not in core.addresses and address.name not in ended.addresses:
            administration.create_address(address.name, address.routing_types, auto_created=address.auto_created)
    there = [record for record in found.queues if record.queue_id not in ended.queues]
    queues = {record.queue_id: queue for record in there if (queue := _queue(core, administration, record)) is not None}
    here = {there: queue.queue_id for there, queue in queues.items()}
    by_id = {queue.queue_id: queue for queue in queues.values()}
    for (name, queue_id), messages in inherited.assign({**dict.fromkeys(ended.queues), **here}).items():
        core.paging.inherit(name, core.account_of(name), by_id[queue_id], messages)
    _translate(found, here)
    return by_id


def restore_inherited(
    core: MessagingCore, parts: Sequence[tuple[Inherited, dict[int, Queue]]], to_hold: set[tuple[int, int]], with_readers: set[int]
) -> Held:
    """Put the messages that are in memory into the queues.  Returns the references that branches hold, of this broker (``to_hold``) and of
    the others."""
    held: Held = {}
    wanted = to_hold.union(*(held_places(inherited.found) for inherited, _ in parts))
    for inherited, queues in parts:
        held.update(restore_messages(core, queues, inherited.found.messages, wanted, with_readers))
    return held


def held_places(recovered: Recovered) -> set[tuple[int, int]]:
    """The messages that branches have acknowledged: queue id and message id."""
    return {place for branch in recovered.branches for place in branch.record.acknowledged}


def duplicate_ids_by_record(parts: Iterable[Recovered]) -> dict[int, RecoveredDuplicateId]:
    """The stored duplicate ids by their records.

    Those of a branch may be in another part than the branch: they became an earlier taker's own, and the branch stayed where it was.
    """
    return {entry.record_id: entry for part in parts for entry in part.duplicate_ids}


def restore_duplicate_ids(core: MessagingCore, found: Sequence[RecoveredDuplicateId]) -> None:
    """Remember stored duplicate ids.  A record whose ids are all known by other records is of no use any more."""
    used: dict[int, bool] = {}
    for known in found:
        cache = core.duplicate_ids(known.cache)
        if cache is not None:
            restored = cache.restore(known.duplicate_id, known.record_id)
            used[known.record_id] = restored or used.get(known.record_id, False)
    useless = [record_id for record_id, needed in used.items() if not needed]
    if useless:
        batch = core.store.begin()
        for record_id in useless:
            batch.delete_duplicate_id(record_id)
        core.store.commit(batch)


def _queue(core: MessagingCore, administration: Administration, record: QueueRecord) -> Queue | None:
    """The queue of this name; None: the messages of a queue that cannot be made stay in the store."""
    existing = core.queues.get(record.name)
    if existing is None:
        try:
            return administration.inherit_queue(QueueDefinition.from_record(record))
        except MQError as error:
            core.report("AMQ222907", f"queue {record.name} of another broker cannot be made here, and its messages stay away: {error}")
            return None
    if existing.definition.address != record.address:
        text = f"queue {record.name} is on address {existing.definition.address}; it gets the messages of the one on {record.address}, too"
        core.report("AMQ222908", text)
    if not existing.definition.durable:
        # The messages that it gets now are stored: acknowledgements have to fit that.
        administration.update_queue(existing, durable=True)
    return existing


def _translate(found: Recovered, here: Mapping[int, int]) -> None:
    """From the ids that queues had there to those that they have here."""
    found.messages = _translated(found.messages, here)
    for branch in found.branches:
        branch.messages = _translated(branch.messages, here)
        held = tuple((here[queue_id], message_id) for queue_id, message_id in branch.record.acknowledged if queue_id in here)
        branch.record = replace(branch.record, acknowledged=held)


def _translated(entries: list[Entry], here: Mapping[int, int]) -> list[Entry]:
    found: list[Entry] = []
    for message, references in entries:
        known = [replace(reference, queue_id=here[reference.queue_id]) for reference in references if reference.queue_id in here]
        if known:
            found.append((message, known))
    return found
