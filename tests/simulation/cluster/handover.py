"""What is known of a scale-down: which copies a node has sent to its target, and whether they are all there when it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from mqbroker.cluster.links.forwarder import Forwarder
from mqbroker.cluster.links.outgoing import link_id, node_id_bytes
from mqbroker.ha.duplicate_ids import LINK_ID_SIZE
from mqbroker.ha.messages import Encode
from mqbroker.messaging.core import BRIDGE_CACHE
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.filestore import FileStore
from tests.simulation.copies import INTERNAL, copy_in, load_copy, stored_messages
from tests.simulation.model import Copy
from tests.simulation.workload import IDENTITY

if TYPE_CHECKING:
    from tests.simulation.cluster.node import ClusterNode


class Handover:
    """One stop of a node, from the moment at which it sends messages to its target until its next start.

    ``sent`` are the copies that may be at the target, too.  ``ended``: the stop was over in order, with nothing left.
    """

    def __init__(self, node: ClusterNode, on_complete: Callable[[], object]) -> None:
        self.node = node
        self.sent: set[Copy] = set()
        self._sent_by_link: set[Copy] = set()
        """Those of the queue of the link to the target, which go under the ids of that link."""
        self.complete = self.ended = False
        self._on_complete = on_complete
        self._scale_down = _scale_down_of(node)
        self._encoder, self._tell_end = self._scale_down._encoder, self._scale_down._tell_end
        self._scale_down._encoder, self._scale_down._tell_end = self._recording, self._told
        self.target_id: str = self._scale_down.target.node_id
        for branch in node.messaging.branches.prepared():
            work = branch.transaction
            held = [*work.acknowledged, *(reference for _, references in work.sends for reference in references)]
            self.sent.update(copy_in(reference.message, reference.queue.name) for reference in held)
        for identity, has_got in self._in_doubt():
            node.cluster_ledger.in_doubt[identity].append(has_got)
        note_unanswered(node)

    def _in_doubt(self) -> Iterator[tuple[str, Callable[[], bool]]]:
        """Messages by identity that wait for a third node, and whether that has them already, although it could not say so.

        The target sends them on under ids of its own: the third node takes them for others.
        """
        server = self.node.server
        for name, queue in self.node.messaging.core.queues.items():
            if not name.startswith(INTERNAL) or name.endswith(self.target_id):
                continue
            begin = link_id(server.node_id, name, server.configuration.cluster_connections)
            for reference in queue.references:
                third = [each for each in self.node.peers if name.endswith(each.node_id)]
                duplicate_id = begin + reference.message.message_id.to_bytes(8, "big")
                yield str(reference.message.property(IDENTITY)), partial(_has_got, third, duplicate_id)

    async def _recording(self, target: Any, queue: Queue, acknowledged: bool = False) -> Encode:
        encode: Encode = await self._encoder(target, queue, acknowledged)

        def recorded(reference: Reference) -> Any:
            copy = copy_in(reference.message, queue.name)
            self.sent.add(copy)
            if queue.name.startswith(INTERNAL) and queue.name.endswith(self.target_id):
                self._sent_by_link.add(copy)
            return encode(reference)

        return recorded

    def _told(self, seconds: float) -> None:
        node, scale_down = self.node, self._scale_down
        note_unanswered(self.node)
        self.complete = scale_down.complete and not scale_down._waiting() and not node.messaging.branches.prepared()
        node.world.note(f"{node.name} has {'' if self.complete else 'not '}given everything away")
        if self.complete:
            node.handovers += 1
            self._check_ids(node.messaging)
            self._on_complete()
        self._tell_end(seconds)

    def _check_ids(self, messaging: Messaging) -> None:
        """The target must know every duplicate id, but for those that the links of members have brought."""
        target = next((each for each in self.node.peers if each.node_id == self.target_id), None)
        if target is None or not target.serves:
            return
        members = {node_id_bytes(each.node_id) for each in self.node.peers if each.node_id}
        there = {cache.name: cache for cache in target.messaging.core.duplicate_id_caches()}
        for cache in messaging.core.duplicate_id_caches():
            of_links = cache.name.startswith(BRIDGE_CACHE)
            wanted = [each for each in cache.ids() if not (of_links and len(each) == LINK_ID_SIZE and each[:16] in members)]
            missing = [each for each in wanted if cache.name not in there or each not in there[cache.name]]
            if missing:
                self.node.world.violation(f"{target.name} does not know {len(missing)} duplicate ids of {cache.name} of {self.node.name}")

    def found_again(self) -> set[Copy]:
        """The copies that this node has again in its next start, and that the target may have, too."""
        disk = self.node.disk.copy(self.node.generator("looking again"))
        disk.end_process()
        try:
            again = self.sent & set(_copies(*load_copy(self.node, disk, self.node.generator("looking again"))))
        except (StorageError, OSError):
            again = self.sent
        # Under the ids of the own link the target knows what it has.
        return again - self._sent_by_link


def note_unanswered(node: ClusterNode) -> None:
    """Note messages that links have brought to a node that leaves, and that still wait at their senders: these send them to the target."""
    here = {each for cache in node.messaging.core.duplicate_id_caches() for each in cache.ids()}
    for sender in node.peers:
        if sender is node or not sender.serves:
            continue
        for name, queue in sender.messaging.core.queues.items():
            if name.startswith(INTERNAL) and name.endswith(node.node_id):
                begin = link_id(sender.node_id, name, sender.server.configuration.cluster_connections)
                links = [each for each in queue.consumers() if isinstance(each, Forwarder)]
                for reference in (*queue.references, *queue.scheduled, *(sent for link in links for sent in link._in_flight.values())):
                    if begin + reference.message.message_id.to_bytes(8, "big") in here:
                        node.cluster_ledger.brought_unanswered.add(str(reference.message.property(IDENTITY)))


def _has_got(nodes: Sequence[ClusterNode], duplicate_id: bytes) -> bool:
    """Has one of the nodes a message under this id from another broker?"""
    caches = [cache for node in nodes if node.serves for cache in node.messaging.core.duplicate_id_caches()]
    return not all(node.serves for node in nodes) or any(duplicate_id in cache for cache in caches)


def _copies(store: FileStore, recovered: Recovered) -> Iterator[Copy]:
    names = {queue.queue_id: queue.name for queue in recovered.queues}
    for message, queue_id, _, _ in stored_messages(store, recovered):
        if queue_id in names:
            yield copy_in(message, names[queue_id])
    for branch in recovered.branches:
        for message, references in branch.messages:
            for reference in references:
                yield copy_in(message, names[reference.queue_id])


def watch(node: ClusterNode, on_begin: Callable[[str], object], on_complete: Callable[[], object]) -> None:
    """Have the present life of a node tell of its scale-down; ``on_begin`` gets the node id of the target."""
    scale_down = _scale_down_of(node)
    if scale_down is None:
        return
    run = scale_down.run

    def watched() -> Deferred[None]:
        node.handover = Handover(node, on_complete)
        on_begin(scale_down.target.node_id)
        done: Deferred[None] = run()
        return done

    scale_down.run = watched


def _scale_down_of(node: ClusterNode) -> Any:
    return None if node.clustering is None else node.clustering.scale_down
