"""A question to another broker, over a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqbroker.cluster.links.opening import ask_product
from mqbroker.ha.proof.ports import Choice, RefusedError, UnreachableError
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.errors import ClusterSecurityError, MQError
from mqclient.wire.packets import QuorumVote, QuorumVoteReply

if TYPE_CHECKING:
    from mqbroker.ha.replication.backup import ClusterSide
    from mqclient.core.connection.connection import Connection
    from mqclient.wire.primitives import TransportConfiguration


class _Answered(MQError):
    """Ends a connection that has served its purpose."""


async def ask_once(side: ClusterSide, place: TransportConfiguration, choose: Choice, met: Callable[[], object] = lambda: None) -> bytes:
    """The answer of the broker at ``place``; empty when ``choose`` asks it nothing.

    ``met`` is called when there is a connection.  Raises RefusedError for a broker that refuses the password, UnreachableError without an
    answer.
    """
    answers: list[bytes] = []

    async def greet(connection: Connection) -> None:
        met()
        chosen = choose(await ask_product(connection, side.credentials, PRODUCT) != PRODUCT)
        if chosen is None:
            answers.append(b"")
        else:
            reply: QuorumVoteReply = await connection.cluster_channel.call(QuorumVote(*chosen), QuorumVoteReply)
            answers.append(reply.vote)
        raise _Answered("answered")

    locator = Locator(side.runtime, [place], side.settings(), greet=greet, follow=False)
    try:
        await locator.create_session_factory()
    except ClusterSecurityError as error:
        side.refuses(place)
        raise RefusedError(str(error)) from error
    except MQError as error:
        if answers:
            side.accepts(place)
            return answers[0]
        raise UnreachableError(f"{describe(place)} does not answer: {error}") from error
    finally:
        await locator.close()
    raise UnreachableError(f"{describe(place)} does not answer")
