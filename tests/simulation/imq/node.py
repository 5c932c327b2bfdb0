"""A home broker of the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.imq.delivery.coordination import BRANCH_FORMAT
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer
from mqbroker.imq.record.followed import Followed
from mqbroker.messaging.queues.queue import Queue
from mqbroker.node.homes import Homes
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.imq.ledger import HomeLedger
from tests.simulation.world import Process

OWN = "imq."
"""Beginning of the queues for answers of other members."""


class HomeNode(ClusterNode):
    """A member whose messages stay with it.  ``losses``: how often a home has taken back what consumers of a queue were given."""

    peers: Sequence[HomeNode]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.losses: Counter[str] = Counter()
        self.standing = Followed({})
        """How far it has followed the change record, or had when it died."""

    @property
    def homes(self) -> Homes:
        assert self.clustering is not None and self.clustering.homes is not None
        return self.clustering.homes

    def has_former_life(self, queue: str, at: HomeNode) -> bool:
        """Has the queue here ended and been made again, as another member knows, but not yet this one, whose master is away?

        Its messages go with it when the master is back.
        """
        life = at.standing.lives.get(queue)
        recording = self.homes.shared.recording
        return life is not None and recording.master is not None and recording.master_peer() is None and not recording.standing.has(*life)

    def became_active(self, process: Process) -> None:
        super().became_active(process)
        self.standing = self.homes.shared.recording.standing
        self._watch_losses()

    def _watch_losses(self) -> None:
        """Notice what consumers have been given when its home takes it back."""
        delivery, ledger = self.homes.delivery, self.cluster_ledger
        assert isinstance(ledger, HomeLedger)
        open_consumer = delivery.open_consumer

        def watched(remote: RemoteConsumer) -> None:
            lose = remote.lose

            def losing() -> None:
                self.losses[remote.owner.queue.name] += 1
                waiting = set(remote.waiting)
                given = [reference for reference in remote.unsettled.values() if reference not in waiting]
                for reference in given:
                    ledger.taken_back[self.name, reference.message.message_id] = self.world.now
                lose()

            remote.lose = losing  # type: ignore[method-assign]
            open_consumer(remote)

        delivery.open_consumer = watched  # type: ignore[method-assign]

    @property
    def is_blocked(self) -> bool:
        """Does this master take no changes?"""
        recording = self.homes.shared.recording
        return recording.is_master and recording.keeping.blocked is not None

    @property
    def held_up_until(self) -> float:
        """An answer may depend on each of the homes."""
        return max(node.process.paused_until for node in self.peers)

    def serves_brokers(self, queue: Queue) -> bool:
        return queue.name.startswith(OWN) or super().serves_brokers(queue)

    def in_doubt(self, queue: str) -> int:
        """Messages of a queue that a broker has consumed in a transaction, and stays away before it has told the outcome."""
        away = tuple(node_id_bytes(node.node_id) for node in self.peers if node.away)
        return sum(
            reference.queue.name == queue
            for branch in self.messaging.branches.prepared()
            if branch.xid.format_id == BRANCH_FORMAT and branch.xid.global_transaction_id.startswith(away)
            for reference in branch.transaction.acknowledged
        )

    def untold(self) -> int:
        """Decisions to commit that this broker keeps for homes that stay away."""
        away = {node_id_bytes(node.node_id) for node in self.peers if node.away}
        return sum(branch.branch_qualifier in away for branch in self.homes.delivery.coordination.decisions._records)

    def missing_links(self, live: list[HomeNode]) -> list[str]:
        """Members at which this broker has no sessions, and transactions whose outcome is not told everywhere."""
        homes = self.homes
        found = [
            f"{self.name} has no sessions at {other.name}"
            for other in live
            if other is not self and other.node_id not in homes.delivery.homes
        ]
        undecided = homes.delivery.coordination.undecided - self.untold()
        if undecided:
            found.append(f"{self.name} has {undecided} undecided branches")
        return found
