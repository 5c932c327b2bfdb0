"""What clients of a group were told: with a former holder there may be two brokers that send messages, of which one acknowledges."""

from __future__ import annotations

from collections.abc import Callable

from mqclient.xa import Xid
from tests.simulation.model import Copy, Ledger, Outcome, Receipt


class HaLedger(Ledger):
    """``turn_at``: whose turn it was at a time.  The life of a receipt is the turn of its broker."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_memory = True
        self.turn_at: Callable[[float], int] = lambda time: 0
        self.stale = 0
        """Receipts that came from a former holder."""
        self.is_split = False
        """Have two brokers acknowledged work at the same time, where nothing prevents it?"""
        self.unknown_branches: set[Xid] = set()
        """Branches of which the active broker has said at last that it knows none, and no broker that it has ended them."""
        self.put_away: Callable[[], set[Copy]] = set
        """The copies of messages in what was put away after that."""

    def receive(self, receipt: Receipt) -> str | None:
        """A former holder gives what it has in memory, until it looks at the folder; what is done with that is not confirmed."""
        if self.is_split:
            self.receipts.append(receipt)
            self.by_copy[receipt.copy].append(receipt)
        if self.is_split or receipt.life < self.turn_at(receipt.sent):
            self.stale += not self.is_split
            known = receipt.copy[1] in self.sent
            return None if known else f"{receipt.copy} was never sent"
        return super().receive(receipt)

    def _wrong_count(self, receipt: Receipt) -> str | None:
        """Counts are judged where one broker is alone."""
        return None

    def problems(self) -> list[str]:
        """After a split two brokers have given what both have; all that was confirmed is with one of them, or was put away."""
        if not self.is_split:
            return super().problems()
        kept = self.put_away()
        return [
            f"{(queue, message.identity)} is lost: it was confirmed to {message.producer}, nobody has received it, and it was not put away"
            for message in self.sent.values()
            if message.outcome is Outcome.DONE and message.durable and not message.drops
            for queue in message.queues
            if (queue, message.identity) not in kept and not self.by_copy.get((queue, message.identity))
        ]
