"""Messages that other brokers keep, given to consumers here: what queues, settlement and sessions know of them.

Each is a :class:`~mqbroker.messaging.queues.references.RemoteReference` from the moment at which a consumer has it.  Its *home*, the broker
that keeps it, hears how it was settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.queues.references import Reference

if TYPE_CHECKING:
    from mqbroker.messaging.ports import StoreBatch
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.context import OperationContext
    from mqclient.errors import MQError
    from mqclient.wire.primitives import Xid


class Work(Protocol):
    """A transaction, as far as its acknowledgements go."""

    acknowledged: list[Reference]
    failure: MQError | None
    outside: object | None
    """The part of it at other brokers."""

    def mark_rollback_only(self, failure: MQError) -> None: ...


class Confirmation(Protocol):
    """The answer of the homes to acknowledgements."""

    @property
    def failure(self) -> MQError | None:
        """Why they are not confirmed; None when they are.  Known once the context goes on."""


class Elsewhere(Protocol):
    """Messages that other brokers keep.  All calls come inside a turn."""

    def consumers_changed(self, queue: Queue) -> None:
        """A consumer of ``queue`` has come or gone."""

    # Each of these settles the remote ones among the references, and returns the others.

    def acknowledge(self, references: Sequence[Reference]) -> Sequence[Reference]:
        """The messages are done with."""

    def confirm(self, references: Sequence[Reference], context: OperationContext) -> tuple[Sequence[Reference], Confirmation | None]:
        """As :meth:`acknowledge`; ``context`` holds everything that is asked of it later until the homes have stored that."""

    def give_back(self, references: Sequence[Reference], *, counted: bool) -> Sequence[Reference]:
        """The messages go back to be given to others; with ``counted`` they were consumed in vain."""

    def expire(self, reference: Reference) -> bool:
        """The message was expired when a consumer got it.  False: it is none of another broker."""

    # Transactions: what was consumed from other brokers is a branch at each of these.

    def prepare(self, work: Work, xid: Xid | None) -> None:
        """Before the commit (``xid`` None) or prepare of ``work``: prepare its branches at the homes.

        Raises Undecided until they have answered.  A refusal by a home makes ``work`` rollback-only.
        """

    def remember(self, work: Work, batch: StoreBatch) -> None:
        """``work`` is being prepared: keep which homes take part."""

    def decide(self, work: Work, batch: StoreBatch) -> bool:
        """``work`` is being committed: keep the decision.  Returns whether there is one."""

    def undo(self, work: Work, batch: StoreBatch) -> None:
        """A prepared ``work`` is being rolled back: forget which homes take part."""

    def committed(self, work: Work) -> None:
        """The commit is durable: tell the homes."""

    def rolled_back(self, work: Work) -> None:
        """Tell the homes, and take their messages out of ``work``."""
