"""Copies of home brokers that lose their power: a home that has prepared what another broker has decided will hear of it."""

from __future__ import annotations

from typing import Any

from mqbroker.imq.delivery.coordination import BRANCH_FORMAT
from mqbroker.messaging.delivery.branches import COORDINATED_FORMAT
from mqbroker.messaging.ports import BranchState, Recovered
from mqbroker.storage.files.filestore import FileStore
from mqclient.wire.primitives import Xid
from tests.simulation.broker import BrokerNode
from tests.simulation.copies import Copies
from tests.simulation.survival import Kept


class HomeCopies(Copies):
    """What a branch at a home has acknowledged is gone if the broker that coordinates it has decided so, on its own copy."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._held: list[tuple[Xid, str, str, int]] = []
        """Branches at homes, with the node, the queue and the id of a message that each has acknowledged."""
        self._decided: set[tuple[bytes, bytes]] = set()

    def read(self, node: BrokerNode, store: FileStore, recovered: Recovered, kept: Kept) -> None:
        super().read(node, store, recovered, kept)
        names = {queue.queue_id: queue.name for queue in recovered.queues}
        for record in (branch.record for branch in recovered.branches):
            if record.xid.format_id == BRANCH_FORMAT:
                self._held += [(record.xid, node.name, names[queue_id], message_id) for queue_id, message_id in record.acknowledged]
            elif record.xid.format_id == COORDINATED_FORMAT and record.state is BranchState.COMMITTED:
                self._decided.add(_key(record.xid))

    def all_read(self, kept: Kept) -> None:
        gone = {(node, queue, message_id) for xid, node, queue, message_id in self._held if _key(xid) in self._decided}
        self._held.clear()
        self._decided.clear()
        for copy, places in list(kept.copies.items()):
            left = [found for found in places if (found.node, found.queue, found.message_id) not in gone]
            if left:
                kept.copies[copy] = left
            else:
                del kept.copies[copy]


def _key(xid: Xid) -> tuple[bytes, bytes]:
    """What the branch at its home and the record of it at the other broker have in common."""
    return xid.global_transaction_id, xid.branch_qualifier
