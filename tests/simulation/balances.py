"""Credits at the end: what the broker has of each consumer, and what its client still owes, must be what the consumer was granted.

The sum is exact for windows of bytes.  A consumer without a window asks for each message, and takes back what it asked for in vain; the
broker may have sent one by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from mqbroker.server.session.session import ServerSession
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.protocol.credits import UNLIMITED, ConsumerCredits

if TYPE_CHECKING:
    from tests.simulation.workload import Actor

LOOKS = 20
"""How often a client that has ended its work is looked at: what is on its way between both is in neither account."""
BETWEEN_LOOKS = 0.2
"""Seconds."""


class JudgedCredits(ConsumerCredits):
    """Also knows what the consumer that the broker has was granted when it began."""

    __slots__ = ("granted_first",)

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self.granted_first = 0

    def initial(self) -> int:
        self.granted_first = super().initial()
        return self.granted_first

    def after_recreation(self) -> int:
        self.granted_first = super().after_recreation()
        return self.granted_first


@contextmanager
def judged() -> Iterator[None]:
    """While this lasts consumers are made so that :func:`judge` can look at them."""
    with mock.patch("mqclient.core.consuming.consumers.ConsumerCredits", JudgedCredits):
        yield


async def judge(actor: Actor) -> None:
    """A client has ended its work and leaves: wait until nothing fails any more and nothing is on its way, and compare."""
    session = actor.current
    if session is None or session.closed:
        return
    await actor.pause(actor.simulation.quiet_from - actor.world.now)
    problems: list[str] = []
    known = unknown = 0
    while known < LOOKS:
        await actor.pause(BETWEEN_LOOKS)
        broker = actor.simulation.broker
        there = broker.server.sessions.by_name.get(session.name) if broker.serves else None
        if session.closed or session.channel.locked or there is None:
            # The broker and its client do not know each other just now, and what they say then is on its way for a while.
            known, unknown = 0, unknown + 1
            if unknown == LOOKS:
                return
            continue
        known += 1
        problems = [*_consumer_problems(actor, session, there), *_producer_problems(session, there)]
        if not problems:
            return
    for problem in problems:
        actor.world.violation(f"{actor.name}, {problem}")


def _consumer_problems(actor: Actor, session: Session, there: ServerSession) -> Iterator[str]:
    for consumer in actor.buffers:
        credits = consumer.arrivals.credits
        found = there.consumers.by_id.get(consumer.id)
        if consumer.closed or consumer.session is not session or found is None or not credits.window:
            continue
        assert isinstance(credits, JudgedCredits)
        if credits.window == UNLIMITED:
            if not found.unlimited:
                yield f"consumer of {consumer.queue_name}: its window is unlimited, and the broker counts {found.credits} credits"
            continue
        owed = credits._returned + _held(actor, consumer)
        if found.credits + owed != credits.granted_first:
            yield (
                f"consumer of {consumer.queue_name}: the broker has {found.credits} credits, the client owes {owed}, "
                f"and {credits.granted_first} were granted"
            )


def _held(actor: Actor, consumer: Consumer) -> int:
    """Bytes of frames that the client has, and that nobody has taken."""
    messages = actor.buffers[consumer].messages
    arrivals = consumer.arrivals
    bodies = [arrivals._body, *(message.large for message in messages)]
    if arrivals._large is not None:
        bodies.append(arrivals._large.large)
    different = {id(body): body for body in bodies if body is not None}
    chunks = (size for body in different.values() for _, size, _ in body._chunks)
    return sum(message.frame_size for message in messages) + sum(chunks)


def _producer_problems(session: Session, there: ServerSession) -> Iterator[str]:
    """Whoever has nothing waiting for room has got all that was asked for."""
    for address, entry in session.flow._addresses.items():
        if entry.credits._arriving and not there.sends.requests_waiting:
            yield f"producer for {address}: {entry.credits._arriving} credits were asked for and never came"
