"""Moves a prepared branch of an XA transaction to another broker, where its transaction manager finds it again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from mqbroker.cluster.links.outgoing import Outgoing
from mqbroker.ha.messages import Encode, send_over
from mqbroker.messaging.delivery.branches import Branch
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqclient.errors import IllegalStateError, MQError
from mqclient.xa import Xid

if TYPE_CHECKING:
    from mqclient.core.session.session import Session


async def move_branch(session: Session, branch: Branch, encoder: Callable[[Queue, bool], Awaitable[Encode]]) -> None:
    """Do the work of ``branch`` again over ``session``, and prepare the branch there.

    ``encoder`` gives the function that encodes the messages of a queue, those that the branch has acknowledged with True.

    Raises MQError or XAError; the branch may be prepared at the target nevertheless, and committed by its transaction manager.  Moved once
    more it is empty then, for the target knows its messages by their duplicate ids.
    """
    work = [(reference, False) for _, references in branch.transaction.sends for reference in references]
    work += [(reference, True) for reference in branch.transaction.acknowledged]
    encoders: dict[tuple[Queue, bool], Encode] = {}
    for reference, acknowledged in work:
        queue = reference.queue
        if (queue, acknowledged) not in encoders:
            encoders[queue, acknowledged] = await encoder(queue, acknowledged)
    resource = session.xa_resource
    xid = Xid.from_wire(branch.xid)
    await resource.start(xid)
    try:
        await _send_all(session, _encoded(work, encoders))
    except MQError:
        if not session.closed:
            await resource.end(xid)
            await resource.rollback(xid)
        raise
    await resource.end(xid)
    await resource.prepare(xid)


def _encoded(work: list[tuple[Reference, bool]], encoders: dict[tuple[Queue, bool], Encode]) -> Iterator[Outgoing]:
    for reference, acknowledged in work:
        if reference.queue.deleted:
            continue
        outgoing = encoders[reference.queue, acknowledged](reference)
        if outgoing is None:
            raise IllegalStateError(f"a message in {reference.queue.name} states no queue of another broker")
        yield outgoing


async def _send_all(session: Session, messages: Iterator[Outgoing]) -> None:
    """Send one message after the other: a branch is small, and its order is to be kept."""
    runtime = session.runtime
    for outgoing in messages:
        answered = runtime.create_future()
        room = runtime.create_future()

        def done(error: MQError | None, answered: object = answered) -> None:
            if error is None:
                runtime.resolve(answered, None)
            else:
                runtime.reject(answered, error)

        sends = session.open_encoded_sends()
        sends.on_room = lambda room=room: runtime.resolve(room, None)  # type: ignore[misc]
        if send_over(session, outgoing, done):
            runtime.resolve(room, None)
        await answered
        await room
