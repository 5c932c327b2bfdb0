"""A home: another member, while there is a link to it, with the sessions in which this broker consumes there.

Consumers and their acknowledgements have one session, in their order; everything that is answered has another one of the same connection,
because a session that rolls a branch back is given all its messages back (``protocol-spec/``, chapter "Home brokers").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger

from mqbroker.imq.delivery.contents import Contents
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqclient.core.settings import QueueConfiguration
from mqclient.errors import MQError, NotConnectedError, QueueDoesNotExistError, QueueExistsError
from mqclient.wire.packets import (
    HOME_LINK_KEY,
    XaCommit,
    XaEnd,
    XaForget,
    XaInDoubtXids,
    XaInDoubtXidsResponse,
    XaPrepare,
    XaResponse,
    XaRollback,
    XaStart,
)

if TYPE_CHECKING:
    from mqbroker.imq.links.home_links import LinkedMember
    from mqbroker.messaging.ports import Clock
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.turn import Turn
    from mqclient.core.consuming.encoded import EncodedConsumer
    from mqclient.core.session.session import Session
    from mqclient.wire.primitives import Xid

RETRY_SECONDS = 1.0
"""After this time a consumer that a home has refused, because the queue is not there yet, is tried again."""

Answered = Callable[[MQError | None], object]
"""Called with None, or with the reason why there is no answer."""

log = Logger(namespace="mqbroker.imq")


class Runner(Protocol):
    """The part of the client's runtime that is needed here."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> Any: ...


class QueueLives(Protocol):
    """A queue may have been deleted and made anew; a member that has not heard of that has its former life under the same name."""

    def ask(self, home: str, queue: str, answered: Callable[[bool], object]) -> None:
        """Has the member ``home`` (node id) heard of the queue as it is here?  ``answered`` is called at once, or later, inside a turn."""


class Home:
    """``node_id`` is this broker's.  ``ready(home)`` is called when consumers can be opened; ``create_missing`` says of a definition
    whether the queue is made at a home that does not have it."""

    def __init__(
        self,
        member: LinkedMember,
        node_id: str,
        runner: Runner,
        clock: Clock,
        turn: Turn,
        ready: Callable[[Home], object],
        create_missing: Callable[[QueueDefinition], bool],
        lives: QueueLives,
    ) -> None:
        self.member = member
        self.node_id = member.node_id
        self.lost = False
        self._own_id = node_id
        self._runner = runner
        self._clock = clock
        self._turn = turn
        self._ready = ready
        self._create_missing = create_missing
        self._lives = lives
        self._consuming: Session | None = None
        self._asking: Session | None = None
        self._requests: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        """Requests in the session of the consumers, made one after the other: acknowledgements would wait behind two."""
        self._busy = False
        self.contents = Contents(self.when_stored)
        self._leaving: set[RemoteConsumer] = set()
        """Consumers that are being closed."""
        self._made: set[str] = set()
        """Temporary queues that were made there for consumers here."""
        self._unconfirmed: list[Answered] = []
        self._confirming = False

    # --- life

    def open(self) -> None:
        """Open the sessions."""
        self._runner.spawn(self._open())

    def lose(self) -> None:
        """The link is gone; everything that was asked is answered with an error by the sessions."""
        self.lost = True
        self._requests.clear()
        for remote in self._leaving:
            remote.closed()
        self._leaving.clear()

    async def _open(self) -> None:
        try:
            consuming = await self.member.open_session(xa=True)
            await consuming.add_metadata(HOME_LINK_KEY, self._own_id)
            await consuming.start()
            asking = await self.member.open_session(xa=True)
        except MQError as error:
            if not self.lost:
                self.member.fail(error)
            return
        if not self.lost:
            self._consuming, self._asking = consuming, asking
            self._turn.run(self._ready, self)

    # --- consumers

    def open_consumer(self, remote: RemoteConsumer) -> None:
        """A home that still has a former life of the queue would give the messages of that one."""
        self._lives.ask(self.node_id, remote.owner.queue.name, partial(self._heard, remote))

    def _heard(self, remote: RemoteConsumer, heard: bool) -> None:
        if heard:
            self._request(lambda: self._open_consumer(remote))
        elif not self.lost and not remote.lost:
            self._not_yet(remote, "it has not heard of the queue as it is here")

    def close_consumer(self, remote: RemoteConsumer) -> None:
        encoded = remote.encoded
        if encoded is not None and not self.lost:
            self._leaving.add(remote)
            self._request(lambda: self._close(encoded, remote))

    def queue_deleted(self, name: str) -> None:
        """A temporary queue has ended here: so does the one that was made for it there."""
        if name in self._made:
            self._made.discard(name)
            self._request(lambda: self._delete(name))

    async def _close(self, encoded: EncodedConsumer, remote: RemoteConsumer) -> None:
        await encoded.close()
        if self._consuming is not None:
            self._consuming.encoded_consumers.pop(encoded.id, None)
        if remote in self._leaving:
            self._leaving.discard(remote)
            self._turn.run(remote.closed)

    async def _delete(self, name: str) -> None:
        assert self._consuming is not None
        try:
            await self._consuming.delete_queue(name)
        except QueueDoesNotExistError:
            pass  # its address was deleted

    async def _open_consumer(self, remote: RemoteConsumer) -> None:
        if remote.lost or self._consuming is None:
            return
        queue = remote.owner.queue
        try:
            try:
                encoded = await self._consuming.create_encoded_consumer(queue.name, remote.filter_string, remote)
            except QueueDoesNotExistError:
                if not self._create_missing(queue.definition):
                    raise
                await self._create(queue)
                encoded = await self._consuming.create_encoded_consumer(queue.name, remote.filter_string, remote)
        except MQError as error:
            if not self.lost and not remote.lost:
                self._not_yet(remote, str(error))
            return
        if remote.lost:
            if not self.lost:
                await self._close(encoded, remote)
            return
        self._turn.run(self._opened, remote, encoded)

    def _opened(self, remote: RemoteConsumer, encoded: EncodedConsumer) -> None:
        remote.opened(encoded)
        self._turn.mark_queue(remote.owner.queue)

    def _not_yet(self, remote: RemoteConsumer, reason: str) -> None:
        queue, home = remote.owner.queue.name, self.member.name
        log.debug("no consumer of queue {queue} at {home} yet: {reason}", queue=queue, home=home, reason=reason)
        self._turn.run(remote.answer)
        self._clock.call_later(RETRY_SECONDS, self._turn.run, self._try_again, remote)

    def _try_again(self, remote: RemoteConsumer) -> None:
        if not self.lost and not remote.lost:
            self.open_consumer(remote)

    async def _create(self, queue: Queue) -> None:
        session, definition = self._consuming, queue.definition
        assert session is not None
        configuration = QueueConfiguration(
            name=definition.name,
            address=definition.address,
            routing_type=definition.routing_type,
            filter_string=definition.filter_string,
            durable=definition.durable,
            temporary=definition.temporary,
            auto_created=definition.auto_created,
        )
        try:
            if definition.transient:
                await session.create_shared_queue(configuration)
            else:
                await session.create_queue(configuration)
        except QueueExistsError:
            return  # somebody was faster
        if definition.temporary:
            self._made.add(definition.name)
            if queue.deleted:  # meanwhile
                self.queue_deleted(definition.name)

    def _request(self, request: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self.lost:
            return
        self._requests.append(request)
        if not self._busy:
            self._busy = True
            self._runner.spawn(self._work())

    async def _work(self) -> None:
        try:
            while self._requests and not self.lost:
                try:
                    await self._requests.popleft()()
                except MQError as error:
                    if not self.lost:
                        self.member.fail(error)
        finally:
            self._busy = False

    # --- answers

    def when_stored(self, answered: Answered) -> None:
        """Call ``answered`` once the home has stored everything that it was told before."""
        self._unconfirmed.append(answered)
        if not self._confirming:
            self._confirming = True
            self._runner.spawn(self._confirm())

    async def _confirm(self) -> None:
        # One question at a time, for all who have asked meanwhile.
        while self._unconfirmed:
            asked, self._unconfirmed = self._unconfirmed, []
            failure: MQError | None = None
            try:
                await self._ask(XaInDoubtXids(), XaInDoubtXidsResponse)
            except MQError as error:
                failure = error
            self._turn.run(_tell_all, asked, failure)
        self._confirming = False

    async def in_doubt(self) -> Sequence[Xid]:
        """The branches there that are prepared."""
        answer: XaInDoubtXidsResponse = await self._ask(XaInDoubtXids(), XaInDoubtXidsResponse)
        return answer.xids

    async def _ask(self, packet: Any, answer: type[Any]) -> Any:
        if self._asking is None or self.lost:
            raise NotConnectedError(f"there is no link to {self.member.name}")
        return await self._asking.channel.call(packet, answer)

    # --- branches

    def do_in_branch(self, xid: Xid, acknowledge: Callable[[], None]) -> None:
        """Have ``acknowledge`` do its acknowledgements as work of a new branch."""
        assert self._consuming is not None
        channel = self._consuming.channel
        # Errors show when the branch is prepared: there is none of this id, or it can only be rolled back.
        channel.send(XaStart(xid))
        acknowledge()
        channel.send(XaEnd(xid))

    async def prepare(self, xid: Xid) -> XaResponse:
        """Raises the error of the link; then the branch may be prepared or not."""
        answer: XaResponse = await self._ask(XaPrepare(xid), XaResponse)
        return answer

    async def commit(self, xid: Xid, *, one_phase: bool) -> XaResponse:
        answer: XaResponse = await self._ask(XaCommit(xid, one_phase), XaResponse)
        return answer

    async def roll_back(self, xid: Xid) -> XaResponse:
        answer: XaResponse = await self._ask(XaRollback(xid), XaResponse)
        return answer

    async def forget(self, xid: Xid) -> None:
        """How management has decided the branch is known here."""
        await self._ask(XaForget(xid), XaResponse)


def _tell_all(asked: Sequence[Answered], failure: MQError | None) -> None:
    for answered in asked:
        answered(failure)
