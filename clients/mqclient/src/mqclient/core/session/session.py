"""A session: holds the parts (transaction, branches, flow, uploads) and dispatches arriving packets to them.

The class is what applications see; each concern is an object of its own module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mqclient.core.closing import Closing
from mqclient.core.connection.channel import Call, Channel, closed_error
from mqclient.core.connection.connection import Connection
from mqclient.core.connection.listeners import ListenerMethods
from mqclient.core.consuming.acks import TurnEnd
from mqclient.core.consuming.buffers import MessageBuffer, PriorityBuffer
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.listeners import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.core.once.caches import IdCaches
from mqclient.core.once.ids import OwnIds
from mqclient.core.once.outcomes import Outcomes
from mqclient.core.once.questions import Questions
from mqclient.core.once.sends import RepeatedSends
from mqclient.core.readers import Readers
from mqclient.core.runtime import Runtime, starts
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.sending.producers import Producer
from mqclient.core.sending.uploads import LargeUploads
from mqclient.core.sending.work import Work
from mqclient.core.session.branches import Branches
from mqclient.core.session.commits import Commits
from mqclient.core.session.encoded import EncodedMethods
from mqclient.core.session.incoming import Incoming
from mqclient.core.session.owner import ClientSessionFactory, SessionOwner
from mqclient.core.session.queues import QueueMethods
from mqclient.core.session.restoring import Restoration
from mqclient.core.session.transactions import Transaction, run_transaction
from mqclient.core.settings import LocatorSettings
from mqclient.errors import IllegalStateError, MQError, ObjectClosedError
from mqclient.protocol.channel import SessionChannel
from mqclient.wire.message import TYPE_TEXT
from mqclient.wire.packets import (
    QUEUE_QUERY_ANSWERS,
    AddMetadataV2,
    ConsumerClose,
    CreateConsumer,
    CreateSession,
    IdCacheState,
    NullResponse,
    QueueQueryResult,
    SessionClose,
    SessionStart,
    SessionStop,
    UniqueAddMetadata,
)

T = TypeVar("T")
_DEFAULT_CONSUMER_WINDOW = 1024 * 1024
"""A consumer window of this size means: take the broker's default if it has one."""


class Session(EncodedMethods, ListenerMethods, QueueMethods, Closing):
    """A single context of work on a connection: its packets are processed by the broker in their order.

    With ``auto_commit_sends``/``auto_commit_acks`` off, sends/acknowledgements take effect with :meth:`commit`.  After a failover
    that could not reattach, a transaction with work in it is rollback-only: :meth:`commit` raises ``TransactionRolledBackError``
    (already rolled back, work can start anew); a commit that was waiting raises ``TransactionOutcomeUnknownError``.

    The factory opens, locks, restores and abandons it.
    """

    def __init__(self, factory: SessionOwner, request: CreateSession, ack_batch_size: int, exactly_once: bool = False) -> None:
        super().__init__()
        self.runtime: Runtime = factory.runtime
        self.settings: LocatorSettings = factory.settings
        self.send_acknowledgement_handler: SendAcknowledgementHandler | None = None
        self._factory = factory
        self.request = request
        self._ack_batch_size = ack_batch_size
        self.channel = Channel(
            self.runtime,
            SessionChannel(0, request.window_size, 0),
            self.settings.call_timeout,
            self.settings.call_failover_timeout,
            self.connection_failed,
        )
        self.failure: MQError | None = None
        """Why the session has ended; None while it lives, and when the application itself has closed it."""
        self.turn_end = TurnEnd(self)
        self.open_transaction = Transaction(self)
        self.flow = ProducerFlow(self.channel, self.settings.producer_window_size)
        self.async_sends = AsyncSends(self.channel, self.settings.exactly_once_window_size if exactly_once else None)
        self.work = Work(self.runtime, self.flow, self.open_transaction, request.xa, self.settings)
        self.uploads = LargeUploads(
            self.channel, self.settings, self.flow, self.async_sends, self.open_transaction, request.auto_commit_sends
        )
        self.branches = Branches(self)
        self.readers = Readers(self)
        self.once: RepeatedSends | None = None
        self.commits: Commits | None = None
        if exactly_once:
            self._send_exactly_once()
        self.restoration = Restoration(self)
        self._incoming = Incoming(self)
        self._consumers: dict[int, Consumer] = {}
        self._producers: dict[int, Producer] = {}
        self.metadata: dict[str, str] = {}
        self.started = False
        self.closing = False
        """Has the application begun to close it?"""

    def _send_exactly_once(self) -> None:
        factory, request = self._factory, self.request
        ids = OwnIds(self.runtime)

        async def open_session(transacted: bool) -> Session:
            return await factory.open_plain(request, transacted)

        async def ask(address: str) -> IdCacheState:
            return await questions.ask(lambda session: factory.id_cache(session, address))

        questions = Questions(self.channel, open_session, self.settings.call_timeout / 1000)
        caches = IdCaches(self.runtime, self.settings.exactly_once_id_cache_size, ask)
        self.commits = Commits(self, caches, ids, Outcomes(questions, caches, ids))
        self.once = RepeatedSends(self, factory.node, caches, ids, self.commits)

    # --- state ---

    @property
    def name(self) -> str:
        """Session name on the broker (a UUID); changes when the session is created anew after a failure."""
        return self.request.name

    @property
    def channel_id(self) -> int:
        return self.channel.protocol.id

    @property
    def closed(self) -> bool:
        return self.closing or self.channel.error is not None

    @property
    def auto_commit_sends(self) -> bool:
        return self.request.auto_commit_sends

    @property
    def auto_commit_acks(self) -> bool:
        return self.request.auto_commit_acks

    @property
    def pre_acknowledge(self) -> bool:
        return self.request.pre_acknowledge

    @property
    def rollback_only(self) -> bool:
        """The open transaction was hit by a connection failure and cannot be committed."""
        return self.open_transaction.rollback_only

    @property
    def holding(self) -> bool:
        """Is there work with ``exactly_once`` whose outcome only the node knows that got it?"""
        return self.once is not None and self.commits is not None and (self.once.holding or self.commits.holding)

    @property
    def version(self) -> int:
        """Protocol version in use."""
        return self.channel.protocol.version

    @property
    def factory(self) -> ClientSessionFactory:
        return self._factory

    @property
    def consumers(self) -> Sequence[Consumer]:
        return tuple(self._consumers.values())

    def consumer(self, consumer_id: int) -> Consumer | None:
        """The consumer with that id, None when there is none (any more)."""
        return self._consumers.get(consumer_id)

    @property
    def producers(self) -> Sequence[Producer]:
        return tuple(self._producers.values())

    # --- delivery and transactions ---

    @starts
    async def start(self) -> None:
        """Let messages be delivered to the consumers.  Does nothing on a started session."""
        await self.channel.ready()
        if not self.started:
            self.started = True
            self.channel.send(SessionStart())
            self.resume_consumers()

    @starts
    async def stop(self) -> None:
        """Pause delivery; waits for the broker, and for running message handlers at most ``on_message_close_timeout``."""
        await self.channel.ready()
        if self.started:
            self.started = False
            self.pause_consumers()
            await self.wait_for_handlers()
            if not self.started:  # else it was started again meanwhile
                await self.channel.call(SessionStop(), NullResponse)

    @starts
    async def commit(self, block: bool = True) -> None:
        """Commit the sends and acknowledgements that were begun before; sends that still wait, for credits or their bodies, are awaited.

        When such a send fails, the transaction is rolled back and ``TransactionRolledBackError`` raised, with the send's error as its
        cause: nothing is committed in part.  A send that failed before this call has raised its error already, and the rest is committed.
        Work begun after this call belongs to the next transaction, although this one still waits.  With ``block`` false the broker's answer
        is not awaited (JMS acknowledge).  When the broker refuses to commit received work, its messages come again before those behind
        them: what was received and not acknowledged goes back as after :meth:`rollback`, unless the next transaction has begun meanwhile.

        With ``exactly_once`` it returns when the work has taken effect, or raises ``TransactionRolledBackError`` when it has not and never
        will.  It waits for the connection as long as that takes.  A transaction that only sends is repeated by itself.  Raises
        ``NodeLostError`` when the node that knows the outcome is given up.
        """
        self._refuse_in_branch()
        if self.commits is not None and not self.request.auto_commit_sends:
            await self.commits.commit()
        else:
            await self.open_transaction.commit(block)

    @starts
    async def rollback(self, consider_last_message_as_delivered: bool = False) -> None:
        """Undo sends and acknowledgements since the last commit; delivered messages come again.

        Sends that are not written yet are dropped: they raise ``TransactionRolledBackError``.
        With ``consider_last_message_as_delivered`` the oldest message of each consumer keeps its delivery count (JMS recover).
        """
        self._refuse_in_branch()
        if self.commits is not None and not self.request.auto_commit_sends:
            await self.commits.rollback(consider_last_message_as_delivered)
        else:
            await self.open_transaction.rollback(consider_last_message_as_delivered)

    @starts
    async def transaction(self, function: Callable[[Session], Awaitable[T]]) -> T:
        """Call ``function`` with this session, commit, and give its result; call it again when a failure has undone the transaction.

        For work that receives and sends: the received messages come again.  ``function`` should have no effects but those of the session.
        When it raises, the transaction is rolled back and the error raised.  A send that fails for another reason than the connection is
        not repeated.  Without ``exactly_once`` a lost answer to the commit still raises ``TransactionOutcomeUnknownError``.
        Raises ``IllegalStateError`` for a session with ``auto_commit_sends``.
        """
        if self.request.auto_commit_sends or self.request.xa:
            raise IllegalStateError("the session was not created with auto_commit_sends=False: it has no transactions of its own")
        return await run_transaction(self, function)

    @starts
    async def flush_acknowledgements(self) -> None:
        """Send the acknowledgements of this turn of the loop, or of the open transaction, now."""
        for answer in self.flush_batches():
            await answer

    @property
    def xa_resource(self) -> Branches:
        """The session as a resource of distributed transactions; raises ``IllegalStateError`` unless it was created with ``xa=True``.

        While the session works on a branch, :meth:`commit` and :meth:`rollback` raise ``IllegalStateError``.
        """
        if not self.request.xa:
            raise IllegalStateError("the session was not created with xa=True: it has local transactions only")
        return self.branches

    def _refuse_in_branch(self) -> None:
        if self.branches.current is not None:
            raise IllegalStateError("the session works on a branch of a distributed transaction; use its xa_resource")

    # --- messages, producers, consumers ---

    def create_message(self, type: int = 0, *, durable: bool = True, priority: int = 4) -> ClientMessage:
        """A new message with a timestamp; ``type`` is one of ``mqclient.wire.message.TYPE_*``.

        Its ``body`` is bytes: ``encode_text``, ``encode_map`` and ``encode_stream`` of :mod:`mqclient.wire.bodies` make those that JMS
        receivers read.
        """
        now = self.runtime.wall_clock_ms()
        return ClientMessage(type=type, durable=durable, priority=priority, timestamp=now, strict=True)

    def create_text_message(self, text: str | None, *, durable: bool = True, priority: int = 4) -> ClientMessage:
        """A new text message with a timestamp; the receiver reads its ``text``."""
        message = self.create_message(TYPE_TEXT, durable=durable, priority=priority)
        message.text = text
        return message

    @starts
    async def create_producer(self, address: str | None = None, *, max_rate: int | None = None, require_queue: bool = False) -> Producer:
        """A producer for ``address``, or an anonymous one.  ``max_rate`` in messages per second, -1 none, None the locator's setting.

        A broker drops messages to an address that does not exist or has no queue, and answers as if they had been stored: sending creates
        nothing.  With ``require_queue`` the broker is asked now, once, whether the address has a queue, or for ``address::queue`` that
        queue; raises ``AddressDoesNotExistError`` or ``QueueDoesNotExistError``.  Queues that are deleted later, filters of queues, and an
        address whose only way on is a divert are not taken into account.  Raises ``ValueError`` for ``require_queue`` without an address.
        """
        if not isinstance(address, str | None):
            raise TypeError(f"the address of a producer is a str or None, not {type(address).__name__}")
        if require_queue:
            await self._require_queue(address)
        await self.channel.ready()
        rate = self.settings.producer_max_rate if max_rate is None else max_rate
        producer = Producer(self, next(self._producer_ids), address, rate)
        self._producers[producer.id] = producer
        return producer

    @starts
    async def create_consumer(
        self,
        queue_name: str,
        filter_string: str | None = None,
        *,
        priority: int = 0,
        browse_only: bool = False,
        window_size: int | None = None,
        max_rate: int | None = None,
        buffer: MessageBuffer | None = None,
    ) -> Consumer:
        """A consumer on an existing queue (``address::queue`` is allowed).  ``buffer`` is for shells.

        Raises ``QueueDoesNotExistError``, ``InvalidFilterExpressionError``, ``SecurityError``, ``MaxConsumerLimitExceededError``.
        """
        await self.channel.ready()
        request = CreateConsumer(next(self._consumer_ids), queue_name, filter_string, browse_only, True, priority)
        try:
            info: QueueQueryResult = await self.channel.call(replace(request), *QUEUE_QUERY_ANSWERS)
        except MQError:
            raise
        except BaseException:  # cancelled, but the broker may have made the consumer
            self.runtime.spawn(self._undo_consumer(request.consumer_id))
            raise
        if self.channel.error is not None:  # the session has ended before this call could go on with its answer
            raise self.channel.error
        window = self.settings.consumer_window_size if window_size is None else window_size
        if window == _DEFAULT_CONSUMER_WINDOW and info.default_consumer_window_size is not None:
            window = info.default_consumer_window_size
        consumer = Consumer(
            self,
            request,
            window,
            self.settings.consumer_max_rate if max_rate is None else max_rate,
            buffer if buffer is not None else PriorityBuffer(),
            self._ack_batch_size,
        )
        self._consumers[consumer.id] = consumer
        consumer.opened(info)
        return consumer

    # --- metadata ---

    @starts
    async def add_metadata(self, key: str, data: str) -> None:
        await self._ask(AddMetadataV2(key, data, True), NullResponse)
        self.metadata[key] = data

    @starts
    async def add_unique_metadata(self, key: str, data: str) -> None:
        """Raises ``DuplicateMetadataError`` when another live session of the broker holds the same pair."""
        await self._ask(UniqueAddMetadata(key, data, True), NullResponse)
        self.metadata[key] = data

    # --- closing ---

    def set_send_acknowledgement_handler(self, handler: SendAcknowledgementHandler | None) -> None:
        """With a handler no send of this session blocks; the handler is told the outcome."""
        self.send_acknowledgement_handler = handler

    @starts
    async def close(self) -> None:
        """Close consumers, producers and the session; an open transaction is rolled back.  Never raises for reasons of the network.

        Acknowledgements and sends that were begun before are sent first, within ``call_timeout`` and not while the connection is away.  A
        send that is left then (its address is full), or that belongs to the transaction, raises ``ObjectClosedError``.
        """
        if self.closed:
            return
        self.closing = True
        farewell: Call | None = None
        try:
            if not self.channel.locked:
                for consumer in self.consumers:
                    await consumer.close()
                await self.work.finish()
                for producer in self.producers:
                    producer.end()
            if not self.channel.locked:
                farewell = self.channel.submit(SessionClose(), NullResponse)
                await farewell.future
        except MQError as error:
            # The broker ends the session with the connection; the application can do nothing about it.
            self.runtime.log_warning(f"closing a session: {error}")
        finally:
            if farewell is None or not farewell.sent:
                # Cancelled, or the session is on a connection that is not usable yet; where there is no connection nothing is written.
                self.channel.write_raw(self.channel.protocol.frame(SessionClose()))
            self._finish(closed_error("session"), None)

    def abandon(self, error: MQError) -> None:
        """The connection is gone for good, or the broker does not let the session live on."""
        ended = ObjectClosedError(f"the session is closed: {error}")
        ended.__cause__ = error
        if not self.closing:
            self.failure = ended
        self._finish(ended, error)

    def closed_with_connection(self, error: MQError) -> None:
        """The application has closed the connection."""
        self.closing = True
        self.abandon(error)

    def _finish(self, error: MQError, cause: MQError | None) -> None:
        # First, because callers that go on below have to see that the session has ended.
        self.channel.close(error, cause)
        for consumer in self.consumers:
            consumer.abandon(error)
        for producer in self.producers:
            producer.abandon(cause or error)
        self._consumers.clear()
        self._producers.clear()
        self.flow.close(cause or error)
        self.async_sends.fail(cause or error)
        if self.once is not None:
            self.once.ended(cause or error)
        if self.encoded_sends is not None:
            self.encoded_sends.fail(cause or error)
        self._factory.session_closed(self)

    def consumer_closed(self, consumer: Consumer) -> None:
        self._consumers.pop(consumer.id, None)

    def producer_closed(self, producer: Producer) -> None:
        self._producers.pop(producer.id, None)

    # --- for the parts ---

    def flush_batches(self) -> list[Any]:
        """Send acknowledgements that wait for their batch; the futures of their answers, where answers are asked for."""
        return [answer for consumer in self.consumers for answer in consumer.acknowledgements.flush()]

    def forget_answer(self, future: Any) -> None:
        """Log the error of ``future``, which is not awaited."""
        self.runtime.spawn(self._answer_forgotten(future))

    def pause_consumers(self) -> None:
        for consumer in self.consumers:
            consumer.pause()

    def resume_consumers(self) -> None:
        for consumer in self.consumers:
            consumer.resume()

    async def wait_for_handlers(self) -> None:
        for consumer in self.consumers:
            await consumer.wait_for_handler()

    def connection_failed(self, error: MQError) -> None:
        if self._factory.connection is not None:
            self._factory.connection.fail(error)

    # --- from the factory and its connection ---

    def opened(self, connection: Connection, version: int) -> None:
        """The broker has created the session."""
        self.channel.protocol.id = self.request.session_channel_id
        self.channel.protocol.version = version
        self.channel.attach(connection.write_frame, connection.paused)
        self.channel.unlock()

    def frame_received(self, packet_type: int, frame: bytes) -> None:
        self._incoming.frame_received(packet_type, frame)

    def flush_confirmations(self) -> None:
        self._incoming.flush_confirmations()

    def link_paused(self) -> None:
        self.channel.pause()

    def link_resumed(self) -> None:
        self.channel.resume()
        if self.encoded_sends is not None:
            self.encoded_sends.resumed()

    # --- inside ---

    async def _answer_forgotten(self, future: Any) -> None:
        try:
            await future
        except MQError as error:
            self.runtime.log_warning(f"a request of a session that is being closed or rolled back: {error}")

    async def _undo_consumer(self, consumer_id: int) -> None:
        try:
            await self.channel.call(ConsumerClose(consumer_id), NullResponse)
        except MQError as error:
            self.runtime.log_warning(f"closing a consumer in the background failed: {error}")
