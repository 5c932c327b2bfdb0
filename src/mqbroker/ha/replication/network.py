"""The ways of the proof to other brokers: see :class:`mqbroker.ha.proof.ports.Network`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger

from mqbroker.cluster.links.opening import ask_product
from mqbroker.ha.proof.ports import RefusedError, UnreachableError
from mqbroker.ha.replication.asking import CopyQuestion
from mqbroker.ha.replication.connectors import connector_of
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.errors import ClusterSecurityError, MQError
from mqclient.protocol.topology import Topology
from mqclient.wire.packets import QuorumVote, QuorumVoteReply
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.ha.replication.backup import ClusterSide
    from mqclient.core.connection.connection import Connection

log = Logger(namespace="mqbroker.ha")

JAVA_MAX = 1_000
"""Java brokers that are remembered as such, as many as a topology has members."""

TLS = "sslEnabled"
"""The parameter of a connector."""


class _Answered(MQError):
    """Ends a connection that has served its purpose."""


class _Knock:
    """The handler of a connection over which nothing is said."""

    def data_received(self, data: bytes) -> None: ...

    def link_lost(self, reason: str) -> None: ...

    def link_paused(self) -> None: ...

    def link_resumed(self) -> None: ...


class ProofNetwork:
    """Asks over connections of their own, one for each question.

    ``over_link(connector, ...)`` asks over the connection of the pair, None when there is none to the copy with this note.
    ``connector_of_node`` finds an active broker by its node id; one that it does not know, or that does not answer there, is looked for
    at the places of the cluster connection.
    """

    def __init__(
        self,
        side: ClusterSide,
        over_link: Callable[[str, str, bytes], Deferred[bytes] | None],
        connector_of_node: Callable[[str], TransportConfiguration | None],
    ) -> None:
        self._side = side
        self._over_link = over_link
        self._connector_of_node = connector_of_node
        self._java: dict[str, None] = {}
        self._found = Topology()
        """The members of the cluster, as the last search has found them."""
        self._search: Deferred[None] = succeed(None)

    def ask_copy(self, connector: str, handler: str, question: bytes) -> Deferred[bytes]:
        try:
            place = connector_of(connector)
        except ValueError as error:
            return fail(error)

        async def dial(met: Callable[[], object]) -> bytes:
            return await self._ask_copy(place, handler, question, met)

        return CopyQuestion(self._side.runtime, place, self._over_link(connector, handler, question), dial).answer

    def ask_voter(self, node_id: str, handler: str, question: bytes) -> Deferred[bytes]:
        found = self._found.get(node_id)
        place = self._connector_of_node(node_id) if found is None else found.primary
        if place is None:
            self._look_for_members()
            return fail(UnreachableError(f"the cluster knows no active broker of the node {node_id}"))
        return Deferred.fromCoroutine(self._ask(place, handler, question, node_id)).addErrback(self._look_again)

    def close(self) -> None:
        """Look for nobody any more."""
        self._search.cancel()

    def _look_again(self, failure: Failure) -> Failure:
        self._look_for_members()
        return failure

    def _look_for_members(self) -> None:
        # By itself, because a question has less time than an attempt to connect: a later question has the result.
        if self._search.called:
            self._search = Deferred.fromCoroutine(self._look())
            self._search.addErrback(self._not_found)

    async def _look(self) -> None:
        self._found = await self._side.members(self._side.places())

    def _not_found(self, failure: Failure) -> None:
        if not isinstance(failure.value, CancelledError):
            log.failure("the search for voters failed", failure)

    def is_java(self, node_id: str) -> bool:
        return node_id in self._java

    async def _ask_copy(self, place: TransportConfiguration, handler: str, question: bytes, met: Callable[[], object]) -> bytes:
        connections: list[None] = []

        def greeted() -> None:
            connections.append(None)
            met()

        secure = await self._knock(place, met)
        try:
            return await self._ask(place, handler, question, met=greeted)
        except UnreachableError as error:
            if secure and not connections:
                raise RefusedError(f"somebody is there, and TLS fails: {error}") from error
            raise

    async def _knock(self, place: TransportConfiguration, met: Callable[[], object]) -> bool:
        """Is it a place with TLS?  Then see first whether anybody takes connections there: TLS hides that."""
        parameters = dict(place.parameters)
        if str(parameters.pop(TLS, "")).lower() != "true":
            return False
        bare = TransportConfiguration(place.name, place.factory_class_name, tuple(parameters.items()))
        try:
            link = await self._side.runtime.connect(bare, _Knock(), self._side.settings().connection_ttl / 1000)
        except MQError as error:
            raise UnreachableError(f"{describe(place)} does not answer: {error}") from error
        link.abort()
        met()
        return True

    async def _ask(
        self,
        place: TransportConfiguration,
        handler: str,
        question: bytes,
        node_id: str = "",
        met: Callable[[], object] = lambda: None,
    ) -> bytes:
        """``met`` is called when there is a connection."""
        answers: list[bytes] = []

        async def greet(connection: Connection) -> None:
            met()
            product = await ask_product(connection, self._side.credentials, PRODUCT)
            if node_id:
                self._learn(node_id, product)
            reply: QuorumVoteReply = await connection.cluster_channel.call(QuorumVote(handler, question), QuorumVoteReply)
            answers.append(reply.vote)
            raise _Answered("answered")

        locator = Locator(self._side.runtime, [place], self._side.settings(), greet=greet, follow=False)
        try:
            await locator.create_session_factory()
        except ClusterSecurityError as error:
            self._side.refuses(place)
            raise RefusedError(str(error)) from error
        except MQError as error:
            if answers:
                self._side.accepts(place)
                return answers[0]
            raise UnreachableError(f"{describe(place)} does not answer: {error}") from error
        finally:
            await locator.close()
        raise UnreachableError(f"{describe(place)} does not answer")

    def _learn(self, node_id: str, product: str | None) -> None:
        if product == PRODUCT:
            self._java.pop(node_id, None)
        elif len(self._java) < JAVA_MAX:
            self._java[node_id] = None
