"""The sends of a session that take effect exactly once: each is held until its outcome is known, and repeated in a session made anew.

Sends in one packet follow each other without waiting, and are repeated in their order before any new one is written.  A large message is
repeated by its own upload, before the next message to the same address.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.listeners import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.core.once.caches import IdCaches
from mqclient.core.once.held import Held, Regular
from mqclient.core.once.ids import OwnIds, has_id_of_application
from mqclient.core.once.questions import PAUSE, may_pass
from mqclient.core.runtime import Runtime, Timer, Waiters, sleep
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.sendable import encoded
from mqclient.core.sending.uploads import LargeUploads, Uploader
from mqclient.core.settings import LocatorSettings
from mqclient.errors import (
    ConnectionTimedOutError,
    IdCacheError,
    LargeMessageInterruptedError,
    MQError,
    NodeLostError,
    ObjectClosedError,
    UnblockedError,
)
from mqclient.wire.message import KEY_DUPLICATE_ID, encode_message
from mqclient.wire.packets import SessionSend
from mqclient.wire.properties import STRING

INTERRUPTED = (UnblockedError, ConnectionTimedOutError, LargeMessageInterruptedError)
"""The errors of calls whose outcome the connection has taken with it."""


class OneNode(Protocol):
    """The node that the connection belongs to."""

    def require(self) -> str:
        """Its node id.  Raises ``ExactlyOnceError`` when the broker does not say it."""


class HeldTransaction(Protocol):
    """The sends of the open transaction."""

    def add(self, send: Held | Regular, address: str, size: int, ids_kept: int) -> None:
        """A send of ``size`` bytes is about to be written.  Raises ``IdCacheError`` when ``ids_kept``, the number that the broker keeps of
        its address, is too small for the transaction."""

    def remove(self, send: Held | Regular) -> None:
        """The send was not written after all.  Nothing happens when its transaction has ended meanwhile."""


class RepeatingSession(Protocol):
    runtime: Runtime
    settings: LocatorSettings
    channel: Channel
    async_sends: AsyncSends
    uploads: LargeUploads

    @property
    def auto_commit_sends(self) -> bool: ...

    def connection_failed(self, error: MQError) -> None:
        """A send was not answered: the connection counts as failed."""


class RepeatedSends:
    """``transaction`` keeps the sends of a session whose sends belong to transactions."""

    def __init__(self, session: RepeatingSession, node: OneNode, caches: IdCaches, ids: OwnIds, transaction: HeldTransaction) -> None:
        self._session = session
        self._channel = session.channel
        self._runtime = session.runtime
        self._node = node
        self._caches = caches
        self._ids = ids
        self._transaction = transaction
        self._transacted = not session.auto_commit_sends
        self._timeout = session.settings.call_timeout / 1000
        self._count = 0
        self._unconfirmed: dict[int, Held] = {}
        """Written and not answered, by number; those of transactions are not here."""
        self._again: dict[int, Held] = {}
        """Of these, the ones that have to be written again."""
        self._counts: Counter[str] = Counter()
        """Unconfirmed sends by address."""
        self._uploading = 0
        self.repeating = False
        """Are sends of before a failure to be repeated before any other?"""
        self._waiters = Waiters(self._runtime)
        self._watch: Timer | None = None

    @property
    def holding(self) -> bool:
        """Is there a send whose outcome is not known?"""
        return bool(self._unconfirmed or self._uploading)

    # --- sending

    def with_id(self, message: ClientMessage) -> bytes:
        """The encoded ``message`` with its id.  It has that only as it travels: the application may send the same object again, as another
        message."""
        if KEY_DUPLICATE_ID not in message.properties:
            return encoded(encode_message, message, self._ids.next_property())
        if has_id_of_application(message):
            return encoded(encode_message, message)
        others = {key: value for key, value in message.properties.items() if key != KEY_DUPLICATE_ID}
        return encoded(encode_message, replace(message, properties=others), self._ids.next_property())

    def hold(
        self, producer_id: int, message: ClientMessage, address: str, buffer: bytes, handler: SendAcknowledgementHandler | None
    ) -> Held | None:
        """What has to go to :meth:`write`; None: :meth:`join` is all that the send needs.  ``buffer`` is empty for a large message, which
        gets its id here.

        Raises ``BodyNotRepeatableError``.
        """
        if buffer:
            if self._transacted and handler is None:
                return None
            return Held(self, message, message, address, producer_id, buffer, handler)
        wire = replace(message, properties=dict(message.properties))
        if not has_id_of_application(message):
            wire.properties[KEY_DUPLICATE_ID] = (STRING, self._ids.next())
        return Held(self, message, wire, address, producer_id, buffer, handler)

    def join(self, producer_id: int, address: str, buffer: bytes) -> Regular | None:
        """Hold a send with the open transaction; it is written like any other then, or goes to :meth:`not_written`.

        None: :meth:`ask` has to come first.
        """
        ids_kept = self._caches.known(address)
        if ids_kept is None:
            return None
        self._node.require()
        send = producer_id, address, buffer
        self._transaction.add(send, address, len(buffer), ids_kept)
        return send

    def not_written(self, send: Regular) -> None:
        """The send that has joined the transaction has failed."""
        self._transaction.remove(send)

    async def ask(self, address: str) -> int:
        """How many ids does the broker keep of the address?  Raises ``IdCacheError``, ``ExactlyOnceError``."""
        self._node.require()
        return self._caches.known(address) or await self._caches.check(address)

    async def write(self, producer: Uploader, held: Held, era: int) -> Any:
        """Send in the turn of its address; returns the future of the confirmation if the sender waits for it, else None."""
        size = await self.ask(held.address)
        if self._transacted:
            producer.check_send(era)
            send = held.of_transaction
            self._transaction.add(send, held.address, held.size, size)
            handler = None if held.handler is None else held
            try:
                if held.large:
                    await self._session.uploads.send(producer, held.wire, held.address, False, handler, era)
                else:
                    await producer.send_regular(held.message, held.address, held.buffer, False, handler, era)
            except LargeMessageInterruptedError:
                pass  # the transaction is repeated as a whole, or its commit says that it was rolled back
            except BaseException:
                self._transaction.remove(send)
                raise
            return None
        while self._counts[held.address] >= max(size // 2, 1) or self.repeating:
            await self._wait()
            producer.check_send(era)
        if held.large:
            await self._upload(producer, held, era)
            return None
        if held.handler is None:
            held.future = self._runtime.create_future()
        self._keep(held)
        try:
            await producer.send_regular(held.message, held.address, held.buffer, False, held, era)
        except BaseException:
            self._forget(held)
            raise
        held.written = self._runtime.now()
        return held.future

    async def _upload(self, producer: Uploader, held: Held, era: int) -> None:
        """Send a large message until the broker has confirmed it."""
        began = False
        self._uploading += 1
        try:
            while True:
                try:
                    await self.ready()
                    if self._caches.known(held.address) is None:
                        await (self._check_held(held) if began else self._caches.check(held.address))
                    held.body.rewind()
                    began = True
                    answer = await self._session.uploads.send(producer, held.wire, held.address, True, None, era)
                    if answer is not None:
                        await answer
                    break
                except INTERRUPTED as error:
                    if self._channel.error is not None:
                        raise lost(f"the message with the duplicate id {held.duplicate_id}", error) from error
                except ObjectClosedError as error:
                    if began and isinstance(error.__cause__, MQError):
                        raise lost(f"the message with the duplicate id {held.duplicate_id}", error) from error
                    raise
        finally:
            self._uploading -= 1
        if held.handler is not None:
            self._tell(held.handler.send_acknowledged, held.message)

    async def ready(self) -> None:
        """As :meth:`Channel.ready`, and until the sends of before a failure are repeated."""
        await self._channel.ready()
        while self.repeating:
            await self._wait()
            await self._channel.ready()

    # --- outcomes

    def confirmed(self, held: Held) -> None:
        self._forget(held)
        if held.future is not None:
            self._runtime.resolve(held.future, None)
        if held.handler is not None:
            held.handler.send_acknowledged(held.message)

    def unconfirmed(self, held: Held, error: MQError) -> None:
        if isinstance(error, UnblockedError) and self._channel.error is None:
            if held.number in self._unconfirmed:
                self._again[held.number] = held
            return  # the sends of a transaction are repeated with it
        self._forget(held)
        if self._channel.error is not None:
            error = lost(f"the message with the duplicate id {held.duplicate_id}", error)
        if held.future is not None:
            self._runtime.reject(held.future, error)
        if held.handler is not None:
            held.handler.send_failed(held.message, error)

    # --- the life of the session

    def session_recreated(self) -> None:
        """The broker has lost the session: sends that it has not answered have to be repeated before any other."""
        self.repeating = bool(self._again)

    def session_restored(self) -> None:
        """The session that was made anew can be used."""
        if self.repeating:
            self._runtime.spawn(self._repeat(self._channel.incarnation))

    def ended(self, error: MQError) -> None:
        """The session is over."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for held in [*self._again.values()]:
            self._tell(self.unconfirmed, held, error)
        self._waiters.wake()

    # --- inside

    async def _repeat(self, incarnation: int) -> None:
        channel, async_sends = self._channel, self._session.async_sends
        for address in {held.address for held in self._again.values()}:
            await self._check_again(address, incarnation)
        for number in sorted(self._again):
            try:
                await channel.ready(writable=True)
            except MQError:
                return  # the end of the session has told the senders
            if channel.incarnation != incarnation:
                return  # the next restoration begins anew, with these and the ones that were repeated already
            held = self._again.pop(number)
            correlation = async_sends.register(held.message, held, len(held.buffer))
            channel.send(SessionSend(held.buffer, True, correlation, held.producer_id), tag=correlation)
            held.written = self._runtime.now()
        self.repeating = False
        self._waiters.wake()

    async def _check_again(self, address: str, incarnation: int) -> None:
        """Give up the sends to an address whose ids the broker, now perhaps the backup, may not know."""
        try:
            size, error = await self._size_in_doubt(address), None
        except IdCacheError as missing:
            size, error = 0, missing
        except MQError:
            return  # the session is over, and has told the senders
        if self._channel.incarnation != incarnation or size >= self._counts[address]:
            return
        for held in [held for held in self._again.values() if held.address == address]:
            self._tell(self.unconfirmed, held, _in_doubt(held, error or f"it keeps {size} duplicate ids of {address} (id-cache-size)"))

    async def _check_held(self, held: Held) -> None:
        """As :meth:`_check_again`, for a large message whose upload has begun before."""
        try:
            await self._size_in_doubt(held.address)
        except IdCacheError as error:
            raise _in_doubt(held, error) from error

    async def _size_in_doubt(self, address: str) -> int:
        """As :meth:`.IdCaches.check`, for sends that the broker may have: asks until it says so, or the session is over."""
        while True:
            try:
                return await self._caches.check(address)
            except IdCacheError as error:
                if self._channel.error is None and not may_pass(error.__cause__):
                    raise
            if self._channel.error is not None:
                raise self._channel.error
            await sleep(self._runtime, PAUSE)

    def _keep(self, held: Held) -> None:
        self._count += 1
        held.number = self._count
        self._unconfirmed[held.number] = held
        self._counts[held.address] += 1
        if self._watch is None:
            self._watch = self._runtime.call_later(self._timeout, self._look)

    def _forget(self, held: Held) -> None:
        if self._unconfirmed.pop(held.number, None) is None:
            return
        self._again.pop(held.number, None)
        left = self._counts[held.address] - 1
        if left:
            self._counts[held.address] = left
        else:
            del self._counts[held.address]
        self._waiters.wake()

    def _look(self) -> None:
        """A send that is not answered within the time of a call fails the connection, as a call does."""
        self._watch = None
        written = [held.written for held in self._unconfirmed.values() if held.written is not None]
        if not self._unconfirmed:
            return
        now = self._runtime.now()
        due = max(min(written, default=now), self._channel.usable_since) + self._timeout
        if not (self._channel.locked or self.repeating) and now >= due:
            self._session.connection_failed(
                ConnectionTimedOutError(f"a message was not answered within {self._timeout:g} s; the connection is given up")
            )
            due = now + self._timeout
        if self._watch is None and self._channel.error is None:
            self._watch = self._runtime.call_later(max(due - now, 0.001) if due > now else self._timeout, self._look)

    async def _wait(self) -> None:
        """Until something may have changed.  Raises why the session is over."""
        if self._channel.error is not None:
            raise self._channel.error
        await self._waiters.wait()
        if self._channel.error is not None:
            raise self._channel.error

    def _tell(self, function: Any, *args: object) -> None:
        try:
            function(*args)
        except Exception as error:  # the application's failure must not stop the session
            self._runtime.log_failure("a send acknowledgement handler failed", error)


def _in_doubt(held: Held, reason: IdCacheError | str) -> IdCacheError:
    """The error for a send of which a broker with too few ids cannot tell."""
    error = IdCacheError(f"whether the broker has the message with the duplicate id {held.duplicate_id} cannot be found out: {reason}")
    error.__cause__ = reason if isinstance(reason, IdCacheError) else None
    return error


def lost(what: str, error: MQError) -> MQError:
    """The error for work whose outcome nobody tells any more, because the session is over for the reason ``error``."""
    if isinstance(error, ObjectClosedError) and error.__cause__ is None:
        return error  # the application has closed the session
    found = NodeLostError(f"whether the broker has {what} is not known, and its node is not to be had any more: {error}")
    found.__cause__ = error
    return found
