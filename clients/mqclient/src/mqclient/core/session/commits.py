"""Commits that take effect exactly once: each carries an id, so that its outcome can be found out when its answer is lost.

Transactions that only send are held and repeated as a whole.  One that has received as well is rolled back: its messages come again, and
only the application knows what to make of them.
"""

from __future__ import annotations

from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.once.caches import IdCaches
from mqclient.core.once.held import Held, Regular
from mqclient.core.once.ids import OwnIds, commit_marker
from mqclient.core.once.outcomes import Outcomes
from mqclient.core.once.questions import may_pass
from mqclient.core.once.sends import INTERRUPTED, lost
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.sending.uploads import LargeUploads
from mqclient.core.sending.work import Work
from mqclient.core.session.transactions import Transaction, rolled_back
from mqclient.core.settings import LocatorSettings
from mqclient.errors import ExactlyOnceError, IdCacheError, MQError, TransactionRolledBackError
from mqclient.wire.packets import Commit, NullResponse, Rollback, SessionSend


class CommittingSession(Protocol):
    channel: Channel
    settings: LocatorSettings
    flow: ProducerFlow
    uploads: LargeUploads
    work: Work

    @property
    def open_transaction(self) -> Transaction: ...


class Commits:
    """The commits of a session, and the sends of its open transaction."""

    def __init__(self, session: CommittingSession, caches: IdCaches, ids: OwnIds, outcomes: Outcomes) -> None:
        self._session = session
        self._caches = caches
        self._ids = ids
        self._outcomes = outcomes
        self._bytes_max = session.settings.exactly_once_window_size
        self._committing = False
        self.forget()

    @property
    def holding(self) -> bool:
        """Is there a transaction of which the node knows?"""
        return self._committing or self._session.open_transaction.has_work

    def session_recreated(self) -> None:
        """The session lives on, perhaps at another broker."""
        self._outcomes.forget()
        self._caches.forget()

    # --- the sends of the open transaction

    def add(self, send: Held | Regular, address: str, size: int, ids_kept: int) -> None:
        """A send of ``size`` bytes is about to be written.  Raises ``IdCacheError``."""
        count = self._counts[address] = self._counts.get(address, 0) + 1
        if count > ids_kept:
            raise IdCacheError(f"the broker keeps {ids_kept} duplicate ids of {address} (id-cache-size), and the transaction has more")
        self._bytes += size
        if self._bytes > self._bytes_max:
            self._whole = False
            self._sends.clear()
        if self._whole:
            self._sends.append(send)

    def remove(self, send: Held | Regular) -> None:
        """The send was not written after all.  Nothing happens when its transaction has ended meanwhile, even if the next one has an
        equal send, which an application's own id allows."""
        for place in reversed(range(len(self._sends))):
            if self._sends[place] is send:
                del self._sends[place]
                return

    def forget(self) -> None:
        """The sends are undone, or have taken effect."""
        self._sends: list[Held | Regular] = []
        self._bytes = 0
        self._counts: dict[str, int] = {}
        self._whole = True
        """Are all sends of the transaction held?"""

    # --- the end of the transaction

    async def rollback(self, consider_last_message_as_delivered: bool) -> None:
        """As :meth:`Transaction.rollback`, over a failure of the connection, which undoes the work as well."""
        transaction = self._session.open_transaction
        transaction.drop_sends()
        undone = False

        def forget() -> None:
            nonlocal undone
            undone = True
            transaction.forget_work()

        while not undone:
            try:
                await transaction.undo(Rollback(consider_last_message_as_delivered), NullResponse, forget)
            except INTERRUPTED:
                if self._session.channel.error is not None:
                    raise

    async def commit(self) -> None:
        """Returns when the work has taken effect; raises ``TransactionRolledBackError`` when it has not and never will."""
        session = self._session
        async with session.work.order:
            self._committing = True
            try:
                await self._commit(session.open_transaction)
            finally:
                self._committing = False

    async def _commit(self, transaction: Transaction) -> None:
        cause = await self._written(transaction)
        if not (transaction.has_work or transaction.rollback_only):
            return
        sends, whole = self._sends, self._whole and cause is None and not transaction.has_receipts
        kept = sends, self._bytes, self._counts, whole
        try:
            await self._prepare(transaction)
            while True:
                if transaction.rollback_only:
                    await self._roll_back(transaction)
                elif await self._try(transaction):
                    return
                if not whole:
                    raise rolled_back(cause) from cause
                await self._repeat(transaction, sends)
        except MQError:
            raise
        except BaseException:  # cancelled: what was undone, and perhaps repeated in part, is left to the next call as a whole
            if self._sends is not sends:
                self._sends, self._bytes, self._counts, self._whole = kept
                transaction.rollback_only = True
            raise

    async def _prepare(self, transaction: Transaction) -> None:
        """Raises ``TransactionRolledBackError`` when the broker cannot remember commits just now; nothing was committed then."""
        try:
            await self._outcomes.prepare()
        except ExactlyOnceError as error:
            if not may_pass(error.__cause__):
                raise
            await self._roll_back(transaction)
            raise TransactionRolledBackError(f"the transaction was rolled back, and can be repeated: {error}") from None

    async def _written(self, transaction: Transaction) -> BaseException | None:
        while True:
            try:
                return await transaction.written()
            except INTERRUPTED as error:
                self._check_open("the transaction", error)

    async def _try(self, transaction: Transaction) -> bool:
        """Commit; False when the work is undone for certain.  Raises the refusal of the broker, which has undone the work, too."""
        channel = self._session.channel
        await channel.ready()
        if transaction.rollback_only:
            await self._roll_back(transaction)
            return False
        commit_id = self._ids.next()
        incarnation = channel.incarnation
        channel.send(SessionSend(commit_marker(commit_id)))
        call = channel.submit(Commit(), NullResponse, bound=True)
        try:
            await call.future
        except INTERRUPTED as error:
            self._check_open(f"the commit with the duplicate id {commit_id}", error)
            # Work that was written before is done with, or undone, when this is answered.
            await self._roll_back(transaction)
            return call.sent and await self._outcomes.has_happened(commit_id)
        except MQError as error:
            if isinstance(error, TransactionRolledBackError) and not call.sent and channel.incarnation != incarnation:
                await self._roll_back(transaction)
                return False
            received = transaction.has_receipts
            transaction.forget_work()
            if received and call.sent:
                await transaction.refused()
            raise
        transaction.forget_work()
        return True

    async def _roll_back(self, transaction: Transaction) -> None:
        """Undo until the broker has answered."""
        while True:
            try:
                await transaction.undo(Rollback(False), NullResponse, transaction.forget_work, in_order=True)
            except INTERRUPTED as error:
                self._check_open("the transaction", error)
            else:
                if not transaction.rollback_only:
                    return

    async def _repeat(self, transaction: Transaction, sends: list[Held | Regular]) -> None:
        """Write the sends again; a failure of the connection meanwhile makes the transaction rollback-only."""
        try:
            for send in sends:
                await self._write(send)
        except INTERRUPTED as error:
            self._check_open("the transaction", error)
            transaction.rollback_only = True
        except MQError as error:
            self._check_open("the transaction", error)
            await self._roll_back(transaction)
            raise rolled_back(error) from error

    async def _write(self, send: Held | Regular) -> None:
        if isinstance(send, Held):
            send.body.rewind()
            await self._session.uploads.send(_Again(self._session, send.producer_id), send.wire, send.address, False, None, 0)
        else:
            producer_id, address, buffer = send
            await _Again(self._session, producer_id).send_regular(None, address, buffer, False, None, 0)

    def _check_open(self, what: str, error: MQError) -> None:
        if self._session.channel.error is not None:
            raise lost(what, error) from error


class _Again:
    """The producer of a message whose transaction is repeated; its own may be closed by now."""

    def __init__(self, session: CommittingSession, producer_id: int) -> None:
        self.id = producer_id
        self._session = session

    def check_send(self, era: int) -> None:
        """Nothing but the commit itself gives up the repetition."""

    async def send_regular(self, message: Any, address: str, buffer: bytes, block: bool, handler: Any, era: int) -> None:
        await self._session.flow.acquire(self, address, len(buffer))
        await self._session.channel.ready(writable=True)
        self._session.open_transaction.sent()
        self._session.channel.send(SessionSend(buffer, sender_id=self.id))
