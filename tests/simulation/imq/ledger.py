"""What must follow from what clients of home brokers were told, where that differs from what other clusters promise."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.cluster.ledger import ClusterLedger
from tests.simulation.model import DRAIN, Receipt


class HomeLedger(ClusterLedger):
    """A message has the id of its home there, and another one at each broker that consumes it, which nobody keeps.

    ``has_record``: there is a master.  Where there is none, a home that was not linked when a subscription was deleted has it still, and
    gives its messages to the next one of that name.
    """

    def __init__(self, has_record: bool) -> None:
        super().__init__(several_hops=not has_record)
        self.taken_back: dict[tuple[str, int], float] = {}
        """When a home took back what a consumer had been given, by the broker of the consumer and the id of the message there."""
        self.unheard: set[str] = set()
        """Queues that were deleted and made again, of which only a master knows that stays away: the others have their former lives."""

    def receive(self, receipt: Receipt) -> str | None:
        """What a broker has sent to a client whose connection fails it sends once more when the client is back (as CORE demands).

        The message may be another one's by then.  It is judged by the time at which it was given to the client.  Those that empty the
        queues in the end have one name at all brokers, and lose no connection.
        """
        home = "" if receipt.who == DRAIN else self.homes.get(receipt.who, "")
        given_until = self.taken_back.get((home, receipt.message_id))
        if given_until is not None and receipt.sent > given_until:
            receipt = replace(receipt, sent=given_until)
        return super().receive(self._of_its_life(receipt))

    def _of_its_life(self, receipt: Receipt) -> Receipt:
        """What a queue of :attr:`unheard` has from the time before its present life is a message of the former one."""
        queue, message = receipt.place, self.sent.get(receipt.copy[1])
        if queue not in self.unheard or message is None:
            return receipt
        lives = [life.key for life in self._lives[queue] if life.asked <= message.done]
        return replace(receipt, copy=(lives[-1], message.identity)) if lives else receipt

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
