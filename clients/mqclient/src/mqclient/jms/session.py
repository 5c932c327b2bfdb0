"""Sessions: where producers and consumers are made, and where transactions and acknowledgements end."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

from mqclient.core.api import BlockingConsumer, ClientSession, SessionDispatcher
from mqclient.errors import MQError
from mqclient.jms import selectors
from mqclient.jms.consumer import MessageConsumer, QueueBrowser
from mqclient.jms.destinations import (
    PREFIX_1X,
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    as_destination,
    check_plain_name,
)
from mqclient.jms.exceptions import JMS_ERRORS, IllegalStateException, InvalidDestinationException, JMSException
from mqclient.jms.lookup import Lookup
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import DeliveryMode, Message
from mqclient.jms.messages.simple_messages import ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.jms.modes import AcknowledgeMode, SessionFlags
from mqclient.jms.producer import DEFAULT_PRIORITY, CompletionListener, MessageProducer
from mqclient.jms.subscriptions import subscription_queue
from mqclient.jms.temporary import Temporaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mqclient.jms.connection import Connection

D = TypeVar("D", bound=Destination)


class Session:
    """A single context of work: its messages are sent and received in order.  Use it from one thread at a time.

    Made by :meth:`Connection.create_session`.
    """

    def __init__(self, connection: Connection, core: ClientSession, mode: AcknowledgeMode, flags: SessionFlags) -> None:
        self._connection = connection
        self._core = core
        self._mode = mode
        self._pre_acknowledges = flags.pre_acknowledge
        self._acknowledges = not flags.pre_acknowledge and mode != AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE
        self._call = connection._call
        self._clock = connection._clock
        self._lookup = Lookup(connection._call, core)
        self._sender = connection._runner.sender(core)
        self._temporaries = Temporaries(self._lookup, connection._temporary, self._clock.new_uuid, connection._settings.enable_1x_prefixes)
        self._producers: set[MessageProducer] = set()
        self._consumers: set[MessageConsumer] = set()
        self._pending: set[Future[Any]] = set()
        self._dispatcher: SessionDispatcher | None = None
        self._closed = False

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._mode

    @property
    def transacted(self) -> bool:
        return self._mode == AcknowledgeMode.SESSION_TRANSACTED

    @property
    def closed(self) -> bool:
        return self._closed or self._core.closed

    # --- messages ----------------------------------------------------------------------------------------------------

    def create_message(self) -> Message:
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"", *, stream: BinaryIO | None = None) -> BytesMessage:
        """``stream``: a file whose content is the body, sent in chunks as a large message."""
        return BytesMessage(data, stream=stream)

    def create_map_message(self, entries: Mapping[str, object] | None = None) -> MapMessage:
        return MapMessage(entries)

    def create_stream_message(self, items: Iterable[object] = ()) -> StreamMessage:
        return StreamMessage(items)

    def create_object_message(self, value: object = None) -> ObjectMessage:
        return ObjectMessage(value)

    # --- destinations ------------------------------------------------------------------------------------------------

    def create_queue(self, name: str) -> Queue:
        """The queue ``name``; raises InvalidDestinationException when it does not exist and cannot be created on demand."""
        return self._connection._cached(Queue, name, self._find_queue)

    def create_topic(self, name: str) -> Topic:
        """The topic ``name``; raises InvalidDestinationException when it does not exist and cannot be created on demand."""
        return self._connection._cached(Topic, name, self._find_topic)

    def _find_queue(self, name: str) -> Queue:
        self._check_open()
        queue, old = self._names(Queue, name)
        found = self._lookup.queue(queue.queue_name)
        if found.exists or found.auto_create_queues:
            return queue
        if self._lookup.queue(old.queue_name).exists:
            return old
        raise InvalidDestinationException(f"the queue {name} does not exist")

    def _find_topic(self, name: str) -> Topic:
        self._check_open()
        topic, old = self._names(Topic, name)
        found = self._lookup.address(topic.address)
        if found.exists or found.auto_create_addresses:
            return topic
        if self._lookup.address(old.address).exists:
            return old
        raise InvalidDestinationException(f"the topic {name} does not exist")

    def _names(self, kind: type[D], name: str) -> tuple[D, D]:
        """The destination itself, and what an address of Artemis 1.x was called; the same when the factory asks for these names."""
        check_plain_name(name)
        old = kind(PREFIX_1X[kind] + name)
        return (old if self._connection._settings.enable_1x_prefixes else kind(name)), old

    def create_temporary_queue(self) -> TemporaryQueue:
        """A queue with a random name that lives as long as the connection, or until its ``delete()``."""
        self._check_open()
        return self._temporaries.create_queue()

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic with a random name that lives as long as the connection, or until its ``delete()``."""
        self._check_open()
        return self._temporaries.create_topic()

    # --- producers and consumers -------------------------------------------------------------------------------------

    def create_producer(
        self,
        destination: Destination | str | None = None,
        *,
        delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT,
        priority: int = DEFAULT_PRIORITY,
        time_to_live: int = 0,
        delivery_delay: int = 0,
        disable_message_id: bool = False,
        disable_message_timestamp: bool = False,
    ) -> MessageProducer:
        """A producer for ``destination``, or one that names it in each send.  A text without ``queue://`` or ``topic://`` is a queue.

        Creates what is missing where the broker allows it; otherwise raises InvalidDestinationException.
        """
        self._check_open()
        target = None if destination is None else as_destination(destination)
        if target is not None:
            self._lookup.prepare_send(target)
        with JMS_ERRORS:
            core = self._sender.create_producer(None if target is None else target.name)
        producer = MessageProducer(
            self,
            core,
            target,
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live=time_to_live,
            delivery_delay=delivery_delay,
            disable_message_id=disable_message_id,
            disable_message_timestamp=disable_message_timestamp,
        )
        self._producers.add(producer)
        return producer

    def create_consumer(self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False) -> MessageConsumer:
        """A consumer of a queue, or of a non-durable subscription of a topic, which sees what is sent from now on.

        ``no_local`` leaves out what this connection sends.  Creates what is missing where the broker allows it; otherwise raises
        InvalidDestinationException.
        """
        self._check_open()
        target = as_destination(destination)
        if target.temporary and target.address not in self._connection._temporary:
            raise InvalidDestinationException(f"{target} was made by another connection; only that one may consume from it")
        filter = self._filter(selector, no_local)
        temporary_queue = None
        if not isinstance(target, Topic):
            queue = self._lookup.prepare_queue_consumer(target)
        elif target.fully_qualified:
            queue = self._lookup.prepare_topic_queue(target)
        else:
            self._lookup.prepare_topic_consumer(target)
            queue = temporary_queue = self._clock.new_uuid()
            self._lookup.temporary_subscription(target, queue, filter)
        return self._add_consumer(target, queue, selector, filter, temporary_queue)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """A consumer of the durable subscription ``name``, which keeps messages while nobody consumes.  Needs a client id.

        Raises IllegalStateException while the subscription has another consumer.  A subscription with another topic or selector is made
        anew, and loses its messages.
        """
        target = self._subscribed(topic)
        if self._connection.client_id is None:
            raise IllegalStateException("an unshared durable subscription needs a client id: set it on the connection or the factory")
        filter = self._filter(selector, no_local)
        queue = subscription_queue(self._connection.client_id, name, durable=True)
        self._lookup.prepare_topic_consumer(target)
        self._lookup.durable_subscription(target, queue, filter)
        return self._add_consumer(target, queue, selector)

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """A consumer of the subscription ``name``, which lives while it has consumers; they share its messages."""
        return self._create_shared(topic, name, selector, durable=False)

    def create_shared_durable_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """A consumer of the durable subscription ``name``; its consumers share its messages.  A client id is not needed."""
        return self._create_shared(topic, name, selector, durable=True)

    def _create_shared(self, topic: Topic | str, name: str, selector: str | None, *, durable: bool) -> MessageConsumer:
        target = self._subscribed(topic)
        queue = subscription_queue(self._connection.client_id, name, durable=durable)
        self._lookup.shared_subscription(target, queue, self._filter(selector, False), durable=durable)
        return self._add_consumer(target, queue, selector)

    def _subscribed(self, topic: Topic | str) -> Topic:
        self._check_open()
        target = Topic(topic) if isinstance(topic, str) and "://" not in topic else as_destination(topic)
        if not isinstance(target, Topic) or target.temporary:
            raise InvalidDestinationException(f"{target} cannot have named subscriptions; only a topic that is not temporary can")
        return target

    def create_browser(self, queue: Queue | str, selector: str | None = None) -> QueueBrowser:
        """A browser of a queue."""
        self._check_open()
        target = as_destination(queue)
        if isinstance(target, Topic):
            raise InvalidDestinationException(f"{target} is a topic; only a queue can be browsed")
        filter = self._filter(selector, False)
        self._lookup.prepare_browser(target)
        return QueueBrowser(self, target, selector, filter)

    def unsubscribe(self, name: str) -> None:
        """Delete the durable subscription ``name`` with its messages.  Raises IllegalStateException while it has a consumer."""
        self._check_open()
        queue = subscription_queue(self._connection.client_id, name, durable=True)
        found = self._lookup.queue(queue)
        if not found.exists:
            raise InvalidDestinationException(f"there is no durable subscription {name}")
        if found.consumer_count > 0:
            raise IllegalStateException(f"the durable subscription {name} has an active consumer")
        self._lookup.delete_queue(queue)

    def _filter(self, selector: str | None, no_local: bool) -> str | None:
        filter = selectors.to_filter(selector)
        return selectors.without_local(filter, self._connection._connection_id) if no_local else filter

    def _add_consumer(
        self, target: Destination, queue: str, selector: str | None, filter: str | None = None, temporary_queue: str | None = None
    ) -> MessageConsumer:
        core = self._open_consumer(queue, filter, priority=target.consumer_priority)
        consumer = MessageConsumer(self, core, target, selector, temporary_queue=temporary_queue)
        self._consumers.add(consumer)
        return consumer

    def _open_consumer(self, queue: str, filter: str | None, *, priority: int = 0, browse_only: bool = False) -> BlockingConsumer:
        with JMS_ERRORS:
            return self._connection._runner.create_consumer(self._core, queue, filter, priority=priority, browse_only=browse_only)

    # --- transactions and acknowledgements ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Make sends and receipts since the last commit take effect.

        Raises TransactionRolledBackException when a failure has undone them; the next transaction has begun then.  A JMSException with the
        error code ``115`` says that the connection failed while the broker may have committed.
        """
        self._check_transacted()
        self._await_completions()
        with JMS_ERRORS:
            self._sender.commit()

    def rollback(self) -> None:
        """Undo sends and receipts since the last commit; what was received comes again."""
        self._check_transacted()
        self._await_completions()
        with JMS_ERRORS:
            self._sender.rollback()

    def recover(self) -> None:
        """Have everything delivered again that was not acknowledged.  Not in a transacted session."""
        self._check_open()
        if self.transacted:
            raise IllegalStateException("a transacted session is rolled back, not recovered")
        self._call(self._core.rollback, True)

    def acknowledge(self) -> None:
        """Client mode: acknowledge all messages that the session has delivered.  Without effect in the other modes."""
        self._check_open()
        if self._mode == AcknowledgeMode.CLIENT_ACKNOWLEDGE and not self._pre_acknowledges:
            self._commit_acknowledgements()

    def _commit_acknowledgements(self) -> None:
        self._call(self._core.commit, self._connection._settings.block_on_acknowledge)

    def _check_transacted(self) -> None:
        self._check_open()
        if not self.transacted:
            raise IllegalStateException("the session is not transacted")

    # --- asynchronous sends, listeners, closing ----------------------------------------------------------------------

    def _track(self, future: Future[Any]) -> None:
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)

    def _tell_completion(self, message: Message, future: Future[Message], listener: CompletionListener) -> None:
        thread, told = self._listener_thread(), Future[None]()
        self._track(told)

        def tell() -> None:
            try:
                error = future.exception()
                if isinstance(error, JMSException):
                    listener.on_exception(message, error)
                else:
                    listener.on_completion(message)
            finally:
                told.set_result(None)

        future.add_done_callback(lambda _: thread.submit(tell))

    def _await_completions(self) -> None:
        """Wait until the outcome of every asynchronous send is known and told, as JMS asks of commit and close."""
        if self._pending and not self._in_listener():
            concurrent.futures.wait(set(self._pending), self._connection._settings.call_timeout / 1000)

    def _listener_thread(self) -> SessionDispatcher:
        if self._dispatcher is None:
            with JMS_ERRORS:
                self._dispatcher = self._connection._runner.dispatcher(self._core)
        return self._dispatcher

    def _await_listener(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.wait_idle(self._connection._settings.on_message_close_timeout)

    def _end_listeners(self) -> None:
        """No listener is called any more; one that runs has the session until it returns, or for as long as closing waits for it."""
        if self._dispatcher is not None:
            self._dispatcher.close(self._connection._settings.on_message_close_timeout)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the session is closed")

    def _in_listener(self) -> bool:
        return self._dispatcher is not None and self._dispatcher.in_thread()

    def _close_quietly(self, close: Callable[[], None]) -> None:
        """Closing never fails because of the network: what is gone is closed."""
        try:
            close()
        except (JMSException, MQError):
            pass

    def close(self) -> None:
        """Close producers, consumers and the session; an open transaction is rolled back.  Safe to call twice.

        Raises IllegalStateException in a listener of this session, which it would wait for.
        """
        if self._closed:
            return
        if self._in_listener():
            raise IllegalStateException("a session cannot be closed by its own listener")
        self._await_completions()
        for consumer in tuple(self._consumers):
            consumer.close()
        self._end_listeners()
        self._close_quietly(self._sender.settle)
        self._abandon()
        self._close_quietly(lambda: self._call(self._core.close))
        self._connection._sessions.discard(self)

    def _abandon(self) -> None:
        """The core session is closed or about to be: nothing can be done here any more."""
        for consumer in tuple(self._consumers):
            self._close_quietly(consumer._acknowledge_owed)
        self._closed = True
        self._producers.clear()
        self._consumers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
