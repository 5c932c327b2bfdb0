"""A queue whose consumers here also get what other members keep in their queues of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from typing import Protocol

from mqbroker.imq.delivery.contents import Contents
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer
from mqbroker.imq.delivery.takers import Takers
from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.ports import Cancellable, Store
from mqbroker.messaging.queues.consumer import QueueConsumer, WhenAnswered
from mqbroker.messaging.queues.definitions import MULTICAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference, RemoteReference
from mqbroker.server.session.consumers import ServerConsumer
from mqbroker.server.session.link_consumers import LinkConsumer

HELD_SECONDS = 1.0
"""How long messages wait here for consumers that take none; then they go back to their homes, for others."""


class ConsumerMaker(Protocol):
    """Opens and closes consumers at the linked members."""

    def linked_homes(self) -> Iterator[str]:
        """The node ids of the linked members."""

    def contents(self, home: str) -> Contents:
        """The contents that have crossed the link, and to which the home may refer."""

    def missing(self, remote: RemoteConsumer, home_id: int) -> None:
        """The home has referred to a message that is not here."""

    def open_consumer(self, remote: RemoteConsumer) -> None:
        """Open the consumer at its home; tried again until that has the queue."""

    def close_consumer(self, remote: RemoteConsumer) -> None: ...


class _Filtered:
    """The consumers here with one filter, and their remote consumers by the node id of the home."""

    def __init__(self) -> None:
        self.takers = Takers()
        self.remotes: dict[str, RemoteConsumer] = {}

    def first(self) -> tuple[RemoteConsumer, RemoteReference] | None:
        """The message that is next in turn, of all homes; None without one."""
        best: tuple[RemoteConsumer, RemoteReference] | None = None
        for remote in self.remotes.values():
            reference = next(iter(remote.waiting), None)
            if reference is not None and (best is None or _before(reference, best[1])):
                best = remote, reference
        return best

    def in_turn(self) -> Iterator[tuple[RemoteConsumer, RemoteReference]]:
        """The messages of all homes that wait now, in turn; those of each home are in order already."""
        waiting = [[(*_turn(reference), remote, reference) for reference in remote.waiting] for remote in self.remotes.values()]
        return ((remote, reference) for _, _, remote, reference in merge(*waiting))


class _Rest:
    """Delivers the messages of other members that come behind the queue's own ones."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        self.marked = False
        self._deliver = deliver

    def deliver(self) -> None:
        self._deliver()


class RemoteQueue:
    """Gives messages of other members to the consumers of ``queue``, in turn with its own.

    ``limit()`` is how many messages may be under way to one remote consumer.
    """

    def __init__(self, queue: Queue, store: Store, maker: ConsumerMaker, limit: Callable[[], int]) -> None:
        self.queue = queue
        self.marked = False
        self._store = store
        self._maker = maker
        self._limit = limit
        self._filtered: dict[str | None, _Filtered] = {}
        self._rest = _Rest(self._deliver_rest)
        self._own_next: Reference | None = None
        """The next of the queue's own messages when the queue began to deliver."""
        self._passed_over = False
        """Have messages of other members waited while the queue delivered its own?"""
        self._timer: Cancellable | None = None

    # --- its consumers

    def refresh(self) -> None:
        """Consumers here have come or gone."""
        present: dict[str | None, list[QueueConsumer]] = {}
        for consumer in self.queue.consumers():
            if isinstance(consumer, ServerConsumer) and not isinstance(consumer, LinkConsumer):
                text = None if consumer.filter is None else consumer.filter.text
                present.setdefault(text, []).append(consumer)
        for text, consumers in present.items():
            filtered = self._filtered.setdefault(text, _Filtered())
            filtered.takers.set(consumers)
            for remote in filtered.remotes.values():
                if remote.retiring:
                    remote.revive()
            for home in self._maker.linked_homes():
                self._open(filtered, home, text)
        for text, filtered in list(self._filtered.items()):
            if text not in present:
                filtered.takers.set(())
                for remote in list(filtered.remotes.values()):
                    if not remote.retiring:
                        remote.retire()
                if not filtered.remotes:
                    self._filtered.pop(text, None)

    @property
    def unused(self) -> bool:
        """Have all consumers gone, with nothing left of their messages?"""
        return not self._filtered

    def linked(self, home: str) -> None:
        """The link to a member is up."""
        for text, filtered in self._filtered.items():
            if filtered.takers.consumers:
                self._open(filtered, home, text)

    def unlinked(self, home: str) -> None:
        """The link to a member is lost."""
        for text, filtered in list(self._filtered.items()):
            remote = filtered.remotes.pop(home, None)
            if remote is not None:
                remote.lose()
            self._drop_if_empty(text, filtered)

    def remotes(self) -> Iterator[RemoteConsumer]:
        """All remote consumers of the queue."""
        for filtered in self._filtered.values():
            yield from filtered.remotes.values()

    def awaited(self, consumer: QueueConsumer) -> WhenAnswered | None:
        for filtered in self._filtered.values():
            if consumer in filtered.takers.consumers and self._takes(filtered):
                return next((remote.when_answered for remote in filtered.remotes.values() if not remote.answered), None)
        return None

    def end(self) -> None:
        """The queue is deleted."""
        self.queue.look_elsewhere(None)
        self._stop_timer()
        for filtered in list(self._filtered.values()):
            filtered.takers.set(())
            for remote in list(filtered.remotes.values()):
                remote.retire()
                remote.give_back(list(remote.unsettled.values()), counted=False)
                if not remote.lost:
                    self._maker.close_consumer(remote)
                    remote.leave()
        self._filtered.clear()

    def _open(self, filtered: _Filtered, home: str, text: str | None) -> None:
        if home not in filtered.remotes:
            contents = self._maker.contents(home) if self.queue.definition.routing_type == MULTICAST else None
            remote = filtered.remotes[home] = RemoteConsumer(self, home, text, contents)
            self._maker.open_consumer(remote)

    def _drop_if_empty(self, text: str | None, filtered: _Filtered) -> None:
        if not filtered.remotes and not filtered.takers.consumers:
            self._filtered.pop(text, None)

    # --- for its remote consumers (a RemoteOwner)

    @property
    def flow_limit(self) -> int:
        own = self.queue.address.settings.consumer_flow_limit
        limit = self._limit()
        return max(limit if own is None else min(own, limit), 1)

    def next_id(self) -> int:
        return self._store.next_id()

    def create_body(self, body_id: int) -> LargeBody:
        return self._store.create_large_body(body_id)

    def arrived(self, remote: RemoteConsumer) -> None:
        self.queue.turn.mark_queue(self.queue)

    def missing(self, remote: RemoteConsumer, home_id: int) -> None:
        self._maker.missing(remote, home_id)

    def closing(self, remote: RemoteConsumer) -> None:
        self._forget(remote)
        self._maker.close_consumer(remote)
        remote.leave()

    def ended(self, remote: RemoteConsumer) -> None:
        filtered = self._forget(remote)
        self._maker.close_consumer(remote)
        remote.leave()
        if filtered is not None and filtered.takers.consumers:
            self._open(filtered, remote.home, remote.filter_string)

    def _forget(self, remote: RemoteConsumer) -> _Filtered | None:
        filtered = self._filtered.get(remote.filter_string)
        if filtered is None or filtered.remotes.get(remote.home) is not remote:
            return None
        del filtered.remotes[remote.home]
        self._drop_if_empty(remote.filter_string, filtered)
        return filtered

    # --- delivery

    def deliver(self) -> None:
        """Called before the queue delivers: give what has arrived before the next of its own messages, and the rest behind these.

        A backlog of its own may last longer than messages wait here, so of those that have waited meanwhile some come first.
        """
        if self._passed_over:
            self._give_passed_over()
        self._give(behind_own=False)
        if self._waiting:
            self._own_next = self.queue.references.head()
            self.queue.turn.mark_queue(self._rest)
        else:
            self._ask()

    def _deliver_rest(self) -> None:
        self._give(behind_own=True)
        if self._waiting and self._own_next is not self.queue.references.head():
            self._passed_over = True
        self._own_next = None
        self._ask()

    @property
    def _waiting(self) -> bool:
        return any(remote.waiting for remote in self.remotes())

    def _give_passed_over(self) -> None:
        own = self.queue.references.head()
        for filtered in self._filtered.values():
            for _ in range(len(filtered.remotes)):
                found = filtered.first() if self._takes(filtered) else None
                if found is None or (own is not None and own.priority > found[1].priority) or not self._hand_over(filtered, *found):
                    break
                self._passed_over = False

    def _give(self, *, behind_own: bool) -> None:
        queue = self.queue
        for filtered in self._filtered.values():
            if not self._takes(filtered):
                continue
            while (found := filtered.first()) is not None:
                own = None if behind_own else queue.references.head()
                if own is not None and _before(own, found[1]):
                    break
                if not self._hand_over(filtered, *found):
                    self._pass_over(filtered)
                    break

    def _pass_over(self, filtered: _Filtered) -> None:
        """The first message belongs to a group whose consumer is busy: give later ones, looking at each once."""
        if self.queue.definition.exclusive:
            return
        for remote, reference in filtered.in_turn():
            if not filtered.takers.ready:
                return
            self._hand_over(filtered, remote, reference)

    def _hand_over(self, filtered: _Filtered, remote: RemoteConsumer, reference: RemoteReference) -> bool:
        """Give the message to a consumer, if one may have it now."""
        consumer = filtered.takers.choose(reference.message, self.queue.definition.exclusive)
        if consumer is None:
            return False
        remote.waiting.remove(reference)
        if self._expired(reference):
            remote.expired(reference)
        else:
            reference.consumer = consumer
            consumer.handle(reference)
        return True

    def _takes(self, filtered: _Filtered) -> bool:
        """Can a consumer here take a message now?"""
        queue = self.queue
        return queue.dispatch_allowed and not (queue.deleted or queue.paused or queue.address.paused) and filtered.takers.ready

    def _expired(self, reference: Reference) -> bool:
        expiration = reference.message.expiration
        return 0 < expiration <= self.queue.clock.wall_ms()

    def _ask(self) -> None:
        """Ask homes for what consumers here can take; watch what they do not take."""
        held = False
        for filtered in self._filtered.values():
            if self._takes(filtered):
                for remote in filtered.remotes.values():
                    remote.ask(not remote.waiting)
            elif any(remote.waiting for remote in filtered.remotes.values()):
                held = True
        if held and self._timer is None:
            self._timer = self.queue.clock.call_later(HELD_SECONDS, self.queue.turn.run, self._hand_back)
        elif not held:
            self._stop_timer()

    def _hand_back(self) -> None:
        self._timer = None
        for filtered in self._filtered.values():
            if not self._takes(filtered):
                for remote in list(filtered.remotes.values()):
                    remote.hand_back_waiting()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _before(first: Reference, second: Reference) -> bool:
    """Is ``first`` in turn before ``second``?  Ids of this broker ascend as messages come, wherever they come from."""
    return _turn(first) < _turn(second)


def _turn(reference: Reference) -> tuple[int, int]:
    """Sorts messages by their turn; each has another one."""
    return -reference.priority, reference.message.message_id
