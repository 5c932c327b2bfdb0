"""A remote consumer: the consumer that this broker has at a home, for its own consumers of one queue with one filter."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from mqbroker.imq.delivery.contents import Contents
from mqbroker.imq.delivery.waiting import Waiting
from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import RemoteReference
from mqclient.wire.message import KEY_FORCED_DELIVERY, body_end

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue
    from mqclient.core.consuming.encoded import EncodedConsumer
    from mqclient.wire.packets import SessionReceiveLarge

FIRST_WINDOW = 8
"""Messages that are asked for at first; the window grows as they are taken, up to the limit of the flow."""


WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of messages, without large bodies, that are under way to one remote consumer or wait here for it, as far as their sizes so far
allow to say; one message may always come."""


_FORCED_KEY = KEY_FORCED_DELIVERY.encode("utf-16-le")


class RemoteOwner(Protocol):
    """The queue here, as its remote consumers see it."""

    queue: Queue

    @property
    def flow_limit(self) -> int:
        """Messages at most that are under way to one remote consumer."""

    def next_id(self) -> int:
        """An id of this broker for a message."""

    def create_body(self, body_id: int) -> LargeBody: ...

    def arrived(self, remote: RemoteConsumer) -> None:
        """A message waits."""

    def missing(self, remote: RemoteConsumer, home_id: int) -> None:
        """The home has referred to a message that is not here."""

    def closing(self, remote: RemoteConsumer) -> None:
        """The consumer is not needed any more, and nothing is in delivery from it."""

    def ended(self, remote: RemoteConsumer) -> None:
        """The home has ended the consumer."""


class RemoteConsumer:
    """Asks its home for messages as the consumers here take them, and tells it how each was settled.

    ``window`` is how many messages may be under way or wait here; it is doubled when consumers have taken all of them and could take more,
    and begins anew after they have let some wait too long, or have consumed some in vain.  ``home`` is the node id of the home;
    ``filter_string`` None: all messages.
    ``contents`` are those that the home may refer to, None where it refers to none.
    """

    def __init__(self, owner: RemoteOwner, home: str, filter_string: str | None, contents: Contents | None) -> None:
        self.owner = owner
        self.home = home
        self.filter_string = filter_string
        self.waiting = Waiting()
        self.unsettled: OrderedDict[int, RemoteReference] = OrderedDict()
        """The messages in delivery to this consumer at the home, by the ids that they have here, in the order of arrival."""
        self.window = FIRST_WINDOW
        self.lost = False
        """The home has taken back what was in delivery, or does so when it closes the consumer."""
        self.answered = False
        """The home has said whether it has a message: a client that does not wait for one is told so only then."""
        self.retiring = False
        """The last consumer here has gone: messages that arrive go back."""
        self.received = 0
        self.settled = 0
        self.returned = 0
        self._contents = contents
        self._consumer: EncodedConsumer | None = None
        self._markers = 0
        """How often the home was asked to say that it has sent what it could, and has not done so yet."""
        self._recalling = False
        """Messages that arrive go back, until the home has said that none is under way any more."""
        self._hearers: list[Callable[[], object]] = []
        self._behind = 0
        """Messages up to this id are behind others that have gone back: they go back, too, when a consumer here has not used them."""
        self._outstanding = 0
        """Messages that were asked for and have not come."""
        self._mean_size = 0
        """Bytes of a message, as the last ones were."""
        self._large: tuple[Message, LargeBody, int] | None = None
        self._leaving = False
        """The home has been told to close the consumer."""
        self._strays: list[int] = []
        """The ids at the home of messages that have come since then."""

    # --- its life

    def opened(self, consumer: EncodedConsumer) -> None:
        """The home has the consumer."""
        self._consumer = consumer

    def retire(self) -> None:
        """The consumers here have gone: what waits goes back, and the rest when it is settled."""
        self.retiring = True
        self._stop_asking()
        self.give_back(self.waiting.clear(), counted=False)
        if self._consumer is None and not self.lost:
            self.owner.closing(self)  # not open yet: the home may never have the queue
        else:
            self._close_if_done()

    def revive(self) -> None:
        """Consumers have come again."""
        self.retiring = False
        self.window = FIRST_WINDOW

    def lose(self) -> None:
        """The link is gone: messages that no consumer has are forgotten, and settling the others has no effect any more."""
        self._drop_large()
        self._end()

    def leave(self) -> None:
        """The home closes the consumer.  Messages that still come are for nobody, but the home may refer to them until :meth:`closed`."""
        self._leaving = True
        self._end()

    def closed(self) -> None:
        """Nothing comes any more."""
        self._leaving = False
        self._drop_large()
        strays, self._strays = self._strays, []
        for home_id in strays:
            assert self._contents is not None
            self._contents.settled(home_id)

    def _drop_large(self) -> None:
        if self._large is not None:
            self._large[1].release()
            self._large = None

    def _end(self) -> None:
        self.lost = True
        self._consumer = None
        self.waiting.clear()
        unsettled, self.unsettled = self.unsettled, OrderedDict()
        for reference in unsettled.values():
            _release(reference)
            if self._contents is not None:
                self._contents.settled(reference.home_id)
        self.answer()

    def disconnected(self) -> None:
        """The home has ended the consumer; it may have deleted the queue.  It keeps what it has of a consumer until that is closed."""
        self.owner.ended(self)

    @property
    def encoded(self) -> EncodedConsumer | None:
        """The consumer at the home; None before it is open, and after the loss."""
        return self._consumer

    # --- asking

    def when_answered(self, function: Callable[[], object]) -> None:
        """Call ``function`` at the first answer of the home, or when there will be none."""
        self._hearers.append(function)

    def answer(self) -> None:
        """The home has given what it had for the first credits, or gives nothing for now."""
        self.answered = True
        hearers, self._hearers = self._hearers, []
        for function in hearers:
            function()

    def ask(self, more_wanted: bool) -> None:
        """Ask for messages as far as the window allows.  ``more_wanted``: a consumer here is ready, and has got all that waited."""
        if self._consumer is None or self.retiring or self._recalling:
            return
        waiting = len(self.waiting)
        if more_wanted and not self._outstanding and not waiting and self.received:
            self.window = min(2 * self.window, self.owner.flow_limit)
        window = min(self.window, self.owner.flow_limit, max(WINDOW_BYTES_MAX // max(self._mean_size, 1), 1))
        room = window - self._outstanding - waiting
        if room > 0 and 2 * self._outstanding <= window:
            self._outstanding += room
            self._consumer.grant(room)
            if not self.answered and not self._markers:
                self._force()

    def hand_back_waiting(self) -> None:
        """Nobody here takes what waits: give it to others, and ask for little next time."""
        self.window = 1
        self._stop_asking()
        self.give_back(self.waiting.clear(), counted=False)

    def begin_again(self, references: Sequence[RemoteReference] = ()) -> None:
        """Messages were consumed in vain: they come again, before those that were behind them, so these go back, too.

        ``references`` go back now, the others are in a branch that the home rolls back after this.
        """
        self.window = min(self.window, FIRST_WINDOW)
        self._stop_asking()
        self.give_back(references, counted=True)
        self.give_back(self.waiting.clear(), counted=False)
        self._behind = next(reversed(self.unsettled), self._behind)

    def _stop_asking(self) -> None:
        """Messages under way arrive behind those that go back now: they go back, too, or consumers would get them before those."""
        if self._consumer is not None and self._outstanding:
            self._consumer.grant(0)
            self._recalling = True
            self._force()
        self._outstanding = 0

    def _force(self) -> None:
        assert self._consumer is not None
        self._markers += 1
        self._consumer.force()

    def _marked(self) -> None:
        """The home has sent everything that it could send before it was asked to say so."""
        self._markers -= 1
        if self._recalling and not self._markers:
            self._recalling = False
            self.owner.arrived(self)
        self.answer()

    # --- what comes (a Recipient)

    def message_received(self, message: bytes, delivery_count: int, frame_size: int) -> None:
        if self.lost and not self._leaving:
            return
        found = Message.read(message, body_end(message))
        if not delivery_count and found.raw_property(_FORCED_KEY) is not None:
            if not self.lost:
                self._marked()
        else:
            self._arrive(found, delivery_count)

    def held_received(self, message_id: int, delivery_count: int) -> None:
        if self.lost and not self._leaving:
            return
        content = None if self._contents is None else self._contents.find(message_id)
        if content is None:
            self.owner.missing(self, message_id)
        elif self.lost:
            self._keep_stray(content, message_id)
        else:
            self._take_in(content.duplicate(self.owner.next_id()), message_id, delivery_count)

    def large_received(self, packet: SessionReceiveLarge, frame_size: int) -> None:
        if self.lost and not self._leaving:
            return
        body = self.owner.create_body(self.owner.next_id())
        self._large = Message.read(packet.headers, 0, large=body), body, packet.delivery_count

    def chunk_received(self, chunk: bytes, frame_size: int, continues: bool) -> None:
        if self._large is None:
            return
        message, body, delivery_count = self._large
        body.append(chunk)
        if not continues:
            self._large = None
            body.complete()
            self._arrive(message, delivery_count)

    def _arrive(self, message: Message, delivery_count: int) -> None:
        home_id = message.message_id
        message.renumber(self.owner.next_id())
        message.keep_elsewhere()
        if self.lost:
            self._keep_stray(message, home_id)
            if message.large is not None:
                message.large.release()
        else:
            self._take_in(message, home_id, delivery_count)

    def _keep_stray(self, message: Message, home_id: int) -> None:
        if self._contents is not None:
            self._contents.keep(home_id, message)
            self._strays.append(home_id)

    def _take_in(self, message: Message, home_id: int, delivery_count: int) -> None:
        if self._contents is not None:
            self._contents.keep(home_id, message)
        reference = RemoteReference(message, self.owner.queue, delivery_count, self, home_id)
        self.received += 1
        self._mean_size += (len(message.buffer) - self._mean_size) // (8 if self._mean_size else 1)
        if self._outstanding:
            self._outstanding -= 1
        self.unsettled[message.message_id] = reference
        if self.retiring or self._recalling:
            self.give_back((reference,), counted=False)
        else:
            self.waiting.add(reference)
            self.owner.arrived(self)

    # --- settling

    def acknowledge(self, references: Sequence[RemoteReference]) -> bool:
        """The messages are done with.  False: the home cannot be told, since it has taken them back."""
        consumer = self._consumer
        if consumer is None:
            return False
        last = self._in_order(references)
        if last is None:
            consumer.acknowledge([reference.home_id for reference in references])
        else:
            consumer.acknowledge_until(last)
        self._forget(references)
        self._close_if_done()
        return True

    def take_over(self, references: Sequence[RemoteReference]) -> Callable[[], None]:
        """A transaction that is about to be prepared has them.  Returns the function that acknowledges them."""
        consumer = self._consumer
        assert consumer is not None

        def acknowledge() -> None:
            consumer.acknowledge([reference.home_id for reference in references])
            self._forget(references)
            self._close_if_done()

        return acknowledge

    def give_back(self, references: Sequence[RemoteReference], *, counted: bool) -> None:
        """The messages go back to the home; with ``counted`` they were consumed in vain."""
        consumer = self._consumer
        if consumer is None or not references:
            return
        self.returned += len(references)
        consumer.give_back([reference.home_id for reference in references], counted=counted)
        self._forget(references)
        self._close_if_done()

    def put_back(self, references: Iterable[RemoteReference]) -> None:
        """A consumer here has not used them: they wait for another one."""
        returned = list(references)
        behind = any(reference.message.message_id <= self._behind for reference in returned)
        if behind:
            # What was before them has come again since, or is still under way.
            self._stop_asking()
            returned += self.waiting.clear()
        if behind or self.retiring or self._recalling:
            self.give_back(returned, counted=False)
            return
        for reference in returned:
            if reference.message.message_id in self.unsettled:
                self.waiting.add(reference)
        self.owner.arrived(self)

    def expired(self, reference: RemoteReference) -> None:
        """The message has expired."""
        consumer = self._consumer
        if consumer is not None:
            consumer.expired(reference.home_id)
            self._forget((reference,))
            self._close_if_done()

    def _in_order(self, references: Sequence[RemoteReference]) -> int | None:
        """The id of the last of ``references`` at the home, if they are the oldest unsettled ones in order; else None."""
        for reference, oldest in zip(references, self.unsettled.values(), strict=False):
            if reference is not oldest:
                return None
        return references[-1].home_id if len(references) <= len(self.unsettled) else None

    def _forget(self, references: Iterable[RemoteReference]) -> None:
        """The home has been told what became of them."""
        for reference in references:
            if self.unsettled.pop(reference.message.message_id, None) is not None:
                self.settled += 1
                _release(reference)
                if self._contents is not None:
                    self._contents.settled(reference.home_id)

    def _close_if_done(self) -> None:
        if self.retiring and not self.unsettled and self._large is None and self._consumer is not None:
            self.owner.closing(self)


def _release(reference: RemoteReference) -> None:
    if reference.message.large is not None:
        reference.message.large.release()


def by_consumer(references: Iterable[RemoteReference]) -> dict[RemoteConsumer, list[RemoteReference]]:
    """The references of each remote consumer, in order."""
    found: dict[RemoteConsumer, list[RemoteReference]] = {}
    for reference in references:
        remote = reference.keeper
        assert isinstance(remote, RemoteConsumer)
        found.setdefault(remote, []).append(reference)
    return found
