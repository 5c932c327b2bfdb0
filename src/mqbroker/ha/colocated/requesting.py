"""A broker looks for one of its cluster that hosts its backup, and again when that one has gone.

Source: the Artemis manual, "Colocated Backup Servers"; ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from mqbroker.cluster.links.opening import LossListener, ask_product
from mqbroker.cluster.links.pause import Pause
from mqbroker.cluster.membership.votes import ASKED, OFFER_VOTE, WANTED_VOTE, Offer
from mqbroker.ha.replication.one_question import ask_once
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.errors import MQError, NotConnectedError
from mqclient.wire.packets import BackupRequest, BackupRequestResponse
from mqclient.wire.primitives import Decoder, Encoder

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ColocatedConfiguration
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.server.transport.connection import ServerConnection
    from mqclient.core.connection.connection import Connection
    from mqclient.protocol.topology import TopologyMember
    from mqclient.wire.primitives import TransportConfiguration

OFFER_SECONDS = 5.0
"""How long a broker may take to say whether it hosts one more backup."""

LOST_SECONDS = 0.5
"""After a host has gone, before another one is asked: the one that has gone may be in the topology still."""

log = Logger(namespace="mqbroker.ha")


class HostSearch:
    """Looks for a host until there is one, and keeps the connection to it: the host ends that when it hosts the backup no longer.

    ``members()`` are the members of the cluster, ``request(count)`` is what a host is asked that has told this count.  ``active()``: does
    this broker serve?  It asks nobody otherwise.
    """

    def __init__(
        self,
        side: ClusterSide,
        configuration: ColocatedConfiguration,
        node_id: str,
        members: Callable[[], Iterable[TopologyMember]],
        request: Callable[[int], BackupRequest],
        active: Callable[[], bool],
    ) -> None:
        self.host: str | None = None
        """The node id of the broker that hosts the backup; None while there is none."""
        self._side = side
        self._configuration = configuration
        self._node_id = node_id
        self._members = members
        self._request = request
        self._active = active
        self._stopped = True
        self._pause = Pause(side.runtime)
        """Between two requests, and while there is a host."""
        self._asking: list[Deferred[Offer | None]] = []
        self._told = ""
        """Why nobody hosts the backup, as the log has it."""

    def start(self) -> None:
        self._stopped = False
        self._side.runtime.spawn(self._run())

    def register(self, channel: ClusterChannel) -> None:
        """Tell brokers that host the backup whether they are to go on with it."""
        channel.register_vote(WANTED_VOTE, self._wanted)

    def _wanted(self, connection: ServerConnection, question: bytes) -> bytes:
        encoder = Encoder()
        encoder.boolean(self.host in (None, Decoder(question, WANTED_VOTE).string()))
        return bytes(encoder.data)

    def stop(self) -> None:
        """Ask nobody any more.  The backup stays where it is."""
        self._stopped = True
        self._pause.end()
        for asked in self._asking:
            asked.cancel()

    @property
    def _goes_on(self) -> bool:
        return not self._stopped and self._active()

    async def _run(self) -> None:
        runtime, retries = self._side.runtime, self._configuration.backup_request_retries
        left = retries
        while self._goes_on:
            problem = "a defect"
            try:
                problem = await self._find()
            except Exception as error:  # a defect must not leave this broker without a backup for ever
                runtime.log_failure("the search for a broker that hosts the backup failed", error)
            if not problem:
                left = retries
                await self._pause_for(LOST_SECONDS)
            elif left == 0:
                log.error("no broker hosts the backup of this one, and none is asked any more (backup-request-retries): {why}", why=problem)
                return
            else:
                left -= left > 0
                self._tell(problem)
                await self._pause_for(self._configuration.backup_request_retry_interval / 1000)

    async def _pause_for(self, seconds: float) -> None:
        if self._goes_on:
            await self._pause.wait(seconds)

    def _tell(self, problem: str) -> None:
        if problem != self._told and self._goes_on:
            log.warn("no broker hosts the backup of this one; they are asked again: {problem}", problem=problem)
            self._told = problem

    async def _find(self) -> str:
        """Why nobody hosts the backup; empty after somebody has hosted it."""
        found = await self._offers()
        refusals = []
        for offer, member in found:
            if not self._goes_on:
                break
            assert member.primary is not None
            try:
                await self._stay(member.node_id, member.primary, self._request(offer.count))
            except MQError as error:
                refusals.append(str(error))
            else:
                return ""
        return "; ".join(refusals) or "no other mqbroker of the cluster offers it"

    # --- offers

    async def _offers(self) -> list[tuple[Offer, TopologyMember]]:
        """The brokers that would host the backup, the one with the fewest backups first; equal ones after the own node id."""
        members = [each for each in self._members() if each.primary is not None and each.node_id != self._node_id]
        self._asking = [self._ask(member.primary) for member in members if member.primary is not None]
        answers = await DeferredList(self._asking, consumeErrors=True)
        offers = [(answer, member) for (answered, answer), member in zip(answers, members, strict=True) if answered]
        available = [(offer, member) for offer, member in offers if offer is not None and offer.available]
        return sorted(available, key=lambda each: (each[0].count, each[1].node_id < self._node_id, each[1].node_id))

    def _ask(self, place: TransportConfiguration) -> Deferred[Offer | None]:
        """None from a Java broker, which is not asked: it could not use this broker's journal."""
        question = Offer(ASKED, self._node_id, False).encode()
        asked = Deferred.fromCoroutine(ask_once(self._side, place, lambda java: None if java else (OFFER_VOTE, question)))
        limit = self._side.runtime.call_later(OFFER_SECONDS, asked.cancel)

        def ended(result: Any) -> Any:
            limit.cancel()
            return result

        return asked.addBoth(ended).addCallback(lambda answer: Offer.decode(answer) if answer else None)

    # --- the host

    async def _stay(self, node_id: str, place: TransportConfiguration, request: BackupRequest) -> None:
        """Ask the broker at ``place``, and stay connected as long as it hosts the backup.  Raises MQError when it does not take it."""
        side, runtime = self._side, self._side.runtime

        async def greet(connection: Connection) -> None:
            if await ask_product(connection, side.credentials, PRODUCT) != PRODUCT:
                raise NotConnectedError(f"the broker at {describe(place)} is of another kind")
            answer: BackupRequestResponse = await connection.cluster_channel.call(request, BackupRequestResponse)
            if not answer.backup_started:
                raise NotConnectedError(f"the broker at {describe(place)} refuses")

        def lost(error: MQError) -> None:
            log.warn("the broker at {place} hosts the backup of this one no longer: {error}", place=describe(place), error=error)
            self._pause.end()

        locator = Locator(runtime, [place], side.settings(), greet=greet, follow=False)
        try:
            factory = await locator.create_session_factory()
            factory.add_failure_listener(LossListener(lost))
            if factory.closed:
                raise NotConnectedError("the connection was lost")
            self.host, self._told = node_id, ""
            log.info("the broker {node} at {place} hosts the backup of this one", node=node_id, place=describe(place))
            if not self._stopped:
                await self._pause.wait(None)
        finally:
            self.host = None
            await locator.close()
