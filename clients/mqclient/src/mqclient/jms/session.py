"""Sessions: where producers and consumers are made, and where transactions and acknowledgements end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mqclient.core.runtime import new_uuid
from mqclient.core.session.transactions import cut_off, undone_by_failure
from mqclient.errors import TransactionOutcomeUnknownError, TransactionRolledBackError
from mqclient.jms import selectors
from mqclient.jms.closing import Closing
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
from mqclient.jms.exceptions import (
    JMS_ERRORS,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
)
from mqclient.jms.messages.making import MessageMaking
from mqclient.jms.messages.message import DeliveryMode
from mqclient.jms.modes import AcknowledgeMode
from mqclient.jms.producer import DEFAULT_PRIORITY, MessageProducer
from mqclient.jms.subscriptions import subscription_queue
from mqclient.jms.temporary import Temporaries
from mqclient.jms.work import SessionWork, close_quietly

D = TypeVar("D", bound=Destination)
T = TypeVar("T")


class Session(MessageMaking, Closing):
    """A single context of work: its messages are sent and received in order.  Use it from one thread at a time.

    Made by :meth:`Connection.create_session`.
    """

    def __init__(self, work: SessionWork) -> None:
        """``work`` is for the other objects of this package."""
        self.work = work
        connection, runtime = work.connection, work.runtime
        prefixed = connection.settings.enable_1x_prefixes
        self._temporaries = Temporaries(work.lookup, connection.temporary, lambda: new_uuid(runtime), prefixed)

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self.work.mode

    @property
    def transacted(self) -> bool:
        return self.work.mode == AcknowledgeMode.SESSION_TRANSACTED

    @property
    def closed(self) -> bool:
        return self.work.closed or self.work.core.closed

    # --- destinations ------------------------------------------------------------------------------------------------

    def create_queue(self, name: str) -> Queue:
        """The queue ``name``; raises InvalidDestinationException when it does not exist and cannot be created on demand."""
        return self.work.connection.cached(Queue, name, self._find_queue)

    def create_topic(self, name: str) -> Topic:
        """The topic ``name``; raises InvalidDestinationException when it does not exist and cannot be created on demand."""
        return self.work.connection.cached(Topic, name, self._find_topic)

    def _find_queue(self, name: str) -> Queue:
        self.work.check_open()
        queue, old = self._names(Queue, name)
        found = self.work.lookup.queue(queue.queue_name)
        if found.exists or found.auto_create_queues:
            return queue
        if self.work.lookup.queue(old.queue_name).exists:
            return old
        raise InvalidDestinationException(f"the queue {name} does not exist")

    def _find_topic(self, name: str) -> Topic:
        self.work.check_open()
        topic, old = self._names(Topic, name)
        found = self.work.lookup.address(topic.address)
        if found.exists or found.auto_create_addresses:
            return topic
        if self.work.lookup.address(old.address).exists:
            return old
        raise InvalidDestinationException(f"the topic {name} does not exist")

    def _names(self, kind: type[D], name: str) -> tuple[D, D]:
        """The destination itself, and the one with the address name of Artemis 1.x; the same when the factory asks for these names."""
        check_plain_name(name)
        old = kind(PREFIX_1X[kind] + name)
        return (old if self.work.connection.settings.enable_1x_prefixes else kind(name)), old

    def create_temporary_queue(self) -> TemporaryQueue:
        """A queue with a random name that lives as long as the connection, or until its ``delete()``."""
        self.work.check_open()
        return self._temporaries.create_queue()

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic with a random name that lives as long as the connection, or until its ``delete()``."""
        self.work.check_open()
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
        """A producer for ``destination``, or without one: then each send names the destination.  A text without ``queue://`` or
        ``topic://`` is a queue.

        Creates a missing address or queue where the broker allows that; otherwise raises InvalidDestinationException.
        """
        self.work.check_open()
        target = None if destination is None else as_destination(destination)
        if target is not None:
            self.work.lookup.prepare_send(target)
        with JMS_ERRORS:
            core = self.work.sender.create_producer(None if target is None else target.name)
        return MessageProducer(
            self.work,
            core,
            target,
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live=time_to_live,
            delivery_delay=delivery_delay,
            disable_message_id=disable_message_id,
            disable_message_timestamp=disable_message_timestamp,
        )

    def create_consumer(self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False) -> MessageConsumer:
        """A consumer of a queue, or of a non-durable subscription of a topic, which gets messages sent from now on.

        ``no_local`` leaves out messages from this connection.  Creates a missing address or queue where the broker allows that; otherwise
        raises InvalidDestinationException.
        """
        self.work.check_open()
        target = as_destination(destination)
        if target.temporary and target.address not in self.work.connection.temporary:
            raise InvalidDestinationException(f"{target} was made by another connection; only that one may consume from it")
        filter = self._filter(selector, no_local)
        temporary_queue = None
        if not isinstance(target, Topic):
            queue = self.work.lookup.prepare_queue_consumer(target)
        elif target.fully_qualified:
            queue = self.work.lookup.prepare_topic_queue(target)
        else:
            self.work.lookup.prepare_topic_consumer(target)
            queue = temporary_queue = new_uuid(self.work.runtime)
            self.work.lookup.temporary_subscription(target, queue, filter)
        return self._add_consumer(target, queue, selector, filter, temporary_queue)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """A consumer of the durable subscription ``name``, which keeps messages while it has no consumer.  Needs a client id.

        Raises IllegalStateException while the subscription has another consumer.  A subscription with another topic or selector is made
        anew, and loses its messages.
        """
        target = self._subscribed(topic)
        if self.work.connection.client_id is None:
            raise IllegalStateException("an unshared durable subscription needs a client id: set it on the connection or the factory")
        filter = self._filter(selector, no_local)
        queue = subscription_queue(self.work.connection.client_id, name, durable=True)
        self.work.lookup.prepare_topic_consumer(target)
        self.work.lookup.durable_subscription(target, queue, filter)
        return self._add_consumer(target, queue, selector)

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """A consumer of the subscription ``name``, which lives while it has consumers; they share its messages."""
        return self._create_shared(topic, name, selector, durable=False)

    def create_shared_durable_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """A consumer of the durable subscription ``name``; its consumers share its messages.  A client id is not needed."""
        return self._create_shared(topic, name, selector, durable=True)

    def _create_shared(self, topic: Topic | str, name: str, selector: str | None, *, durable: bool) -> MessageConsumer:
        target = self._subscribed(topic)
        queue = subscription_queue(self.work.connection.client_id, name, durable=durable)
        self.work.lookup.shared_subscription(target, queue, self._filter(selector, False), durable=durable)
        return self._add_consumer(target, queue, selector)

    def _subscribed(self, topic: Topic | str) -> Topic:
        self.work.check_open()
        target = Topic(topic) if isinstance(topic, str) and "://" not in topic else as_destination(topic)
        if not isinstance(target, Topic) or target.temporary:
            raise InvalidDestinationException(f"{target} cannot have named subscriptions; only a topic that is not temporary can")
        return target

    def create_browser(self, queue: Queue | str, selector: str | None = None) -> QueueBrowser:
        """A browser of a queue."""
        self.work.check_open()
        target = as_destination(queue)
        if isinstance(target, Topic):
            raise InvalidDestinationException(f"{target} is a topic; only a queue can be browsed")
        filter = self._filter(selector, False)
        self.work.lookup.prepare_browser(target)
        return QueueBrowser(self.work, target, selector, filter)

    def unsubscribe(self, name: str) -> None:
        """Delete the durable subscription ``name`` with its messages.  Raises IllegalStateException while it has a consumer."""
        self.work.check_open()
        queue = subscription_queue(self.work.connection.client_id, name, durable=True)
        found = self.work.lookup.queue(queue)
        if not found.exists:
            raise InvalidDestinationException(f"there is no durable subscription {name}")
        if found.consumer_count > 0:
            raise IllegalStateException(f"the durable subscription {name} has an active consumer")
        self.work.lookup.delete_queue(queue)

    def _filter(self, selector: str | None, no_local: bool) -> str | None:
        filter = selectors.to_filter(selector)
        return selectors.without_local(filter, self.work.connection.connection_id) if no_local else filter

    def _add_consumer(
        self, target: Destination, queue: str, selector: str | None, filter: str | None = None, temporary_queue: str | None = None
    ) -> MessageConsumer:
        try:
            core = self.work.open_consumer(queue, filter, priority=target.consumer_priority)
        except BaseException:
            if temporary_queue is not None:  # it would gather messages that nobody takes
                close_quietly(lambda: self.work.lookup.delete_queue(temporary_queue))
            raise
        consumer = MessageConsumer(self.work, core, target, selector, temporary_queue=temporary_queue)
        self.work.consumers.add(consumer)
        return consumer

    # --- transactions and acknowledgements ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Make sends and receipts since the last commit take effect.

        Raises TransactionRolledBackException when a failure has undone them; the next transaction has begun then.  A JMSException with the
        error code ``115`` says that the connection failed while the broker may have committed; with ``exactlyOnce`` there is none.
        """
        self._check_transacted()
        self.work.await_completions()
        with JMS_ERRORS:
            self.work.sender.commit()

    def rollback(self) -> None:
        """Undo sends and receipts since the last commit; received messages come again."""
        self._check_transacted()
        self.work.await_completions()
        with JMS_ERRORS:
            self.work.sender.rollback()

    def transaction(self, function: Callable[[Session], T]) -> T:
        """Call ``function`` with this session, commit, and give its result; call it again when a failure has undone the transaction.

        For work that receives and sends: the received messages come again.  ``function`` should have no effects but those of the session.
        When it raises, the transaction is rolled back and the error raised.  Without ``exactlyOnce`` in the URL a lost answer to the commit
        still raises a JMSException with the error code ``115``.  Raises IllegalStateException for a session that is not transacted.
        """
        self._check_transacted()
        while True:
            try:
                result = function(self)
            except BaseException as error:
                again = isinstance(error, JMSException) and (self.work.core.rollback_only or cut_off(error.__cause__))
                self._undo()
                if self.closed or not again:
                    raise
                continue
            try:
                self.commit()
            except JMSException as error:
                if undone_by_failure(error.__cause__):
                    continue
                if not isinstance(error.__cause__, (TransactionRolledBackError, TransactionOutcomeUnknownError)):
                    self._undo()  # the error of a send that was on its way: nothing was committed
                raise
            return result

    def _undo(self) -> None:
        """Leave nothing to the next transaction; a session that is over has nothing to leave."""
        if not self.closed:
            self.rollback()

    def recover(self) -> None:
        """Have everything delivered again that was not acknowledged.  Not in a transacted session."""
        self.work.check_open()
        if self.transacted:
            raise IllegalStateException("a transacted session is rolled back, not recovered")
        self.work.rollback(True)

    def acknowledge(self) -> None:
        """Client mode: acknowledge all messages that the session has delivered.  Without effect in the other modes."""
        self.work.acknowledge()

    def _check_transacted(self) -> None:
        self.work.check_open()
        if not self.transacted:
            raise IllegalStateException("the session is not transacted")

    # --- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close producers, consumers and the session; an open transaction is rolled back.  Safe to call twice.

        Raises IllegalStateException in a listener of this session, which it would wait for.
        """
        work = self.work
        if work.closed:
            return
        if work.in_listener():
            raise IllegalStateException("a session cannot be closed by its own listener")
        work.connection.check_thread()
        work.await_completions()
        for consumer in tuple(work.consumers):
            consumer.close()
        work.end()
        close_quietly(lambda: work.connection.call(work.core.close))
        work.connection.sessions.discard(work)
