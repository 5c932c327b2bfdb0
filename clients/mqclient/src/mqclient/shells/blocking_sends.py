"""Sends of programs with threads: some wait for the broker, the others are only handed over to the reactor (posted).

A send that asks for no answer is posted as long as the credits of its address last, so that it costs no switch of threads.  Its failure
is reported by the next call of the session, or to its own handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from mqclient.core.api import SendAcknowledgementHandler, XAResource
from mqclient.core.connection.channel import closed_error
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import wait_at_most
from mqclient.core.sending.producers import Producer as CoreProducer
from mqclient.core.sending.sendable import check_message
from mqclient.core.session.session import Session
from mqclient.errors import MQError, TransactionRolledBackError
from mqclient.shells.threads import ReactorThread
from mqclient.xa import Xid

_GATES_MAX = 1000
"""Addresses of one anonymous producer whose credits are remembered."""
_POSTED_MAX = 1024 * 1024
"""Bytes that may be on their way from one producer's thread to the reactor, however many credits there are."""
_HEADERS = 200
"""Bytes that a message has besides its body, roughly."""


class Sender:
    """The producers of one session, whose sends may be on their way when ``send`` returns, and the calls that have to wait for them."""

    def __init__(self, runner: ReactorThread, session: Session) -> None:
        self.runner = runner
        self.session = session
        self.error: Exception | None = None
        """Why a posted send failed, until :meth:`raise_error` has told; None otherwise."""
        self._pending: set[Deferred[None]] = set()

    def create_producer(self, address: str | None = None, *, max_rate: int | None = None) -> Producer:
        return Producer(self, self.runner.call(self.session.create_producer, address, max_rate=max_rate))

    def commit(self, block: bool = True) -> None:
        """Commit after all sends; raises, without committing, the error of a send that has failed."""
        self.runner.call(self._after_sends, self.session.commit, block)

    def rollback(self, consider_last_message_as_delivered: bool = False) -> None:
        """Roll back; sends that could not be written yet are dropped."""
        self.runner.call(self._without_sends, self.session.rollback, consider_last_message_as_delivered)

    def end_branch(self, resource: XAResource, xid: Xid, flags: int) -> None:
        """End the work of the session on a branch after all sends; with ``XAError`` (``XA_RBOTHER``) when one of them has failed."""
        self.runner.call(self._end_branch, resource, xid, flags)

    def rollback_branch(self, resource: XAResource, xid: Xid) -> None:
        """Roll back a branch; sends that could not be written yet are dropped."""
        self.runner.call(self._without_sends, resource.rollback, xid)

    def settle(self) -> None:
        """Wait until all sends are written, at most ``call_timeout`` and not while the connection is away: to be called before closing.

        Sends that are left then fail.
        """
        self.runner.call(self.settled)

    def raise_error(self) -> None:
        """Raise the error with which a posted send has failed since the last call that raised one."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    # --- in the reactor's thread

    def posted(self, send: Deferred[None], message: ClientMessage, handler: SendAcknowledgementHandler | None) -> None:
        """A posted send has begun."""
        if send.called and not isinstance(send.result, Failure):
            return

        def ended(result: Any) -> None:
            self._pending.discard(send)
            if isinstance(result, Failure):
                self._failed(result.value, message, handler)

        self._pending.add(send)
        send.addBoth(ended)

    async def settled(self) -> None:
        """Return when posted sends are written, as far as the connection lets them within ``call_timeout``."""
        runtime = self.session.runtime
        if self._pending and not self.session.channel.locked:
            try:
                await wait_at_most(runtime, self._all_pending(), self.session.settings.call_timeout / 1000, TimeoutError())
            except TimeoutError:
                pass
        if self._pending:
            runtime.log_warning(f"{len(self._pending)} messages cannot be sent before their session is closed")
            self.session.work.drop(closed_error("session"))

    async def _after_sends(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        if self._pending:
            await self._all_pending()
        self.raise_error()
        await function(*args)

    async def _end_branch(self, resource: XAResource, xid: Xid, flags: int) -> None:
        if self._pending:
            await self._all_pending()
        error, self.error = self.error, None
        if error is None:
            await resource.end(xid, flags)
        else:
            await resource.end_failed(xid, error)

    async def _without_sends(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        for send in list(self._pending):
            send.cancel()
        self.error = None
        await function(*args)

    def _all_pending(self) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        left = set(self._pending)

        def ended(result: Any, send: Deferred[None]) -> Any:
            left.discard(send)
            if not left and not done.called:
                done.callback(None)
            return result

        for send in tuple(left):
            send.addBoth(ended, send)
        return done

    def _failed(self, error: BaseException | None, message: ClientMessage, handler: SendAcknowledgementHandler | None) -> None:
        if isinstance(error, CancelledError):
            if handler is not None:
                handler.send_failed(message, TransactionRolledBackError("the transaction was rolled back before the message was sent"))
            return
        if not isinstance(error, Exception):
            return
        if handler is not None:
            handler.send_failed(message, error if isinstance(error, MQError) else _not_sent(error))
        elif self.error is None:
            self.error = error
        else:
            self.session.runtime.log_warning(f"a message to {message.address} was not sent: {error}")


class _Gate:
    """The bytes that may be posted to one address.  Each thread writes its own fields: at worst too little or too much is posted."""

    __slots__ = ("allowed", "posted", "sent")

    def __init__(self) -> None:
        self.posted = 0
        """Bytes that the application's thread has handed over."""
        self.sent = 0
        """Bytes of these that the reactor's thread has dealt with."""
        self.allowed = 0
        """The limit of :attr:`posted`."""


class Producer:
    def __init__(self, sender: Sender, producer: CoreProducer) -> None:
        self._sender = sender
        self._runner = sender.runner
        self._producer = producer
        self._gates: dict[str | None, _Gate] = {}

    @property
    def address(self) -> str | None:
        return self._producer.address

    @property
    def closed(self) -> bool:
        return self._producer.closed

    def send(
        self, message: ClientMessage, address: str | None = None, *, acknowledgement_handler: SendAcknowledgementHandler | None = None
    ) -> None:
        """As :meth:`mqclient.core.api.ClientProducer.send`, and waits for its result.

        A send that needs no answer of the broker may return before it is written, as long as the credits of the address last; its failure
        is raised by the next send or commit of the session, or told to ``acknowledgement_handler``.
        """
        if self._sender.error is not None:
            self._sender.raise_error()
        check_message(message)
        gate = self._gate(address)
        size = len(message.body) + _HEADERS
        gate.posted += size
        if gate.posted <= gate.allowed and self._needs_no_wait(message, acknowledgement_handler):
            self._runner.post(self._post, gate, size, message, address, acknowledgement_handler)
            return
        source = message.body_source
        if source is not None and hasattr(source, "read"):
            message.body_source = _Reader(self._runner, source)  # type: ignore[assignment]
        try:
            self._runner.call(self._send, gate, size, message, address, acknowledgement_handler)
        finally:
            message.body_source = source

    def close(self) -> None:
        self._runner.call(self._producer.close)

    def _gate(self, address: str | None) -> _Gate:
        gate = self._gates.get(address)
        if gate is None:
            if len(self._gates) >= _GATES_MAX:
                self._gates.clear()
            gate = self._gates[address] = _Gate()
        return gate

    def _needs_no_wait(self, message: ClientMessage, handler: SendAcknowledgementHandler | None) -> bool:
        producer = self._producer
        if producer.closed or producer.paced or self._sender.session.closed:
            return False
        return not (producer.is_large(message) or producer.waits_for_answer(message, handler))

    # --- in the reactor's thread

    def _post(
        self, gate: _Gate, size: int, message: ClientMessage, address: str | None, handler: SendAcknowledgementHandler | None
    ) -> None:
        try:
            send: Any = self._producer.send(message, address, acknowledgement_handler=handler)
        except Exception as error:  # every error belongs to the sender
            self._sender.posted(_failed(error), message, handler)
        else:
            self._sender.posted(send, message, handler)
        self._measure(gate, size, address)

    async def _send(
        self, gate: _Gate, size: int, message: ClientMessage, address: str | None, handler: SendAcknowledgementHandler | None
    ) -> None:
        try:
            await self._producer.send(message, address, acknowledgement_handler=handler)
        finally:
            self._measure(gate, size, address)

    def _measure(self, gate: _Gate, size: int, address: str | None) -> None:
        gate.sent += size
        target = self._producer.address or address
        spare = self._producer.spare(target) if target is not None else 0
        gate.allowed = gate.sent + min(spare, _POSTED_MAX)


class _Reader:
    """Reads a file in another thread than the reactor's."""

    def __init__(self, runner: ReactorThread, file: Any) -> None:
        self._reactor = runner.reactor
        self._file = file

    def read(self, size: int) -> Deferred[bytes]:
        found: Deferred[bytes] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._file.read, size)
        return found

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, place: int) -> None:
        self._file.seek(place)


def _not_sent(cause: Exception) -> MQError:
    error = MQError(f"the message was not sent: {cause}")
    error.__cause__ = cause
    return error


def _failed(error: Exception) -> Deferred[None]:
    failed: Deferred[None] = Deferred()
    failed.errback(error)
    return failed
