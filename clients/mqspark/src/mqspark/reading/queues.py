"""The queues of a query on the nodes of a cluster: the members, and their queues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar, Unpack

from mqclient.core.api import QueueQueryResult
from mqclient.wire.packets import ReaderRange, ReaderState
from mqspark.broker.broker import Broker, Limits, connect
from mqspark.broker.nodes import Node
from mqspark.errors import BrokerUnreachableError, MissingQueueError
from mqspark.options import Options
from mqspark.reading.plain_source import HandedOut, PlainBroker
from mqspark.reading.questions import Questions, in_thread

log: Final = logging.getLogger(__name__)

T = TypeVar("T")


class Reading(Protocol):
    """The calls of the sources to a node: a :class:`Broker` answers it by named readers, a :class:`PlainBroker` by browsing."""

    @property
    def node_id(self) -> str: ...
    @property
    def alive(self) -> bool: ...
    @property
    def has_readers(self) -> bool: ...
    def members(self) -> list[Node]: ...
    def queue_query(self, queue: str) -> QueueQueryResult: ...
    def subscribe_topic(self, topic: str, subscription: str, selector: str | None = None) -> str: ...
    def check_selector(self, queue: str, selector: str) -> None: ...
    def open_reader(self, queue: str, reader: str, start: int = -1) -> ReaderState: ...
    def reader_state(self, queue: str, reader: str, position: int) -> tuple[int, int, int]: ...
    def survey(self, queue: str, after: int, **limits: Unpack[Limits]) -> ReaderRange: ...
    def reserve(self, queue: str, reader: str, epoch: int, after: int, **limits: Unpack[Limits]) -> ReaderRange: ...
    def handed_out(self, queue: str, after: int, until: int) -> frozenset[int] | None: ...
    def settle(self, queue: str, reader: str, epoch: int, until: int) -> None: ...
    def close(self) -> None: ...


class Cluster:
    """Connections of the driver to every node, opened when they are needed, kept, and closed together.

    :meth:`each` and :meth:`ask` ask several nodes side by side: each question runs in a thread for its node, and may go on after the call
    has returned.  All other methods are for one thread.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._entry: Broker | None = None
        self._brokers: dict[str, Reading] = {}
        self._handed_out: dict[str, HandedOut] = {}
        """Of nodes without readers, by node id."""
        self._seen: set[str] = set()
        self.nodes: dict[str, Node] = {}
        """The members at the last :meth:`look`, and earlier members."""
        self.away: dict[str, str] = {}
        """Node id to the reason: members that could not be reached then."""
        self._queues: dict[str, tuple[str, ...]] = {}
        self._questions = Questions(in_thread)

    def look(self) -> None:
        """Find the present members, by asking any known one or one of the URL.

        Raises BrokerUnreachableError when none can be reached, LoginError.
        """
        self._take_in()
        self._questions.begin_round()
        members = self._members()
        self.nodes.update({node.node_id: node for node in members})
        present = {node.node_id for node in members}
        self.away = {node: "it is not in the topology" for node in self.nodes if node not in present}

    def _members(self) -> list[Node]:
        entries = [self._entry] if self._entry is not None else []
        others = [broker for node_id, broker in list(self._brokers.items()) if not self._questions.busy(node_id)]
        for broker in (*entries, *others):
            if broker.alive:
                return broker.members()
        if self._entry is not None:
            self._entry.close()
            self._entry = None
        try:
            self._entry = connect(self._options)
        except BrokerUnreachableError:
            # The brokers that the URL names are away; other members may still be there.
            for node_id in sorted(self.nodes):
                if self._questions.busy(node_id):
                    continue
                try:
                    return self.broker(node_id).members()
                except BrokerUnreachableError:
                    continue
            raise
        return self._entry.members()

    def broker(self, node_id: str, *, patient: bool | None = None) -> Reading:
        """The connection to a node, once it has answered its last question; for a broker without readers a :class:`PlainBroker`.

        ``patient``: wait for the node as long as a running query may, as for the only node of a query.  Raises BrokerUnreachableError,
        BadOptionError.
        """
        self._questions.wait_for(node_id)
        self._take_in()
        return self._connected(node_id, patient)

    def connected(self, node_id: str) -> Reading | None:
        """The connection to a node if there is one that can be used now."""
        found = None if self._questions.busy(node_id) else self._brokers.get(node_id)
        return found if found is not None and found.alive else None

    def _connected(self, node_id: str, patient: bool | None = None) -> Reading:
        found = self._brokers.get(node_id)
        if found is not None and not found.alive:
            self.forget(node_id)
            found = None
        if found is None:
            node = self.nodes.get(node_id)
            if node is None:
                raise BrokerUnreachableError(f"node {node_id} is not in the topology of the cluster; its messages wait until it is back")
            known = node_id in self._seen
            broker = connect(self._options, node, patient=known and len(self.nodes) == 1 if patient is None else patient)
            self._seen.add(node_id)
            found = self._brokers[node_id] = self._reading(node_id, broker)
        return found

    def _reading(self, node_id: str, broker: Broker) -> Reading:
        try:
            if broker.has_readers:
                return broker
            plain = PlainBroker(broker, self._options, self._handed_out.get(node_id))
            # A connection that is idle between two batches ends, and what they have handed out is still to be consumed.
            self._handed_out[node_id] = plain.kept
            return plain
        except BaseException:
            broker.close()
            raise

    def each(self, do: Callable[[str, Reading], T], *, everyone: bool = True) -> dict[str, T]:
        """The result of ``do(node id, broker)`` for every node that is there; a node without an answer is noted in ``away``.

        Without ``everyone`` a node that is late is away for now, as :mod:`mqspark.reading.questions` describes.  When no node can be
        reached, a query that runs tries all of them again for ``reconnectTimeout``.  Raises BrokerUnreachableError.
        """
        for left in range(self._rounds(), -1, -1):
            answers, reasons = self._ask({node_id: partial(do, node_id) for node_id in sorted(self.nodes)}, everyone)
            if answers or not reasons:
                break
            error = next(iter(reasons.values()))
            if not left:
                raise error
            log.warning("no node can be reached, trying again: %s", error)
            self.away.clear()
            self._questions.wait_for_any()
            self._take_in()
        return answers

    def _rounds(self) -> int:
        """How often all nodes are tried again; 0 for a single node, whose connection waits by itself."""
        if not self._seen or len(self.nodes) < 2:
            return 0
        return self._options.reconnect_timeout // self._options.connect_timeout

    def ask(self, questions: Mapping[str, Callable[[Reading], T]], *, everyone: bool = True) -> dict[str, T]:
        """As :meth:`each`, each node its own question; a node that gives no answer is away, also when it is the last one."""
        return self._ask(questions, everyone)[0]

    def _ask(
        self, questions: Mapping[str, Callable[[Reading], T]], everyone: bool
    ) -> tuple[dict[str, T], dict[str, BrokerUnreachableError]]:
        def question(node_id: str, do: Callable[[Reading], T]) -> T:
            return do(self._connected(node_id))

        there = {node_id: partial(question, node_id, do) for node_id, do in questions.items() if node_id not in self.away}
        answers, reasons = self._questions.ask(there, everyone=everyone)
        for node_id, error in reasons.items():
            self.away[node_id] = str(error)
            if not self._questions.busy(node_id):
                self.forget(node_id)
        return answers, reasons

    def _take_in(self) -> None:
        """Notice the ends of questions that were open."""
        for node_id in self._questions.ended():
            self.forget(node_id)

    def queues(self, node_id: str, broker: Reading) -> tuple[str, ...]:
        """The queues of the query that this node has; that of a subscription is created.

        Raises BadOptionError for a selector that the node does not understand.
        """
        known = self._queues.get(node_id)
        if known is not None and len(known) == (len(self._options.queues) if self._options.topic is None else 1):
            return known
        options = self._options
        if options.topic is not None:
            assert options.subscription is not None
            found: tuple[str, ...] = (broker.subscribe_topic(options.topic, options.subscription, options.selector),)
        else:
            found = tuple(queue for queue in options.queues if broker.queue_query(queue).exists)
            if options.selector is not None and found and not known:
                broker.check_selector(found[0], options.selector)
        self._queues[node_id] = found
        return found

    def check_queues(self) -> None:
        """Raise MissingQueueError for a queue that no node has; all nodes must have been asked by :meth:`queues`.

        Raises BrokerUnreachableError when a node is away that may have it.
        """
        if self._options.topic is not None:
            return
        everywhere = {queue for queues in list(self._queues.values()) for queue in queues}
        for queue in self._options.queues:
            if queue not in everywhere:
                places = ", ".join(sorted(self._queues))
                for node_id, reason in self.away.items():
                    raise BrokerUnreachableError(
                        f"queue {queue} is on no node that is there ({places}), and node {node_id} is away: {reason}"
                    )
                raise MissingQueueError(f"there is no queue {queue} on any node ({places}): create it, or correct the option queue")

    def forget(self, node_id: str) -> None:
        """Close the connection to a node."""
        broker = self._brokers.pop(node_id, None)
        if broker is not None:
            broker.close()

    def close(self) -> None:
        for node_id in {*self.nodes, *self._brokers}:
            self._questions.when_free(node_id, partial(self.forget, node_id))
        if self._entry is not None:
            self._entry.close()
            self._entry = None
