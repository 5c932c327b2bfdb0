"""What clients of a group were told: with a former holder there may be two brokers that send messages, of which one acknowledges."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.model import Ledger, Receipt


class HaLedger(Ledger):
    """``turn_at``: whose turn it was at a time.  The life of a receipt is the turn of its broker."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_memory = True
        self.turn_at: Callable[[float], int] = lambda time: 0
        self.stale = 0
        """Receipts that came from a former holder."""

    def receive(self, receipt: Receipt) -> str | None:
        """A former holder gives what it has in memory, until it looks at the folder; what is done with that is not confirmed."""
        if receipt.life < self.turn_at(receipt.sent):
            self.stale += 1
            known = receipt.copy[1] in self.sent
            return None if known else f"{receipt.copy} was never sent"
        return super().receive(receipt)

    def _wrong_count(self, receipt: Receipt) -> str | None:
        """Counts are judged where one broker is alone."""
        return None
