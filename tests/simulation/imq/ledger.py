"""What must follow from what clients of home brokers were told, where that differs from what other clusters promise."""

from __future__ import annotations

from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.model import DRAIN, Receipt


class HomeLedger(ClusterLedger):
    """A message has the id of its home there, and another one at each broker that consumes it, which nobody keeps.

    A home that could not be told yet that a subscription was deleted has it still, and gives its messages to the next one of that name.
    """

    def __init__(self) -> None:
        super().__init__(several_hops=True)

    def home_of(self, receipt: Receipt) -> str:
        """The broker that has stored the message under this id, if the receiver is there."""
        if receipt.who == DRAIN:
            return "nowhere"
        home = self.homes[receipt.who]
        return home if self.homes[self.sent[receipt.copy[1]].producer] == home else "nowhere"

    def _check_ids(self) -> list[str]:
        """At its home a message id belongs to one message for ever."""
        found = []
        owners: dict[tuple[str, int], str] = {}
        for receipt in self.receipts:
            home, identity = self.home_of(receipt), receipt.copy[1]
            owner = owners.setdefault((home, receipt.message_id), identity) if home != "nowhere" else identity
            if owner != identity:
                found.append(f"message id {receipt.message_id} of {home} was used for {owner} and for {identity}")
        return found
