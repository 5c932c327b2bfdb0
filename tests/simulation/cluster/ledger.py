"""What must follow from what clients of a cluster were told, where that differs from what one broker promises.

A copy is a message on a queue, wherever in the cluster: an anycast queue or a shared subscription gets each message once, on one of the
nodes.  A subscription that only one node has gets what was sent elsewhere only while the other node knew of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tests.simulation.model import DRAIN, Copy, Ledger, Outcome, Receipt, Sent, Subscription, Unit


class ClusterLedger(Ledger):
    """``homes``: to which node a client, or the subscription of one, belongs.

    ``several_hops``: nodes between two others know a queue by its name only, and may take a new life of it for the old one.
    """

    def __init__(self, several_hops: bool) -> None:
        super().__init__()
        self._several_hops = several_hops
        self.lost_memory = True
        self.homes: dict[str, str] = {}
        self.doubtful: dict[str, set[str]] = defaultdict(set)
        """By identity: the queues that may not have been known where the message was sent."""
        self.twice: set[Copy] = set()
        """Those that a node has again after a scale-down that was interrupted, and that its target may have, too."""
        self.twice_for_a_third: set[str] = set()
        """By identity: those of them that wait for a third node."""
        self.in_doubt: dict[str, list[Callable[[], bool]]] = defaultdict(list)
        """By identity, of messages that a node gave away which had perhaps sent them to a third one: is that so?  For each handover."""
        self.brought_unanswered: set[str] = set()
        """By identity: messages that a link had brought to a node which then left, while their sender had no answer."""

    def may_be_twice(self, copy: Copy) -> bool:
        if copy in self.twice or copy[1] in self.twice_for_a_third or copy[1] in self.brought_unanswered:
            return True
        return any(has_got() for has_got in self.in_doubt.get(copy[1], ()))

    def receive(self, receipt: Receipt) -> str | None:
        wrong = super().receive(receipt)
        subscription = self.subscriptions.get(receipt.copy[0])
        if wrong is None or subscription is None or not self._several_hops:
            return wrong
        elsewhere = self.homes[subscription.queue] != self.homes[self.sent[receipt.copy[1]].producer]
        return None if elsewhere and "before this life" in wrong else wrong

    def _wrong_count(self, receipt: Receipt) -> str | None:
        """Counts begin anew on each node that a message comes to."""
        return None

    def _check_copy(self, message: Sent, copy: Copy, asked: dict[Copy, list[Unit]], subscription: Subscription | None = None) -> list[str]:
        if self.may_be_missing(message, copy, subscription):
            return []
        found = super()._check_copy(message, copy, asked, subscription)
        done = [unit.name for unit in asked.get(copy, []) if unit.outcome is Outcome.DONE]
        if len(done) > 1 and not self.may_be_twice(copy):
            found.append(f"{copy} was acknowledged {len(done)} times: by {', '.join(done)}")
        return found

    def may_be_missing(self, message: Sent, copy: Copy, subscription: Subscription | None) -> bool:
        if self.by_copy.get(copy):
            return False
        elsewhere = subscription is not None and self.homes[subscription.queue] != self.homes[message.producer]
        return elsewhere or copy[0] in self.doubtful.get(message.identity, ())

    def home_of(self, receipt: Receipt) -> str:
        return "nowhere" if receipt.who == DRAIN else self.homes[receipt.who]

    def _check_ids(self) -> list[str]:
        """On each node a message id belongs to one message for ever."""
        found = []
        owners: dict[tuple[str, int], str] = {}
        for receipt in self.receipts:
            if receipt.who == DRAIN:
                continue
            identity, home = receipt.copy[1], self.homes[receipt.who]
            owner = owners.setdefault((home, receipt.message_id), identity)
            if owner != identity:
                found.append(f"message id {receipt.message_id} of {home} was used for {owner} and for {identity}")
        return found
