"""What must follow from what clients of an enhanced cluster were told, where that differs from what other home brokers promise."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from tests.simulation.imq.ledger import HomeLedger
from tests.simulation.model import Copy, Outcome, Receipt, Sent, Subscription

NEVER = float("inf")
THE_CLUSTER = "the cluster"
"""Who gives ids: these are of one sequence."""


class Stay(NamedTuple):
    """The data of a member at a time: what clients send is put into its ``own`` session, behind all in those that it has taken over."""

    own: int
    before: frozenset[int]

    def has(self, session: int) -> bool:
        return session == self.own or session in self.before


class MemberLedger(HomeLedger):
    """What a former owner gives from its memory is not confirmed, whatever is done with it.  Message ids are those of one sequence.

    A consumer gets what one producer has sent in its order, as long as the data to which the producer sends are those with its earlier
    messages.  That is so over takeovers when the client itself comes back, and not when it begins anew at any member.
    """

    def __init__(self) -> None:
        super().__init__(has_record=True)
        self.lost_at: dict[int, float] = {}
        """When the sessions of an activation got another owner, by the turn of its broker, which is the life of its receipts."""
        self.from_former: set[int] = set()
        """The ids of messages that a former owner has given to another member, for a consumer there."""
        self.stale = 0
        """Receipts that came from a former owner."""
        self.stays: dict[str, Stay | None] = {}
        """Where each client is, as it was when it came there."""
        self._sent_at: dict[str, Stay] = {}
        """Where the producer was when its message was confirmed, by identity."""
        self._stretches: list[tuple[str, list[tuple[str, Stay]]]] = []

    def stretch(self, who: str) -> list[tuple[str, Stay]]:
        """A consumer begins to get messages in order: their identities, each with the data that its broker has at the time."""
        entries: list[tuple[str, Stay]] = []
        self._stretches.append((who, entries))
        return entries

    def routed(self, identity: str, unread: Collection[str] | None) -> None:
        """A message is about to be sent at a member that has not read in the record yet what became of ``unread`` (names of queues).

        It may get to a former life of these, or to none.  None: the member serves nobody, and who does is not known.
        """
        for queue, lives in self._lives.items():
            if unread is None or queue in unread:
                self.doubtful[identity].update(each.key for each in lives)

    def may_be_missing(self, message: Sent, copy: Copy, subscription: Subscription | None) -> bool:
        return copy[0] in self.doubtful.get(message.identity, ()) and not self.by_copy.get(copy)

    def receive(self, receipt: Receipt) -> str | None:
        if receipt.sent >= self.lost_at.get(receipt.life, NEVER) or receipt.message_id in self.from_former:
            self.stale += 1
            return None if receipt.copy[1] in self.sent else f"{receipt.copy} was never sent"
        # A client may be at any member by now, and no two messages have one id.
        given_until = min((time for (_, message_id), time in self.taken_back.items() if message_id == receipt.message_id), default=NEVER)
        return super().receive(replace(receipt, sent=min(receipt.sent, given_until)))

    def _decide(self, identity: str, outcome: Outcome, now: float) -> None:
        message = self.sent[identity]
        stay = self.stays.get(message.producer)
        if message.outcome is Outcome.UNKNOWN and outcome is Outcome.DONE and stay is not None:
            self._sent_at[identity] = stay
        super()._decide(identity, outcome, now)

    def problems(self) -> list[str]:
        found = super().problems()
        for who, entries in self._stretches:
            found += self._check_order(who, [identity for identity, stay in entries if self._is_in(identity, stay)])
        return found

    def _is_in(self, identity: str, stay: Stay) -> bool:
        """Did the message come from these data?"""
        sent_at = self._sent_at.get(identity)
        return sent_at is not None and stay.has(sent_at.own)

    def comes_behind(self, message: Sent, earlier: Sent) -> bool:
        return self._sent_at[message.identity].has(self._sent_at[earlier.identity].own)

    def home_of(self, receipt: Receipt) -> str:
        return THE_CLUSTER
