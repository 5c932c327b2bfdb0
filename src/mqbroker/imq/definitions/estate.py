"""What another broker had, and does not count any more: the record has said so, and that broker was away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.imq.record.changes import is_recorded
from mqbroker.messaging.administration.registrar import Change, Ended
from mqbroker.messaging.queues.definitions import QueueDefinition

if TYPE_CHECKING:
    from mqbroker.imq.record.followed import Followed
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import Recovered


def lasting_addresses(core: MessagingCore) -> set[str]:
    """The addresses where messages go that nobody has taken."""
    settings = [each.settings for each in core.addresses.values()]
    return {name for each in settings for name in (each.dead_letter_address, each.expiry_address) if name}


def ended_since(own: Followed, other: Followed, found: Recovered, core: MessagingCore) -> Ended:
    """What was deleted on the record after the broker that had ``found`` has followed it for the last time, as ``other`` says.

    Whatever the record makes is here up to the position of ``own``: one that is missing was deleted, also where it was made anew since.
    Where the two have followed different records, nobody can say.
    """
    if other.generation is None or not own.has(other.generation, other.position):
        return Ended()
    lasting = lasting_addresses(core)
    named = [each.name for each in found.addresses if not each.auto_created]
    addresses = {name for name in named if name not in core.addresses and name not in lasting}
    queues = set()
    for record in found.queues:
        definition = QueueDefinition.from_record(record)
        shared = is_recorded(Change("create", definition)) and record.address not in lasting
        if record.address in addresses or (shared and (record.name not in core.queues or own.has_later(record.name, other))):
            queues.add(record.queue_id)
    return Ended(queues, addresses)
