"""A session: holds the parts (transaction, branches, flow, uploads, queues) and dispatches arriving packets to them.

The class is the facade of :class:`mqclient.core.api.ClientSession`; each concern is an object of its own module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from mqclient.core.api import (
    AddressQueryResult,
    ClientSessionFactory,
    LocatorSettings,
    MessageBuffer,
    QueueConfiguration,
    QueueQueryResult,
    SendAcknowledgementHandler,
)
from mqclient.core.batches import BatchDone
from mqclient.core.closing import Closing
from mqclient.core.connection.channel import Channel, closed_error
from mqclient.core.connection.connection import Connection
from mqclient.core.connection.listeners import ListenerMethods
from mqclient.core.consuming.acks import TurnEnd
from mqclient.core.consuming.buffers import PriorityBuffer
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.consuming.encoded import EncodedConsumer, Recipient
from mqclient.core.message import ClientMessage
from mqclient.core.once.caches import IdCaches
from mqclient.core.once.ids import OwnIds
from mqclient.core.once.outcomes import Outcomes
from mqclient.core.once.questions import Questions
from mqclient.core.once.sends import OneNode, RepeatedSends
from mqclient.core.readers import Readers
from mqclient.core.runtime import Runtime, starts
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.encoded_sends import Done, EncodedSends, ReadBody
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.sending.producers import Producer
from mqclient.core.sending.uploads import LargeUploads
from mqclient.core.sending.work import Work
from mqclient.core.session.branches import Branches
from mqclient.core.session.commits import Commits
from mqclient.core.session.incoming import Incoming
from mqclient.core.session.queues import QueueAdministration
from mqclient.core.session.restoring import Restoration
from mqclient.core.session.transactions import Transaction, run_transaction
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
    SessionClose,
    SessionStart,
    SessionStop,
    UniqueAddMetadata,
)

T = TypeVar("T")
_DEFAULT_CONSUMER_WINDOW = 1024 * 1024
"""A consumer window of this size means: take the broker's default if it has one."""


class SessionOwner(ClientSessionFactory, Protocol):
    """The session factory, as its sessions see it."""

    runtime: Runtime
    connection: Connection | None

    def session_closed(self, session: Session) -> None:
        """A session has ended."""

    async def open_plain(self, like: CreateSession, transacted: bool) -> Session:
        """A session without ``exactly_once`` for the same user, for a question to the broker."""

    @property
    def node(self) -> OneNode:
        """The node that the connection belongs to."""

    async def id_cache(self, session: Session, address: str) -> IdCacheState:
        """The duplicate ids that the broker keeps of an address."""


class Session(ListenerMethods, Closing):
    """Implements :class:`mqclient.core.api.ClientSession`; the factory opens, locks, restores and abandons it."""

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
        self.encoded_sends: EncodedSends | None = None
        self.once: RepeatedSends | None = None
        self.commits: Commits | None = None
        if exactly_once:
            self._send_exactly_once()
        self.restoration = Restoration(self)
        self._queues = QueueAdministration(self.channel)
        self._incoming = Incoming(self)
        self._consumers: dict[int, Consumer] = {}
        self.encoded_consumers: dict[int, EncodedConsumer] = {}
        self._producers: dict[int, Producer] = {}
        self.metadata: dict[str, str] = {}
        self._next_consumer = 0
        self._next_producer = 1
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
        return self.open_transaction.rollback_only

    @property
    def holding(self) -> bool:
        """Is there work with ``exactly_once`` whose outcome only the node knows that got it?"""
        return self.once is not None and self.commits is not None and (self.once.holding or self.commits.holding)

    @property
    def version(self) -> int:
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
        await self.channel.ready()
        if not self.started:
            self.started = True
            self.channel.send(SessionStart())
            self.resume_consumers()

    @starts
    async def stop(self) -> None:
        await self.channel.ready()
        if self.started:
            self.started = False
            self.pause_consumers()
            await self.wait_for_handlers()
            await self.channel.call(SessionStop(), NullResponse)

    @starts
    async def commit(self, block: bool = True) -> None:
        self._refuse_in_branch()
        if self.commits is not None and not self.request.auto_commit_sends:
            await self.commits.commit()
        else:
            await self.open_transaction.commit(block)

    @starts
    async def rollback(self, consider_last_message_as_delivered: bool = False) -> None:
        self._refuse_in_branch()
        if self.commits is not None and not self.request.auto_commit_sends:
            await self.commits.rollback(consider_last_message_as_delivered)
        else:
            await self.open_transaction.rollback(consider_last_message_as_delivered)

    @starts
    async def transaction(self, function: Callable[[Session], Awaitable[T]]) -> T:
        if self.request.auto_commit_sends or self.request.xa:
            raise IllegalStateError("the session was not created with auto_commit_sends=False: it has no transactions of its own")
        return await run_transaction(self, function)

    @starts
    async def flush_acknowledgements(self) -> None:
        for answer in self.flush_batches():
            await answer

    @property
    def xa_resource(self) -> Branches:
        if not self.request.xa:
            raise IllegalStateError("the session was not created with xa=True: it has local transactions only")
        return self.branches

    def _refuse_in_branch(self) -> None:
        if self.branches.current is not None:
            raise IllegalStateError("the session works on a branch of a distributed transaction; use its xa_resource")

    # --- messages, producers, consumers ---

    def create_message(self, type: int = 0, *, durable: bool = True, priority: int = 4) -> ClientMessage:
        now = self.runtime.wall_clock_ms()
        return ClientMessage(type=type, durable=durable, priority=priority, timestamp=now, strict=True)

    def create_text_message(self, text: str | None, *, durable: bool = True, priority: int = 4) -> ClientMessage:
        message = self.create_message(TYPE_TEXT, durable=durable, priority=priority)
        message.text = text
        return message

    @starts
    async def create_producer(self, address: str | None = None, *, max_rate: int | None = None, require_queue: bool = False) -> Producer:
        if require_queue:
            await self._queues.require_queue(address)
        await self.channel.ready()
        producer = Producer(self, self._next_producer, address, self.settings.producer_max_rate if max_rate is None else max_rate)
        self._next_producer += 1
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
        await self.channel.ready()
        request = CreateConsumer(self._next_consumer, queue_name, filter_string, browse_only, True, priority)
        self._next_consumer += 1
        try:
            info: QueueQueryResult = await self.channel.call(replace(request), *QUEUE_QUERY_ANSWERS)
        except MQError:
            raise
        except BaseException:  # cancelled, but the broker may have made the consumer
            self.runtime.spawn(self._undo_consumer(request.consumer_id))
            raise
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

    # --- encoded messages: see mqclient.core.sending.encoded_sends and mqclient.core.consuming.encoded ---

    @starts
    async def create_encoded_consumer(
        self, queue_name: str, filter_string: str | None, arrivals: Recipient, *, priority: int = 0
    ) -> EncodedConsumer:
        """A consumer that has no credits yet; ``arrivals`` gets what comes.  Only for sessions that end with their connection."""
        await self.channel.ready()
        consumer_id = self._next_consumer
        self._next_consumer += 1
        consumer = self.encoded_consumers[consumer_id] = EncodedConsumer(self.channel, consumer_id, arrivals)
        try:
            await self.channel.call(CreateConsumer(consumer_id, queue_name, filter_string, False, True, priority), *QUEUE_QUERY_ANSWERS)
        except BaseException:
            self.encoded_consumers.pop(consumer_id, None)
            raise
        return consumer

    def open_encoded_sends(self) -> EncodedSends:
        """Prepare the session for encoded messages: it becomes the session of an anonymous producer.

        Raises ``IllegalStateError`` for a session that may outlive its connection.
        """
        if self.encoded_sends is None:
            if self.settings.reconnect_attempts or self.settings.failover_attempts:
                raise IllegalStateError("encoded messages need a session that ends with its connection: set reconnect_attempts to 0")
            self.encoded_sends = EncodedSends(self.channel, self.settings, self._next_producer, self.connection_failed)
            self._next_producer += 1
        return self.encoded_sends

    def send_encoded(self, parts: Sequence[bytes], size: int, done: Done, *, address: str | None = None) -> bool:
        """Send an encoded message of ``size`` bytes, given in parts, in the layout of version 129 and later.  Never waits.

        ``done`` is called once: with None when the broker has the message, else with the error of the broker or of the connection.  With
        ``address`` the message costs credits of that address.  False: the message was taken, but the next one has to wait until
        ``open_encoded_sends().on_room`` is called.  Only for sessions that end with their connection (``reconnect_attempts`` 0).
        """
        sends = self.encoded_sends or self.open_encoded_sends()
        return sends.send(parts, size, done, address)

    def send_batch(self, address: str | None, messages: Sequence[bytes], done: BatchDone | None) -> bool:
        """As :meth:`send_encoded`, for many messages that name the same address, without an object or a call for each.

        ``done`` is called once with the batch, when every message was answered or the connection is over.  None asks for no answers: in
        a transaction, whose commit fails when one of its messages was refused.  Keep batches smaller than ``producer_window_size``.
        """
        sends = self.encoded_sends or self.open_encoded_sends()
        return sends.send_batch(address, messages, done)

    def send_large_encoded(
        self, headers: bytes, read: ReadBody, size: int, done: Done, *, address: str | None = None, was_large: bool = False
    ) -> bool:
        """As :meth:`send_encoded`, for a message with its headers-and-properties block and a body of ``size`` bytes to read from.

        The body is read and sent piece by piece, as the broker takes it.  Raises ``IllegalStateError`` when another message is sent
        meanwhile.  ``was_large``: the message arrived as a large one, and its properties have the size of the body before compression.
        """
        sends = self.encoded_sends or self.open_encoded_sends()
        return sends.send_large(headers, read, size, done, address, was_large)

    # --- addresses, queues, metadata ---

    def address_query(self, address: str) -> Awaitable[AddressQueryResult]:
        return self.runtime.spawn(self._queues.query_address(address))

    def queue_query(self, queue_name: str) -> Awaitable[QueueQueryResult]:
        return self.runtime.spawn(self._queues.query_queue(queue_name))

    def create_address(self, address: str, routing_types: Iterable[int], auto_created: bool = False) -> Awaitable[None]:
        return self.runtime.spawn(self._queues.create_address(address, routing_types, auto_created))

    def create_queue(self, configuration: QueueConfiguration, *, if_missing: bool = False) -> Awaitable[None]:
        create = self._queues.create_missing_queue if if_missing else self._queues.create_queue
        return self.runtime.spawn(create(configuration))

    def create_shared_queue(self, configuration: QueueConfiguration) -> Awaitable[None]:
        return self.runtime.spawn(self._queues.create_shared_queue(configuration))

    def delete_queue(self, queue_name: str) -> Awaitable[None]:
        return self.runtime.spawn(self._queues.delete_queue(queue_name))

    @starts
    async def add_metadata(self, key: str, data: str) -> None:
        await self.channel.ready()
        await self.channel.call(AddMetadataV2(key, data, True), NullResponse)
        self.metadata[key] = data

    @starts
    async def add_unique_metadata(self, key: str, data: str) -> None:
        await self.channel.ready()
        await self.channel.call(UniqueAddMetadata(key, data, True), NullResponse)
        self.metadata[key] = data

    # --- closing ---

    def set_send_acknowledgement_handler(self, handler: SendAcknowledgementHandler | None) -> None:
        self.send_acknowledgement_handler = handler

    @starts
    async def close(self) -> None:
        if self.closed:
            return
        self.closing = True
        try:
            if not self.channel.locked:
                for consumer in self.consumers:
                    await consumer.close()
                await self.work.finish()
                for producer in self.producers:
                    producer.end()
            if not self.channel.locked:
                await self.channel.call(SessionClose(), NullResponse)
        except MQError as error:
            # The broker ends the session with the connection; the application can do nothing about it.
            self.runtime.log_warning(f"closing a session: {error}")
        finally:
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
        """A call was not answered: the connection counts as failed."""
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
