"""Non-destructive queues: consumers see the messages and take none (Artemis manual, "Non-Destructive Queues").

Each consumer begins at the head and is lent every message once.  An acknowledgement only ends the loan; a message given back is lent to the
consumer again, before others.  A message leaves the queue when it expires, is replaced, has been lent to one consumer too often, or is
removed by management; its present borrowers may go on with it.

Loans are not stored: after a restart every consumer begins at the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.queues.last_values import LastValueQueue
from mqbroker.messaging.queues.references import Cursor, Loan, Reference

if TYPE_CHECKING:
    from mqbroker.messaging.filters.filter import Filter
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.ports import Cancellable
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.consumer import QueueConsumer
    from mqbroker.messaging.queues.definitions import QueueDefinition
    from mqbroker.messaging.queues.queue import QueueOwner


class _Borrower:
    """The loans of one consumer: ``lent`` are ids of messages, ``again`` ended loans that are to be made anew."""

    __slots__ = ("again", "lent")

    def __init__(self) -> None:
        self.lent: set[int] = set()
        self.again: list[Loan] = []


class NonDestructiveQueue(LastValueQueue):
    """A queue that lends its messages.  Loans are in the account of its address."""

    __slots__ = ("_borrowers", "_hold", "_let_go", "_timers", "lent")

    def __init__(self, queue_id: int, definition: QueueDefinition, address: Address, filter: Filter | None, owner: QueueOwner) -> None:
        super().__init__(queue_id, definition, address, filter, owner)
        self.groups = None
        self._hold = owner.hold
        self._let_go = owner.let_go
        self.lent = 0
        """Number of loans in delivery."""
        self._borrowers: dict[QueueConsumer, _Borrower] = {}
        self._timers: dict[Loan, Cancellable] = {}
        """Timers of loans that are to be made anew later."""

    @property
    def total_count(self) -> int:
        return self.references.count + self.scheduled.count + self.paged + self.delivering - self.lent

    # --- messages in

    def _due(self, due: list[Reference]) -> None:
        # Due messages go to the end: a consumer that has passed the head would never see them there.
        for reference in due:
            if self._may_come(reference):
                reference.scheduled = 0
                self.references.append(reference)
                self._came(reference)
        self.turn.mark_queue(self)

    # --- loans

    def put_back(self, reference: Reference) -> None:
        if not isinstance(reference, Loan):
            super().put_back(reference)
            return
        consumer = reference.consumer
        self._end(reference)
        if consumer is not None:
            self._lend_again(consumer, reference)

    def put_back_later(self, reference: Reference, time_ms: int) -> None:
        if not isinstance(reference, Loan):
            super().put_back_later(reference, time_ms)
            return
        consumer = reference.consumer
        self._end(reference)
        if consumer is not None and consumer in self._borrowers:
            seconds = max(0.0, (time_ms - self.clock.wall_ms()) / 1000)
            self._timers[reference] = self.clock.call_later(seconds, self.turn.run, self._lend_again, consumer, reference)

    def leave_delivery(self, reference: Reference) -> None:
        if not isinstance(reference, Loan):
            super().leave_delivery(reference)
            return
        self.delivering -= 1
        self.lent -= 1
        consumer = reference.consumer
        reference.consumer = None
        borrower = None if consumer is None else self._borrowers.get(consumer)
        if borrower is not None:
            borrower.lent.discard(reference.message.message_id)

    def take_lent(self, loan: Loan) -> Reference | None:
        """End a loan, and take its message out, to be treated as one in delivery; None when it has left the queue already."""
        self._end(loan)
        lender = loan.lender
        if self.deleted or not lender.listed:
            return None
        self.take(lender)
        lender.delivery_count = loan.delivery_count
        return lender

    def _end(self, loan: Loan) -> None:
        self.leave_delivery(loan)
        self._let_go(loan)

    def _lend_again(self, consumer: QueueConsumer, loan: Loan) -> None:
        self._timers.pop(loan, None)
        borrower = self._borrowers.get(consumer)
        if borrower is not None:
            borrower.again.append(loan)
            self.turn.mark_queue(self)

    # --- consumers

    def add_consumer(self, consumer: QueueConsumer) -> None:
        super().add_consumer(consumer)
        consumer.cursor = Cursor(restarts=False)
        self._borrowers[consumer] = _Borrower()

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        super().remove_consumer(consumer)
        self._borrowers.pop(consumer, None)
        if self.definition.exclusive:
            self.turn.mark_queue(self)

    def keep_groups(self) -> None:
        """No groups: every consumer gets the messages of every group."""

    def stop(self) -> None:
        super().stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # --- delivery

    def deliver(self) -> None:
        """Lend to each ready consumer the messages that it has not seen; on an exclusive queue only to the first consumer."""
        self._settle_outdated()
        if self.ring is not None:
            self.turn.mark_queue(self.ring)
        if self.paused or self.address.paused:
            return
        if self.pages is not None:
            self.pages.refill()
        if not self.dispatch_allowed:
            return
        begun = self.turn.scan.left > 0
        pending = False
        for consumer in list(self.consumers()):
            if consumer.ready and self._lend_to(consumer):
                pending = True
            if self.definition.exclusive:
                break
        if pending:
            self.turn.go_on_later(self, begun=begun)

    def _lend_to(self, consumer: QueueConsumer) -> bool:
        """Lend as long as the consumer is ready.  Returns whether the budget of the turn ended first."""
        borrower, cursor, scan = self._borrowers.get(consumer), consumer.cursor, self.turn.scan
        if borrower is None or cursor is None:
            return False
        if borrower.again:
            self._lend_returned(consumer, borrower)
        lent, filter = borrower.lent, consumer.filter

        def accept(reference: Reference) -> bool:
            message = reference.message
            return message.message_id not in lent and (filter is None or filter.matches(message))

        cursor.unfinished = False
        while consumer.ready and consumer.cursor is cursor:
            reference = self.references.search(cursor, accept, scan)
            if reference is None:
                cursor.unfinished = scan.left <= 0
                return cursor.unfinished
            if not self._expires_now(reference):
                self._lend(reference, consumer, borrower, 1)
        return False

    def _lend_returned(self, consumer: QueueConsumer, borrower: _Borrower) -> None:
        again, borrower.again = borrower.again, []
        again.sort(key=_place)
        while again and consumer.ready:
            loan = again.pop(0)
            lender = loan.lender
            if lender.listed and loan.message.message_id not in borrower.lent and not self._expires_now(lender):
                self._lend(lender, consumer, borrower, loan.delivery_count + 1)
        borrower.again = again + borrower.again

    def _lend(self, reference: Reference, consumer: QueueConsumer, borrower: _Borrower, count: int) -> None:
        message = reference.message
        loan = Loan(reference, count)
        loan.consumer = consumer
        borrower.lent.add(message.message_id)
        self._hold(loan, self.address.memory)
        self.delivering += 1
        self.lent += 1
        consumer.handle(loan)

    def _expires_now(self, reference: Reference) -> bool:
        """Has the message expired?  Then it leaves the queue."""
        if not self.has_expired(reference.message):
            return False
        self.take(reference)
        self._expired(reference)
        self.turn.scan.spend()
        return True

    def _key_of(self, message: Message) -> object:
        return super()._key_of(message) if self.definition.last_value else None


def _place(loan: Loan) -> tuple[int, int]:
    return -loan.lender.priority, loan.lender.order
