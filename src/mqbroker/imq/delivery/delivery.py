"""Delivery in a home cluster: the queues whose consumers here also get what other members keep, and its settlement (decision 39)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.imq.delivery.contents import Contents
from mqbroker.imq.delivery.coordination import Coordination
from mqbroker.imq.delivery.decisions import NothingTaken, TakenOver
from mqbroker.imq.delivery.home import Home, QueueLives, Runner
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer, by_consumer
from mqbroker.imq.delivery.remote_queue import RemoteQueue
from mqbroker.messaging.queues.references import Reference, RemoteReference
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.session.consumers import ServerConsumer
from mqbroker.server.session.link_consumers import LinkConsumer
from mqclient.errors import IllegalStateError, MQError

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.imq.links.home_links import HomeLinks, LinkedMember
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.ports import Cancellable, StoreBatch
    from mqbroker.messaging.queues.definitions import QueueDefinition
    from mqbroker.messaging.queues.elsewhere import Confirmation, Work
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.context import OperationContext
    from mqclient.wire.primitives import Xid


class _Confirming:
    """A :class:`~mqbroker.messaging.queues.elsewhere.Confirmation`; ``release`` is called with the last answer."""

    def __init__(self, release: Callable[[], None], count: int) -> None:
        self.failure: MQError | None = None
        self._release = release
        self._unanswered = count

    def answered(self, failure: MQError | None) -> None:
        """A home has stored what it was told, or cannot say so."""
        self.failure = self.failure or failure
        self._unanswered -= 1
        if not self._unanswered:
            self._release()


class Delivery:
    """Implements :class:`~mqbroker.messaging.queues.elsewhere.Elsewhere`.

    ``links`` tells of the members.  ``node_id`` is this broker's; ``lives`` knows what members have heard of, and ``taken`` what was taken
    over by whom, None where nothing is.
    """

    def __init__(
        self,
        messaging: Messaging,
        links: HomeLinks,
        node_id: str,
        runner: Runner,
        settings: HomeCluster,
        lives: QueueLives,
        taken: TakenOver | None = None,
    ) -> None:
        core = messaging.core
        self.homes: dict[str, Home] = {}
        """By node id: the linked members in whose sessions consumers can be opened."""
        self._core = core
        self._node_id = node_id
        self._runner = runner
        self._settings = settings
        self._lives = lives
        self._opening: dict[str, Home] = {}
        self._queues: dict[Queue, RemoteQueue] = {}
        self._timer: Cancellable | None = None
        self.coordination = Coordination(
            core, messaging.branches, node_id_bytes(node_id), self.homes, runner, taken or NothingTaken(node_id)
        )
        core.look_elsewhere(self)
        core.queue_deleted.subscribe(self._queue_deleted)
        links.linked.subscribe(self._linked)
        links.unlinked.subscribe(self._unlinked)
        for queue in core.queues.values():
            self.consumers_changed(queue)  # clients may have come before

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- figures

    def remote_consumers(self, home: str | None = None) -> Iterator[RemoteConsumer]:
        """The consumers that this broker has at other members, or at one."""
        for queue in self._queues.values():
            for remote in queue.remotes():
                if home is None or remote.home == home:
                    yield remote

    def held(self, queue: Queue) -> int:
        """The messages of other members that are here for consumers of ``queue``, waiting or not settled yet."""
        remote_queue = self._queues.get(queue)
        if remote_queue is None:
            return 0
        return sum(len(remote.unsettled) for remote in remote_queue.remotes())

    # --- links

    def _linked(self, member: LinkedMember) -> None:
        core = self._core
        home = Home(member, self._node_id, self._runner, core.clock, core.turn, self._ready, _is_made_by_consumers, self._lives)
        self._opening[member.node_id] = home
        home.open()

    def _ready(self, home: Home) -> None:
        if self._opening.get(home.node_id) is not home:
            return
        del self._opening[home.node_id]
        self.homes[home.node_id] = home
        # Everywhere: a member that is back cannot go on any more with what it did before it was taken over.
        self.coordination.decisions.look_everywhere()
        self._ask_again_later()
        for queue in self._queues.values():
            queue.linked(home.node_id)

    def _unlinked(self, member: LinkedMember) -> None:
        for homes in (self._opening, self.homes):
            home = homes.get(member.node_id)
            if home is not None and home.member is member:
                del homes[member.node_id]
                home.lose()
        for remote_queue in list(self._queues.values()):
            remote_queue.unlinked(member.node_id)
            self._drop_if_unused(remote_queue)

    def _ask_again_later(self) -> None:
        if self._timer is None:
            seconds = self._settings.pending_transaction_check_s
            self._timer = self._core.clock.call_later(seconds, self._core.turn.run, self._ask_again)

    def _ask_again(self) -> None:
        self._timer = None
        self.coordination.decisions.look_everywhere()
        if self.homes:
            self._ask_again_later()

    # --- queues

    def consumers_changed(self, queue: Queue) -> None:
        remote_queue = self._queues.get(queue)
        if remote_queue is None:
            definition = queue.definition
            local = any(_is_local(consumer) for consumer in queue.consumers())
            if not local or definition.non_destructive or definition.internal or queue.has_readers or queue.deleted:
                return
            remote_queue = self._queues[queue] = RemoteQueue(queue, self._core.store, self, lambda: self._settings.consumer_flow_limit)
            queue.look_elsewhere(remote_queue)
        remote_queue.refresh()
        self._drop_if_unused(remote_queue)

    def _drop_if_unused(self, remote_queue: RemoteQueue) -> None:
        if remote_queue.unused:
            self._queues.pop(remote_queue.queue, None)
            remote_queue.end()

    def _queue_deleted(self, queue: Queue) -> None:
        remote_queue = self._queues.pop(queue, None)
        if remote_queue is not None:
            remote_queue.end()
        if queue.definition.temporary:
            for home in self.homes.values():
                home.queue_deleted(queue.name)

    # --- for these queues (a ConsumerMaker)

    def linked_homes(self) -> Iterator[str]:
        yield from self.homes

    def contents(self, home: str) -> Contents:
        return self.homes[home].contents

    def missing(self, remote: RemoteConsumer, home_id: int) -> None:
        home = self.homes.get(remote.home)
        if home is not None:
            queue = remote.owner.queue.name
            home.member.fail(IllegalStateError(f"message {home_id} of queue {queue} should have come over this link before, and has not"))

    def open_consumer(self, remote: RemoteConsumer) -> None:
        home = self.homes.get(remote.home)
        if home is not None:
            home.open_consumer(remote)

    def close_consumer(self, remote: RemoteConsumer) -> None:
        home = self.homes.get(remote.home)
        if home is not None:
            home.close_consumer(remote)

    # --- settling

    def acknowledge(self, references: Sequence[Reference]) -> Sequence[Reference]:
        remote, others = _split(references)
        for consumer, mine in by_consumer(remote).items():
            consumer.acknowledge(mine)
        return others

    def confirm(self, references: Sequence[Reference], context: OperationContext) -> tuple[Sequence[Reference], Confirmation | None]:
        remote, others = _split(references)
        if not remote:
            return references, None
        untold: dict[str, RemoteConsumer | None] = {}
        """By home: a remote consumer that cannot tell it any more."""
        for consumer, mine in by_consumer(remote).items():
            told = consumer.acknowledge(mine)
            untold[consumer.home] = untold.get(consumer.home) or (None if told else consumer)
        confirming = _Confirming(context.hold(), len(untold))
        for node_id, silent in untold.items():
            home = self.homes.get(node_id)
            if silent is None and home is not None:
                home.when_stored(confirming.answered)
            else:
                confirming.answered(_not_stored(references[0]))
        return others, confirming

    def give_back(self, references: Sequence[Reference], *, counted: bool) -> Sequence[Reference]:
        remote, others = _split(references)
        for consumer, mine in by_consumer(remote).items():
            if counted:
                consumer.begin_again(mine)
            else:
                consumer.put_back(mine)
        return others

    def expire(self, reference: Reference) -> bool:
        if not isinstance(reference, RemoteReference):
            return False
        for consumer in by_consumer((reference,)):
            consumer.expired(reference)
        return True

    # --- transactions

    def prepare(self, work: Work, xid: Xid | None) -> None:
        when_answered = self.coordination.prepare(work, xid)
        if when_answered is not None:
            raise Undecided(when_answered)

    def remember(self, work: Work, batch: StoreBatch) -> None:
        self.coordination.remember(work, batch)

    def decide(self, work: Work, batch: StoreBatch) -> bool:
        return self.coordination.decide(work, batch)

    def undo(self, work: Work, batch: StoreBatch) -> None:
        self.coordination.undo(work, batch)

    def committed(self, work: Work) -> None:
        self.coordination.committed(work)

    def rolled_back(self, work: Work) -> None:
        self.coordination.rolled_back(work)


def _split(references: Sequence[Reference]) -> tuple[list[RemoteReference], Sequence[Reference]]:
    """The references to messages that other members keep, and the other ones."""
    remote = [reference for reference in references if isinstance(reference, RemoteReference)]
    if not remote:
        return remote, references
    return remote, [reference for reference in references if not isinstance(reference, RemoteReference)]


def _is_local(consumer: Any) -> bool:
    """Is it one of a client?  Other brokers consume for their clients, and answers to their requests."""
    if not isinstance(consumer, ServerConsumer) or isinstance(consumer, LinkConsumer):
        return False
    return not consumer.session.connection.cluster_authorized


def _is_made_by_consumers(definition: QueueDefinition) -> bool:
    """Is the queue, where it is missing, made by those who consume from it?  Others come with the change record."""
    return definition.auto_created or definition.temporary or definition.transient


def _not_stored(reference: Reference) -> MQError:
    return IllegalStateError(
        f"the home of a message of queue {reference.queue.name} has not confirmed the acknowledgement: the link to it was lost, "
        "and the message is delivered again"
    )
