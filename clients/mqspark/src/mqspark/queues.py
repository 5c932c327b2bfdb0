"""The queues of a query on the nodes of a cluster: who is there, and what they have."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from mqspark.broker import Broker, connect
from mqspark.errors import BrokerUnreachableError, MissingQueueError
from mqspark.nodes import Node
from mqspark.options import Options
from mqspark.plain_source import PlainBroker

log: Final = logging.getLogger(__name__)

Reading: TypeAlias = Broker | PlainBroker


class Cluster:
    """Connections of the driver to every node, opened when they are needed, kept, and closed together."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._entry: Broker | None = None
        self._brokers: dict[str, Reading] = {}
        self._seen: set[str] = set()
        self.nodes: dict[str, Node] = {}
        """The members when :meth:`look` was called last, and those that were there before."""
        self.away: dict[str, str] = {}
        """Node id to the reason: members that could not be reached then."""
        self._queues: dict[str, tuple[str, ...]] = {}

    def look(self) -> None:
        """Find the members as they are now, from any of those that are known or that the URL names.

        Raises BrokerUnreachableError when none can be reached, LoginError.
        """
        members = self._members()
        self.nodes.update({node.node_id: node for node in members})
        present = {node.node_id for node in members}
        self.away = {node: "it is not in the topology" for node in self.nodes if node not in present}

    def _members(self) -> list[Node]:
        entries = [self._entry] if self._entry is not None else []
        for broker in (*entries, *self._brokers.values()):
            if broker.alive:
                return broker.members()
        if self._entry is not None:
            self._entry.close()
            self._entry = None
        try:
            self._entry = connect(self._options)
        except BrokerUnreachableError:
            # What the URL names is away; others may still be there.
            for node_id in sorted(self.nodes):
                try:
                    return self.broker(node_id).members()
                except BrokerUnreachableError:
                    continue
            raise
        return self._entry.members()

    def broker(self, node_id: str, *, patient: bool | None = None) -> Reading:
        """The connection to a node; to one without readers with what takes their place.

        ``patient``: wait for the node as long as a running query may, which is what a query does for its only node.  Raises
        BrokerUnreachableError, BadOptionError.
        """
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
            found = self._brokers[node_id] = self._reading(broker)
        return found

    def _reading(self, broker: Broker) -> Reading:
        try:
            return broker if broker.has_readers else PlainBroker(broker, self._options)
        except BaseException:
            broker.close()
            raise

    def each(self, do: Callable[[str, Reading], None]) -> None:
        """Call ``do(node id, broker)`` for every node that is there; one that cannot be reached is noted in ``away``.

        When none can, a query that runs tries them in turn for ``reconnectTimeout``: ``do`` may see a node twice then.  Raises
        BrokerUnreachableError.
        """
        rounds = self._rounds()
        error = self._each(do)
        for _ in range(rounds):
            if error is None:
                break
            log.warning("no node can be reached, trying again: %s", error)
            self.away.clear()
            error = self._each(do)
        if error is not None:
            raise error

    def _rounds(self) -> int:
        """How often all nodes are tried again; a single one is waited for in one go."""
        if not self._seen or len(self.nodes) < 2:
            return 0
        return self._options.reconnect_timeout // (self._options.connect_timeout * len(self.nodes))

    def _each(self, do: Callable[[str, Reading], None]) -> BrokerUnreachableError | None:
        """The first failure when all have failed."""
        first: BrokerUnreachableError | None = None
        reached = False
        for node_id in sorted(self.nodes):
            if node_id in self.away:
                continue
            try:
                do(node_id, self.broker(node_id))
                reached = True
            except BrokerUnreachableError as error:
                self.lost(node_id, error)
                first = first or error
        return None if reached else first

    def queues(self, node_id: str, broker: Reading) -> tuple[str, ...]:
        """The queues of the query that this node has; that of a subscription is created."""
        known = self._queues.get(node_id)
        if known is not None and len(known) == self.wanted:
            return known
        options = self._options
        if options.topic is not None:
            assert options.subscription is not None
            found: tuple[str, ...] = (broker.subscribe_topic(options.topic, options.subscription, options.selector),)
        else:
            found = tuple(queue for queue in options.queues if broker.queue_query(queue).exists)
        self._queues[node_id] = found
        return found

    @property
    def wanted(self) -> int:
        return 1 if self._options.topic is not None else len(self._options.queues)

    def check_queues(self) -> None:
        """Raise MissingQueueError for a queue that no node has; all nodes must have been asked by :meth:`queues`."""
        if self._options.topic is not None:
            return
        everywhere = {queue for queues in self._queues.values() for queue in queues}
        for queue in self._options.queues:
            if queue not in everywhere:
                places = ", ".join(sorted(self._queues))
                raise MissingQueueError(f"there is no queue {queue} on any node ({places}): create it, or correct the option queue")

    def lost(self, node_id: str, error: BrokerUnreachableError) -> None:
        """A node does not answer any more: it is away until :meth:`look` finds it again."""
        self.forget(node_id)
        self.away[node_id] = str(error)

    def forget(self, node_id: str) -> None:
        """Close the connection to a node."""
        broker = self._brokers.pop(node_id, None)
        if broker is not None:
            broker.close()

    def close(self) -> None:
        for node_id in list(self._brokers):
            self.forget(node_id)
        if self._entry is not None:
            self._entry.close()
            self._entry = None
