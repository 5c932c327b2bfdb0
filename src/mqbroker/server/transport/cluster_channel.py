"""The cluster channel of all connections: which peers are taken as members, and the answers to their packets, now or later.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.server.transport.limits import REFUSALS_MAX
from mqclient.errors import ProtocolError
from mqclient.wire.frames import CLUSTER_CHANNEL
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply, Packet, QuorumVote, QuorumVoteReply

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.server.transport.reasons import ReasonLog

WRONG_PASSWORDS_MAX = 10
"""Wrong cluster passwords on one connection; after that it is closed."""

PRODUCT = "mqbroker"
"""By this word brokers of this kind know each other; a Java broker neither asks for it nor says it."""

log = Logger(namespace="mqbroker.cluster")

P = TypeVar("P", bound=Packet)

Answer: TypeAlias = Packet | Deferred[Packet] | None
"""The answer to a packet, at once or after something is stored; None: no answer."""
Vote: TypeAlias = Callable[["ServerConnection", bytes], bytes | Deferred[bytes]]
"""The answer to a vote's bytes.  Raises MalformedPacketError."""


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """The cluster's user and password."""

    user: str
    password: str = field(repr=False)

    def match(self, user: str, password: str) -> bool:
        """Are the two texts the same?  Takes the same time wherever they differ."""
        same_user = hmac.compare_digest(_bytes(user), _bytes(self.user))
        return hmac.compare_digest(_bytes(password), _bytes(self.password)) and same_user


class ClusterChannel:
    """Hands each packet of channel 3 to the handler of its type, and each vote to the handler of its name.

    A peer has to show ``credentials`` first; None: no peer has to.  ``refused`` is called with the user and the address of a peer with
    wrong credentials.  As long as no handler is registered, no password is accepted.
    """

    def __init__(self, credentials: ClusterCredentials | None, reasons: ReasonLog, refused: Callable[[str, str], object]) -> None:
        self._credentials = credentials
        self._reasons = reasons
        self._refused = refused
        self._handlers: dict[type[Packet], Callable[[ServerConnection, Any], Answer]] = {}
        self._votes: dict[str, Vote] = {}

    def register(self, packet_class: type[P], handler: Callable[[ServerConnection, P], Answer]) -> None:
        """``handler`` gets the packets of this class that members send.

        Until a late answer is there, no other packet of the connection is handled (decision 31): answers keep their order, and each
        connection waits for one at most.  A connection that has ended meanwhile gets no answer; a failure ends the connection.
        """
        self._handlers[packet_class] = handler

    def register_vote(self, name: str, vote: Vote) -> None:
        """``vote`` answers votes of this name, at once or later, as :meth:`register` says."""
        self._votes[name] = vote
        self.register(QuorumVote, self._asked_to_vote)

    def handle(self, connection: ServerConnection, packet: Packet) -> None:
        """Handle a packet; until the peer has shown the cluster's password, only the packet with the password.

        Raises ProtocolError for a packet that cannot be read.
        """
        if isinstance(packet, ClusterConnect) and (self._handlers or self._credentials is None):
            self._connect(connection, packet)
            return
        handler = self._handlers.get(type(packet))
        if not connection.cluster_authorized or handler is None:
            reason = "has no meaning here" if connection.cluster_authorized else "is ignored before the cluster's password"
            log.debug("connection {id}: {name} {reason}", id=connection.connection_id, name=packet.NAME, reason=reason)
            return
        answer = handler(connection, packet)
        if isinstance(answer, Deferred):
            self._answer_later(connection, packet.NAME, answer)
        elif answer is not None:
            connection.send(answer, CLUSTER_CHANNEL)

    def _answer_later(self, connection: ServerConnection, name: str, answer: Deferred[Packet]) -> None:
        def answered(packet: Packet) -> None:
            if not connection.closed:
                connection.server.turn.run(connection.send, packet, CLUSTER_CHANNEL)

        def failed(failure: Failure) -> None:
            if not isinstance(failure.value, ProtocolError):
                log.failure("{name} of {remote} has no answer", failure, name=name, remote=connection.remote)
            connection.server.turn.run(connection.fail, f"AMQ222067: {name}: {failure.getErrorMessage()}")

        connection.hold_back()
        answer.addCallbacks(answered, failed)
        answer.addBoth(lambda _: connection.hear_again())

    def _connect(self, connection: ServerConnection, packet: ClusterConnect) -> None:
        if connection.cluster_authorized:
            return
        if self._credentials is not None and not self._credentials.match(packet.cluster_user, packet.cluster_password):
            self._refused(packet.cluster_user, connection.remote)
            connection.refusals += REFUSALS_MAX // WRONG_PASSWORDS_MAX
            if connection.refusals >= REFUSALS_MAX:
                connection.fail_soon("AMQ229099: the cluster password is wrong again and again")
            self._reasons.warn(connection.remote, f"AMQ229099: a peer at {connection.remote} gives a wrong cluster user or password")
        else:
            connection.admit(packet.product)
        product = None if packet.product is None else PRODUCT
        connection.send(ClusterConnectReply(connection.cluster_authorized, product, int(product is not None)), CLUSTER_CHANNEL)

    def _asked_to_vote(self, connection: ServerConnection, packet: QuorumVote) -> Answer:
        vote = self._votes.get(packet.handler)
        if vote is None:
            # An answer that the peer does not expect would be worse than none.
            self._reasons.warn(
                connection.remote, f"a peer at {connection.remote} asks for the vote {packet.handler[:100]!r}, which has no answer here"
            )
            return None
        found = vote(connection, packet.vote)
        reply = partial(QuorumVoteReply, packet.handler)
        return found.addCallback(reply) if isinstance(found, Deferred) else reply(found)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
