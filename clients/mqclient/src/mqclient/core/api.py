"""The interface of the core client: protocols of its objects, settings, listeners.

The classes that implement the protocols are made by a shell: :mod:`mqclient.twisted` (awaitables are Deferreds),
:mod:`mqclient.asyncio` (awaitables are tasks and futures) and :mod:`mqclient.blocking` (calls that wait in the caller's thread).
The names are those of the Java core API in Python spelling.

Rules that hold for every object here:

* All methods must be called in the thread of the reactor or loop; only :mod:`mqclient.blocking` may be used from others.
* A method that returns an ``Awaitable`` starts even if the awaitable is never awaited: at once under Twisted, in the loop's next turn under
  asyncio, in the order of the calls.
* Locators, factories, sessions, producers and consumers are closed at the end of ``async with``::

      async with server_locator(url) as locator, await locator.create_session_factory() as factory:
          async with await factory.create_session() as session:
              ...

* Every call to the broker is bounded by ``call_timeout``; while a reconnect runs, by ``call_failover_timeout``.
  Exceptions: ``ClientConsumer.receive()`` without a timeout and sends to a full address with the BLOCK policy.
* Errors are the classes of :mod:`mqclient.errors`.  After a connection failure a call that waited raises ``UnblockedError``;
  a call on a closed object raises ``ObjectClosedError``.
* Times are milliseconds, sizes are bytes, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from mqclient.core.closing import Closing
from mqclient.core.listeners import FailoverEvent, FailoverEventListener, SendAcknowledgementHandler, SessionFailureListener
from mqclient.core.message import ClientMessage, LargeBody
from mqclient.core.settings import WITHOUT_EFFECT, LocatorSettings, QueueConfiguration, url_parameter_names
from mqclient.protocol.topology import Topology, TopologyListener
from mqclient.wire.packets import ROUTING_ANYCAST, ROUTING_MULTICAST, AddressQueryResult, QueueQueryResult
from mqclient.wire.primitives import TransportConfiguration
from mqclient.xa import TMENDRSCAN, TMNOFLAGS, TMSTARTRSCAN, TMSUCCESS, Xid

__all__ = [
    "ROUTING_ANYCAST",
    "ROUTING_MULTICAST",
    "WITHOUT_EFFECT",
    "AddressQueryResult",
    "ClientConsumer",
    "ClientMessage",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "FailoverEvent",
    "FailoverEventListener",
    "LargeBody",
    "LocatorSettings",
    "QueueConfiguration",
    "QueueQueryResult",
    "SendAcknowledgementHandler",
    "ServerLocator",
    "SessionFailureListener",
    "TransportConfiguration",
    "XAResource",
    "url_parameter_names",
]

T = TypeVar("T")


class ServerLocator(Closing, Protocol):
    """Knows the connectors, keeps the topology that brokers announce, and opens connections."""

    @property
    def settings(self) -> LocatorSettings: ...

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        """The connectors that were given, in their order, or one for each broker that was discovered."""

    @property
    def topology(self) -> Topology:
        """The members that brokers have announced so far."""

    def add_topology_listener(self, listener: TopologyListener) -> None:
        """Call ``listener(member, True)`` for every present member, and whenever one appears or changes; with False when one leaves.

        The listener is called in the thread of the reactor or loop.
        """

    def remove_topology_listener(self, listener: TopologyListener) -> None:
        """Raises ValueError when it was not added."""

    def create_session_factory(self, node_id: str | None = None) -> Awaitable[ClientSessionFactory]:
        """Connect: to the member ``node_id`` of the topology, or to the broker that the load-balancing policy picks.

        Makes ``initial_connect_attempts`` rounds.  Raises ``NotConnectedError`` when no broker can be reached, ``ConnectionTimedOutError``
        when one does not answer, or none announces itself within the initial wait timeout of a discovery group.
        """

    def close(self) -> Awaitable[None]:
        """Close every session factory that was made, and listen for brokers no more."""


class Listened(Protocol):
    """Tells listeners of connection failures; ``remove_…`` gives False when the listener was not added."""

    def add_failure_listener(self, listener: SessionFailureListener) -> None: ...

    def remove_failure_listener(self, listener: SessionFailureListener) -> bool: ...

    def add_failover_listener(self, listener: FailoverEventListener) -> None: ...

    def remove_failover_listener(self, listener: FailoverEventListener) -> bool: ...


class ClientSessionFactory(Closing, Listened, Protocol):
    """One connection to a broker, kept alive and re-established, and the sessions on it."""

    @property
    def closed(self) -> bool: ...

    @property
    def settings(self) -> LocatorSettings:
        """The settings of the locator that made it."""

    @property
    def connector(self) -> TransportConfiguration:
        """The connector in use, or the one used last."""

    @property
    def node_id(self) -> str | None:
        """Node id of the broker, once it is known from the topology."""

    @property
    def server_version(self) -> int:
        """Protocol version of the broker; 0 before it is known."""

    @property
    def sessions(self) -> Sequence[ClientSession]: ...

    def create_session(
        self,
        username: str | None = None,
        password: str | None = None,
        *,
        xa: bool = False,
        auto_commit_sends: bool = True,
        auto_commit_acks: bool = True,
        pre_acknowledge: bool | None = None,
        ack_batch_size: int | None = None,
        client_id: str | None = None,
        name: str | None = None,
    ) -> Awaitable[ClientSession]:
        """Open a session; None takes the locator's setting.

        With ``xa`` it works on branches of distributed transactions (:attr:`ClientSession.xa_resource`) and commits nothing by itself.
        Cancelling the result leaves no session on the broker.
        Raises ``SecurityError`` (credentials), ``SessionCreationRejectedError`` (broker not ready, limits), ``IncompatibleVersionsError``.
        """

    def close(self) -> Awaitable[None]:
        """Close the sessions in an orderly way, then the connection.  Never raises for reasons of the network; safe to call twice."""


class ClientSession(Closing, Listened, Protocol):
    """A single context of work on a connection: its packets are processed by the broker in their order.

    With ``auto_commit_sends``/``auto_commit_acks`` off, sends/acknowledgements take effect with :meth:`commit`.  After a failover
    that could not reattach, a transaction with work in it is rollback-only: :meth:`commit` raises ``TransactionRolledBackError``
    (already rolled back, work can start anew); a commit that was waiting raises ``TransactionOutcomeUnknownError``.
    """

    @property
    def name(self) -> str:
        """Session name on the broker (a UUID); changes when the session is created anew after a failure."""

    @property
    def closed(self) -> bool: ...

    @property
    def started(self) -> bool: ...

    @property
    def auto_commit_sends(self) -> bool: ...

    @property
    def auto_commit_acks(self) -> bool: ...

    @property
    def rollback_only(self) -> bool:
        """The open transaction was hit by a connection failure and cannot be committed."""

    @property
    def version(self) -> int:
        """Protocol version in use."""

    @property
    def factory(self) -> ClientSessionFactory: ...

    @property
    def consumers(self) -> Sequence[ClientConsumer]: ...

    @property
    def producers(self) -> Sequence[ClientProducer]: ...

    def start(self) -> Awaitable[None]:
        """Let messages be delivered to the consumers.  Does nothing on a started session."""

    def stop(self) -> Awaitable[None]:
        """Pause delivery; waits for the broker, and for running message handlers at most ``on_message_close_timeout``."""

    def commit(self, block: bool = True) -> Awaitable[None]:
        """Commit the sends and acknowledgements that were begun before; sends that still wait, for credits or their bodies, are awaited.

        When such a send fails, the transaction is rolled back and ``TransactionRolledBackError`` raised, with the send's error as its
        cause: nothing is committed in part.  A send that failed before this call has raised its error already, and the rest is committed.
        Work begun after this call belongs to the next transaction, although this one still waits.  With ``block`` false the broker's answer
        is not awaited (JMS acknowledge).

        With ``exactly_once`` it returns when the work has taken effect, or raises ``TransactionRolledBackError`` when it has not and never
        will.  It waits for the connection as long as that takes.  A transaction that only sends is repeated by itself.  Raises
        ``NodeLostError`` when the node that knows the outcome is given up.
        """

    def rollback(self, consider_last_message_as_delivered: bool = False) -> Awaitable[None]:
        """Undo sends and acknowledgements since the last commit; delivered messages come again.

        Sends that are not written yet are dropped: they raise ``TransactionRolledBackError``.
        With ``consider_last_message_as_delivered`` the oldest message of each consumer keeps its delivery count (JMS recover).
        """

    def transaction(self, function: Callable[[ClientSession], Awaitable[T]]) -> Awaitable[T]:
        """Call ``function`` with this session, commit, and give its result; call it again when a failure has undone the transaction.

        For work that receives and sends: the received messages come again.  ``function`` should have no effects but those of the session.
        When it raises, the transaction is rolled back and the error raised.  A send that fails for another reason than the connection is
        not repeated.  Without ``exactly_once`` a lost answer to the commit still raises ``TransactionOutcomeUnknownError``.
        Raises ``IllegalStateError`` for a session with ``auto_commit_sends``.
        """

    @property
    def xa_resource(self) -> XAResource:
        """The session as a resource of distributed transactions; raises ``IllegalStateError`` unless it was created with ``xa=True``.

        While the session works on a branch, :meth:`commit` and :meth:`rollback` raise ``IllegalStateError``.
        """

    def flush_acknowledgements(self) -> Awaitable[None]:
        """Send the acknowledgements of this turn of the loop, or of the open transaction, now."""

    def create_message(self, type: int = 0, *, durable: bool = True, priority: int = 4) -> ClientMessage:
        """A new message with a timestamp; ``type`` is one of ``mqclient.wire.message.TYPE_*``.

        Its ``body`` is bytes: ``encode_text``, ``encode_map`` and ``encode_stream`` of :mod:`mqclient.wire.bodies` make those that JMS
        receivers read.
        """

    def create_text_message(self, text: str | None, *, durable: bool = True, priority: int = 4) -> ClientMessage:
        """A new text message with a timestamp; the receiver reads its ``text``."""

    def create_producer(
        self, address: str | None = None, *, max_rate: int | None = None, require_queue: bool = False
    ) -> Awaitable[ClientProducer]:
        """A producer for ``address``, or an anonymous one.  ``max_rate`` in messages per second, -1 none, None the locator's setting.

        A broker drops messages to an address that does not exist or has no queue, and answers as if they had been stored: sending creates
        nothing.  With ``require_queue`` the broker is asked now, once, whether the address has a queue, or for ``address::queue`` that
        queue; raises ``AddressDoesNotExistError`` or ``QueueDoesNotExistError``.  There is no later check: queues that are deleted later,
        filters of queues, and an address whose only way on is a divert are not taken into account.  Raises ``ValueError`` for
        ``require_queue`` without an address.
        """

    def create_consumer(
        self,
        queue_name: str,
        filter_string: str | None = None,
        *,
        priority: int = 0,
        browse_only: bool = False,
        window_size: int | None = None,
        max_rate: int | None = None,
        buffer: MessageBuffer | None = None,
    ) -> Awaitable[ClientConsumer]:
        """A consumer on an existing queue (``address::queue`` is allowed).  ``buffer`` is for shells.

        Raises ``QueueDoesNotExistError``, ``InvalidFilterExpressionError``, ``SecurityError``, ``MaxConsumerLimitExceededError``.
        """

    def address_query(self, address: str) -> Awaitable[AddressQueryResult]: ...

    def queue_query(self, queue_name: str) -> Awaitable[QueueQueryResult]: ...

    def create_address(self, address: str, routing_types: Iterable[int], auto_created: bool = False) -> Awaitable[None]: ...

    def create_queue(self, configuration: QueueConfiguration, *, if_missing: bool = False) -> Awaitable[None]:
        """Raises ``QueueExistsError``, ``AddressDoesNotExistError``, ``SecurityError``, ``InvalidQueueConfigurationError``.

        With ``if_missing`` an existing queue of that name stays as it is, whatever its configuration; the broker is asked first, so that an
        open transaction is not spoilt.
        """

    def create_shared_queue(self, configuration: QueueConfiguration) -> Awaitable[None]:
        """Create the queue unless the same one exists; raises ``InvalidTransientQueueUseError`` when address or filter differ."""

    def delete_queue(self, queue_name: str) -> Awaitable[None]:
        """Raises ``QueueDoesNotExistError``, and ``IllegalStateError`` while the queue has consumers."""

    def add_metadata(self, key: str, data: str) -> Awaitable[None]: ...

    def add_unique_metadata(self, key: str, data: str) -> Awaitable[None]:
        """Raises ``DuplicateMetadataError`` when another live session of the broker holds the same pair."""

    def set_send_acknowledgement_handler(self, handler: SendAcknowledgementHandler | None) -> None:
        """With a handler no send of this session blocks; the handler is told the outcome."""

    def close(self) -> Awaitable[None]:
        """Close consumers, producers and the session; an open transaction is rolled back.  Never raises for reasons of the network.

        Acknowledgements and sends that were begun before are sent first, within ``call_timeout`` and not while the connection is away.  A
        send that is left then (its address is full), or that belongs to the transaction, raises ``ObjectClosedError``.
        """


class XAResource(Protocol):
    """A session as a resource of distributed transactions, for a transaction manager.

    Flags and codes are in :mod:`mqclient.xa`.  Every failure is an ``XAError``: the broker's answer, ``XAER_INVAL`` for a flag or value
    that is not allowed, ``XAER_PROTO`` for a call that the state of the session forbids, and after a failure of the connection:

    * ``start`` is made again by itself; ``XAER_RMFAIL`` when that fails too;
    * ``end``: ``XAER_RMFAIL``, some of the work may be lost and the branch has to be rolled back;
    * ``prepare`` is made again by itself; when that fails too the branch is rolled back and ``XAER_RMFAIL`` raised;
    * ``commit`` in one phase: ``XAER_RMFAIL``, the outcome is unknown; in two phases ``XA_RETRY``, the call has to be made again;
    * ``rollback`` and the other calls: ``XAER_RMFAIL``.
    """

    @property
    def current(self) -> Xid | None:
        """The branch that the session works on: between ``start`` and ``end``."""

    def start(self, xid: Xid, flags: int = TMNOFLAGS) -> Awaitable[None]:
        """Work on a branch from now on: a new one, with TMJOIN one that another session has begun, with TMRESUME a suspended one.

        ``XAER_DUPID``: the branch exists already; ``XAER_NOTA``: it does not exist.
        """

    def end(self, xid: Xid, flags: int = TMSUCCESS) -> Awaitable[None]:
        """End the work on the branch.  TMSUSPEND: the work will go on later; TMFAIL: the branch has to be rolled back.

        Sends that were begun before are awaited, or with TMFAIL dropped.  ``XA_RBOTHER``: one of them has failed, the branch has to be
        rolled back.  ``XA_RBTIMEOUT``: the branch was rolled back after its timeout.
        """

    def end_failed(self, xid: Xid, cause: Exception) -> Awaitable[None]:
        """For shells: ``end`` of a branch that had a failed send; raises ``XA_RBOTHER``."""

    def prepare(self, xid: Xid) -> Awaitable[int]:
        """Have the broker promise that it can commit: the branch survives failures and restarts now.  Gives ``XA_OK``."""

    def commit(self, xid: Xid, one_phase: bool = False) -> Awaitable[None]:
        """Commit a prepared branch, or with ``one_phase`` one that was only ended.

        ``XA_HEURCOM``, ``XA_HEURRB``: an administrator has decided already; see :meth:`forget`.
        """

    def rollback(self, xid: Xid) -> Awaitable[None]:
        """Undo a branch, prepared or not.  Messages that this session has received and not committed in other branches come again, too."""

    def forget(self, xid: Xid) -> Awaitable[None]:
        """Let the broker forget an administrator's decision about the branch."""

    def recover(self, flags: int = TMSTARTRSCAN | TMENDRSCAN) -> Awaitable[list[Xid]]:
        """The branches that are prepared or were decided by an administrator; empty unless the flags begin a scan."""

    def set_transaction_timeout(self, seconds: int) -> Awaitable[bool]:
        """Set the time limit of branches that are not prepared yet, in s (0: the broker's default); False when it cannot be set."""

    def get_transaction_timeout(self) -> Awaitable[int]:
        """The time limit in s, as the broker says."""

    def is_same_rm(self, other: object) -> bool:
        """Does ``other`` belong to the same broker, so that it can join branches of this one?"""


class ClientProducer(Closing, Protocol):
    @property
    def address(self) -> str | None: ...

    @property
    def closed(self) -> bool: ...

    def send(
        self, message: ClientMessage, address: str | None = None, *, acknowledgement_handler: SendAcknowledgementHandler | None = None
    ) -> Awaitable[None]:
        """Send ``message`` to ``address`` (needed by an anonymous producer, refused with ``ValueError`` by one with an address).

        The result comes when the broker has the message, if the send blocks (``block_on_durable_send``, ``block_on_non_durable_send``, only
        in sessions with ``auto_commit_sends``); otherwise when it is written.  A send waits for credits (a full BLOCK address) without
        limit.  With an ``acknowledgement_handler`` the send never blocks.  Raises ``AddressFullError``, ``SecurityError``,
        ``AddressDoesNotExistError``, ``DuplicateIdRejectedError``.  The message's address is set; its body is not touched.

        Refused before anything is sent: with TypeError or ValueError a body that is not bytes, and a text message whose body is no encoded
        text; with ``MessageTooLargeError`` a message with more than 10,000 properties, and one whose frame would have more than 100 MiB
        (only with ``min_large_message_size`` raised to that).
        """

    def close(self) -> Awaitable[None]:
        """Close after the producer's sends, within ``call_timeout`` and not while the connection is away; sends that are left then fail."""


MessageHandler = Callable[[ClientMessage], "Awaitable[Any] | None"]


class ClientConsumer(Closing, Protocol):
    """Receives from one queue.  Messages must be acknowledged by the caller, unless the session pre-acknowledges."""

    @property
    def queue_name(self) -> str: ...

    @property
    def filter_string(self) -> str | None: ...

    @property
    def browse_only(self) -> bool: ...

    @property
    def closed(self) -> bool: ...

    @property
    def queue_info(self) -> QueueQueryResult:
        """The broker's description of the queue when the consumer was created."""

    def receive(self, timeout: int | None = None) -> Awaitable[ClientMessage | None]:
        """The next message.  ``timeout`` in ms: None waits for ever, 0 is :meth:`receive_immediate`.

        None is returned after the timeout, and when the application closes the consumer, its session or the connection meanwhile.  When
        they end for another reason (the connection is lost for good, the queue is deleted) ``ObjectClosedError`` is raised, as by the next
        call.  When the time is over the broker is asked once more whether it has a message, unless the connection is away then.  Cancelling
        the result ends the wait and loses no message.
        """

    def receive_immediate(self) -> Awaitable[ClientMessage | None]:
        """A message if the queue has one now; asks the broker when nothing is buffered."""

    def set_message_handler(self, handler: MessageHandler | None) -> None:
        """Call ``handler`` for each message, one after the other; one that returns an awaitable is awaited before the next message.

        An exception of the handler is logged, and delivery goes on.  While a handler is set, ``receive`` raises ``IllegalStateError``.
        """

    def acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        """Acknowledge all messages of this consumer up to ``message``; waits for the broker only with ``block_on_acknowledge``.

        The acknowledgement is sent at the end of the loop's turn, together with others, or sooner when ``ack_batch_size`` bytes have
        gathered; in a transaction at its end, or after so many bytes.  Once a message with a priority other than 4 was received, each
        message is acknowledged individually (delivery order then differs from the broker's).  A message that went back to its queue after a
        connection failure is not acknowledged: it will come again.
        """

    def individual_acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        """Acknowledge just ``message``, at once."""

    def close(self) -> Awaitable[None]: ...

    # For shells that keep the buffer in another thread:

    def consumed(self, message: ClientMessage, expired: bool | None = None) -> bool:
        """A shell has taken a message out of the consumer's buffer: return its credits.

        ``expired`` is the shell's finding, None: check now.  Returns False for an expired message: the broker has been told, and the
        application must not get the message.
        """

    def prepare_receive(self) -> None:
        """A shell is about to wait for a message: grants the one credit of a consumer without window."""

    def force_delivery(self, patient: bool = True) -> Awaitable[None]:
        """Completes when a message has come or the broker has delivered all that it can deliver now.

        Withdraws the credit of a consumer without window.  With ``patient`` false it completes at once while the connection is away.
        """

    def __aiter__(self) -> AsyncIterator[ClientMessage]:
        """Messages until the application closes the consumer; raises as :meth:`receive` when it ends for another reason."""


class MessageBuffer(Protocol):
    """The messages that have arrived for a consumer, ordered by priority (9 first) and arrival."""

    def put(self, message: ClientMessage) -> None: ...

    def pop(self) -> ClientMessage | None:
        """The next message, None when there is none.  Does not wait."""

    def clear(self) -> list[ClientMessage]:
        """Take everything out."""

    def close(self) -> None:
        """The consumer was closed: nothing comes any more."""

    def pause(self) -> None:
        """The session was stopped: ``pop`` gives nothing until :meth:`resume`."""

    def resume(self) -> None: ...

    def __len__(self) -> int: ...
