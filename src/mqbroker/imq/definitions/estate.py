"""The definitions of another broker that count no more: the record has deleted them while that broker was away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.imq.record.changes import is_recorded
from mqbroker.messaging.administration.registrar import Change, Ended
from mqbroker.messaging.queues.definitions import QueueDefinition

if TYPE_CHECKING:
    from mqbroker.imq.record.followed import Followed
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import Recovered


log = Logger(namespace="mqbroker.imq")


def lasting_addresses(core: MessagingCore, others: Iterable[str] = ()) -> set[str]:
    """The addresses where messages go that nobody has taken, those of addresses with the names ``others`` too."""
    settings = [each.settings for each in core.addresses.values()]
    settings += [core.settings_of(name, False) for name in others]
    return {name for each in settings for name in (each.dead_letter_address, each.expiry_address) if name}


def ended_since(own: Followed, other: Followed, found: Recovered, core: MessagingCore) -> Ended:
    """The part of ``found`` that was deleted on the record after its broker had followed it for the last time, as ``other`` says.

    All that the record makes up to the position of ``own`` is here.  So a queue that the record has made there was deleted if it is missing
    here, or was made anew since.  One of which the other broker knows no position stays: it may never have come on record.  Where the two
    have followed different records, nobody can say.
    """
    if other.generation is None or not own.has(other.generation, other.position):
        return Ended()
    lasting = lasting_addresses(core, (each.name for each in found.addresses))
    queues, kept = set(), set()
    for record in found.queues:
        shared = is_recorded(Change("create", QueueDefinition.from_record(record))) and record.address not in lasting
        made_there = shared and other.lives.get(record.name, ("", 0))[0] == other.generation
        if made_there and (record.name not in core.queues or own.has_later(record.name, other)):
            log.info("the queue {queue} was deleted while its broker was away: it goes with its messages", queue=record.name)
            queues.add(record.queue_id)
        else:
            kept.add(record.address)
    addresses = {record.address for record in found.queues} - kept
    return Ended(queues, {each.name for each in found.addresses if each.name in addresses and each.name not in core.addresses})
