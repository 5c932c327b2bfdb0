"""The ways of the proof to other brokers: see :class:`mqbroker.ha.proof.ports.Network`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger

from mqbroker.ha.proof.ports import Choice, Introduction, RefusedError, UnreachableError
from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE, INTRODUCTION, decode_answer, decode_introduction
from mqbroker.ha.replication.asking import CopyQuestion
from mqbroker.ha.replication.connectors import connector_of
from mqbroker.ha.replication.one_question import ask_once
from mqclient.core.connection.connection import describe
from mqclient.errors import MQError
from mqclient.protocol.topology import Topology
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.ha.replication.backup import ClusterSide

log = Logger(namespace="mqbroker.ha")

MEET_SECONDS = 2.0
"""How long a broker may take to say what it is as a voter."""

TLS = "sslEnabled"
"""The parameter of a connector."""


class _Knock:
    """The handler of a connection over which nothing is said."""

    def data_received(self, data: bytes) -> None: ...

    def link_lost(self, reason: str) -> None: ...

    def link_paused(self) -> None: ...

    def link_resumed(self) -> None: ...


class ProofNetwork:
    """Asks over connections of their own, one for each question.

    ``over_link(connector, ...)`` asks over the connection of the pair, None when there is none to the copy with this note.
    ``in_process`` asks a voter without a connection, None when it is not an active broker of this process.
    ``connector_of_node`` finds an active broker by its node id; one that it does not know, or that does not answer there, is looked for
    at the places of the cluster connection.
    """

    def __init__(
        self,
        side: ClusterSide,
        over_link: Callable[[str, str, bytes], Deferred[bytes] | None],
        in_process: Callable[[str, Choice], Deferred[bytes] | None],
        connector_of_node: Callable[[str], TransportConfiguration | None],
    ) -> None:
        self._side = side
        self._over_link = over_link
        self._in_process = in_process
        self._connector_of_node = connector_of_node
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

    def ask_voter(self, node_id: str, choose: Choice) -> Deferred[bytes]:
        answer = self._in_process(node_id, choose)
        if answer is not None:
            return answer
        found = self._found.get(node_id)
        place = self._connector_of_node(node_id) if found is None else found.primary
        if place is None:
            self._look_for_members()
            return fail(UnreachableError(f"the cluster knows no active broker of the node {node_id}"))
        return Deferred.fromCoroutine(self._ask_voter(node_id, place, choose)).addErrback(self._look_again)

    async def _ask_voter(self, node_id: str, place: TransportConfiguration, choose: Choice) -> bytes:
        handlers: list[str] = []

        def choose_and_note(java: bool) -> tuple[str, bytes] | None:
            chosen = choose(java)
            if chosen is not None:
                handlers.append(chosen[0])
            return chosen

        vote = await ask_once(self._side, place, choose_and_note)
        if ACTIVATION_VOTE in handlers and (voter := decode_answer(vote).voter) != node_id:
            raise UnreachableError(f"{voter} answers at the place of {node_id}")
        return vote

    def meet(self, node_id: str) -> Deferred[Introduction]:
        """Ask the active broker of ``node_id`` what it is as a voter.  Fails when it does not say so within :data:`MEET_SECONDS`."""
        kinds: list[bool] = []

        def choose(java: bool) -> tuple[str, bytes] | None:
            kinds.append(java)
            return None if java else (INTRODUCTION, b"")

        def answered(answer: bytes) -> Introduction:
            return Introduction(True, True, False) if kinds[0] else decode_introduction(answer, node_id)

        met = self.ask_voter(node_id, choose).addCallback(answered).addErrback(self._look_again)
        limit = self._side.runtime.call_later(MEET_SECONDS, met.cancel)

        def ended(result: Introduction | Failure) -> Introduction | Failure:
            limit.cancel()
            return result

        return met.addBoth(ended)

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

    async def _ask_copy(self, place: TransportConfiguration, handler: str, question: bytes, met: Callable[[], object]) -> bytes:
        connections: list[None] = []

        def greeted() -> None:
            connections.append(None)
            met()

        secure = await self._knock(place, met)
        try:
            return await ask_once(self._side, place, lambda java: (handler, question), greeted)
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
