"""The simplified API: a connection and a session in one object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from mqclient.jms.closing import Closing
from mqclient.jms.connection import Connection, ConnectionMetaData, ExceptionListener
from mqclient.jms.consumer import MessageConsumer, MessageListener, QueueBrowser
from mqclient.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic, looks_like_destination
from mqclient.jms.exceptions import IllegalStateException, InvalidDestinationException
from mqclient.jms.messages.conversion import as_message
from mqclient.jms.messages.making import MessageMaking
from mqclient.jms.messages.message import DeliveryMode, Message
from mqclient.jms.modes import AcknowledgeMode
from mqclient.jms.producer import DEFAULT_PRIORITY, CompletionListener, MessageProducer
from mqclient.jms.session import Session

T = TypeVar("T")


class JMSConsumer(Closing):
    """A :class:`MessageConsumer` that can also give just the bodies."""

    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer

    @property
    def selector(self) -> str | None:
        """The selector as the application gave it."""
        return self._consumer.selector

    def receive(self, timeout: int | None = None) -> Message | None:
        """The next message.  ``timeout`` in ms: None waits for ever, 0 does not wait."""
        return self._consumer.receive(timeout)

    def receive_no_wait(self) -> Message | None:
        """A message if the queue has one now."""
        return self._consumer.receive(0)

    def receive_body(self, timeout: int | None = None) -> Any:
        """The body of the next message: str, bytes, dict, list or object; None after the timeout and for a message without a body."""
        message = self._consumer.receive(timeout)
        return None if message is None else message.body

    def __iter__(self) -> Iterator[Message]:
        return iter(self._consumer)

    @property
    def listener(self) -> MessageListener | None:
        """A function that is called with each message (see :attr:`MessageConsumer.listener`)."""
        return self._consumer.listener

    @listener.setter
    def listener(self, listener: MessageListener | None) -> None:
        self._consumer.listener = listener

    def close(self) -> None:
        self._consumer.close()


class JMSProducer:
    """Sends to the destination that each call names, with headers and properties that it gives to every message.

    All attributes can be changed between sends.  ``time_to_live`` and ``delivery_delay`` in ms; ``properties``, ``correlation_id``,
    ``type`` and ``reply_to`` are set on each message that is sent, where they are not None.
    """

    def __init__(self, producer: MessageProducer, asynchronous: CompletionListener | None) -> None:
        self._producer = producer
        self.asynchronous = asynchronous
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.priority = DEFAULT_PRIORITY
        self.time_to_live = 0
        self.delivery_delay = 0
        self.disable_message_id = False
        self.disable_message_timestamp = False
        self.properties: dict[str, object] = {}
        self.correlation_id: str | bytes | None = None
        self.type: str | None = None
        self.reply_to: Destination | None = None

    def send(self, destination: Destination | str, body: object, *, properties: Mapping[str, object] | None = None) -> Message:
        """Send a message, or the message for a str, bytes, dict, list or None; ``properties`` are added to the producer's own.

        Returns when the broker has the message; with an ``asynchronous`` listener at once.  The destination comes first: a text such as
        ``queue://orders`` behind a name without prefix is refused with InvalidDestinationException.
        """
        _check_order(destination, body)
        message = self._message(body, properties)
        return self._producer.send(message, destination=destination, completion_listener=self.asynchronous, **self._options())

    def send_async(
        self, destination: Destination | str, body: object, *, properties: Mapping[str, object] | None = None
    ) -> Future[Message]:
        """Send without waiting for the broker (see :meth:`MessageProducer.send_async`)."""
        _check_order(destination, body)
        return self._producer.send_async(self._message(body, properties), destination=destination, **self._options())

    def _options(self) -> dict[str, Any]:
        self._producer.disable_message_id = self.disable_message_id
        self._producer.disable_message_timestamp = self.disable_message_timestamp
        return {
            "delivery_mode": self.delivery_mode,
            "priority": self.priority,
            "time_to_live": self.time_to_live,
            "delivery_delay": self.delivery_delay,
        }

    def _message(self, body: object, properties: Mapping[str, object] | None) -> Message:
        message = as_message(body)
        for name, value in {**self.properties, **(properties or {})}.items():
            message.properties[name] = value
        if isinstance(self.correlation_id, bytes):
            message.correlation_id_bytes = self.correlation_id
        elif self.correlation_id is not None:
            message.correlation_id = self.correlation_id
        if self.type is not None:
            message.type = self.type
        if self.reply_to is not None:
            message.reply_to = self.reply_to
        return message


def _check_order(destination: object, body: object) -> None:
    if looks_like_destination(body) and not looks_like_destination(destination):
        raise InvalidDestinationException(
            f"send() takes the destination first and the message second: {body} looks like a destination. To send this very text, "
            "name the destination as queue://NAME or topic://NAME"
        )


class JMSContext(MessageMaking, Closing):
    """A connection and one session of it; made by :meth:`ConnectionFactory.create_context`, best in a ``with`` statement.

    The connection is started with the first consumer, unless ``auto_start`` was set to False before.
    """

    def __init__(
        self,
        connection: Connection,
        session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE,
        sharing: set[JMSContext] | None = None,
        session: Callable[[], Session] | None = None,
    ) -> None:
        """``sharing``: the contexts that use the connection already; the last one of them to be closed closes it.

        ``session`` opens another kind of session than a plain one with the mode.
        """
        self.auto_start = True
        self._connection = connection
        self._sharing: set[JMSContext] = set() if sharing is None else sharing
        try:
            self._session = connection.create_session(session_mode) if session is None else session()
        except BaseException:
            if not self._sharing:
                connection.close()
            raise
        self._sharing.add(self)
        self._producer: MessageProducer | None = None
        """The one that all producers of the context send with, as they cannot be closed; None until it is needed."""

    @property
    def session(self) -> Session:
        """The session, with all that JMS 1.1 offers."""
        return self._session

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def session_mode(self) -> AcknowledgeMode:
        return self._session.acknowledge_mode

    @property
    def transacted(self) -> bool:
        return self._session.transacted

    @property
    def client_id(self) -> str | None:
        """See :attr:`Connection.client_id`; to be set on the factory, since the context has used its connection."""
        return self._connection.client_id

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """See :attr:`Connection.exception_listener`."""
        return self._connection.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._connection.exception_listener = listener

    @property
    def metadata(self) -> ConnectionMetaData:
        return self._connection.metadata

    def create_context(self, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> JMSContext:
        """Another session on the same connection, for another thread."""
        return JMSContext(self._connection, session_mode, self._sharing)

    def start(self) -> None:
        self._connection.start()

    def stop(self) -> None:
        self._connection.stop()

    def create_producer(self, *, asynchronous: CompletionListener | None = None, **attributes: object) -> JMSProducer:
        """A producer with these ``attributes`` of :class:`JMSProducer`, for example ``priority=9, time_to_live=60_000``."""
        if self._producer is None:
            self._producer = self._session.create_producer()
        producer = JMSProducer(self._producer, asynchronous)
        for name, value in attributes.items():
            if name.startswith("_") or not hasattr(producer, name):
                raise AttributeError(f"a JMSProducer has no attribute {name}")
            setattr(producer, name, value)
        return producer

    def create_consumer(self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False) -> JMSConsumer:
        """See :meth:`Session.create_consumer`."""
        return self._started(self._session.create_consumer(destination, selector, no_local=no_local))

    def create_durable_consumer(self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False) -> JMSConsumer:
        """See :meth:`Session.create_durable_consumer`."""
        return self._started(self._session.create_durable_consumer(topic, name, selector, no_local=no_local))

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> JMSConsumer:
        """See :meth:`Session.create_shared_consumer`."""
        return self._started(self._session.create_shared_consumer(topic, name, selector))

    def create_shared_durable_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> JMSConsumer:
        """See :meth:`Session.create_shared_durable_consumer`."""
        return self._started(self._session.create_shared_durable_consumer(topic, name, selector))

    def _started(self, consumer: MessageConsumer) -> JMSConsumer:
        if self.auto_start:
            try:
                self._connection.start()
            except BaseException:  # the caller does not get the consumer, and messages that come to it would wait for ever
                consumer.close()
                raise
        return JMSConsumer(consumer)

    def create_browser(self, queue: Queue | str, selector: str | None = None) -> QueueBrowser:
        """See :meth:`Session.create_browser`."""
        browser = self._session.create_browser(queue, selector)
        if self.auto_start:
            self._connection.start()
        return browser

    def create_queue(self, name: str) -> Queue:
        return self._session.create_queue(name)

    def create_topic(self, name: str) -> Topic:
        return self._session.create_topic(name)

    def create_temporary_queue(self) -> TemporaryQueue:
        return self._session.create_temporary_queue()

    def create_temporary_topic(self) -> TemporaryTopic:
        return self._session.create_temporary_topic()

    def unsubscribe(self, name: str) -> None:
        self._session.unsubscribe(name)

    def commit(self) -> None:
        self._session.commit()

    def rollback(self) -> None:
        self._session.rollback()

    def transaction(self, function: Callable[[JMSContext], T]) -> T:
        """As :meth:`Session.transaction`; ``function`` is called with this context."""
        return self._session.transaction(lambda session: function(self))

    def recover(self) -> None:
        self._session.recover()

    def acknowledge(self) -> None:
        """Client mode: acknowledge all messages that the context has delivered."""
        self._session.acknowledge()

    def close(self) -> None:
        """Close the session, and the connection when no other context shares it."""
        if self._session.work.in_listener():
            raise IllegalStateException("a context cannot be closed by its own listener")
        self._sharing.discard(self)
        if self._sharing:
            self._session.close()
        else:
            self._connection.close()
