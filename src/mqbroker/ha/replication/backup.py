"""The passive broker of a pair: it looks for an active one that takes it as its replica, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger, LogLevel

from mqbroker.cluster.links.opening import ask_product
from mqbroker.cluster.links.pause import Pause
from mqbroker.ha.replication.following import Following, FollowingOwner, Registration
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqclient.core.api import LocatorSettings
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime
from mqclient.errors import ClusterSecurityError, MQError
from mqclient.protocol.topology import Topology, TopologyMember, same_place

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ClusterConnectionConfiguration
    from mqbroker.server.transport.cluster_channel import ClusterCredentials
    from mqclient.core.connection.connection import Connection
    from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.ha")

UNANNOUNCED_SECONDS = 0.5
"""Between two looks for a first place of a discovery group: brokers announce themselves every few seconds, and are needed at once."""


@dataclass(frozen=True, slots=True)
class ClusterSide:
    """How a broker of a pair reaches others: ``own`` is its connector, ``places`` gives those of the cluster connection without it.

    ``close`` ends the search for such places.
    """

    runtime: Runtime
    connection: ClusterConnectionConfiguration
    credentials: ClusterCredentials
    own: TransportConfiguration
    places: Callable[[], Sequence[TransportConfiguration]]
    close: Callable[[], object]
    _refusing: set[str] = field(default_factory=set, init=False)
    """The places of which it was said that they refuse the password."""

    def settings(self) -> LocatorSettings:
        """Settings of connections to other brokers, which are tried once."""
        connection = self.connection
        return LocatorSettings(
            ha=True,
            use_topology_for_load_balancing=False,
            call_timeout=connection.call_timeout,
            client_failure_check_period=connection.check_period,
            connection_ttl=connection.connection_ttl,
        )

    def refuses(self, place: TransportConfiguration) -> None:
        """The broker at ``place`` refuses the cluster password: say so, once until it accepts it."""
        name = describe(place)
        if name not in self._refusing:
            self._refusing.add(name)
            log.warn(
                "AMQ229099: the broker at {place} refuses the cluster user and password of this one, which neither copies from it "
                "nor takes it for gone: give both the same cluster-user and cluster-password",
                place=name,
            )

    def accepts(self, place: TransportConfiguration) -> None:
        self._refusing.discard(describe(place))

    async def members(self, places: Iterable[TransportConfiguration]) -> Topology:
        """The members of the cluster as the first broker at ``places`` that answers knows them; none when nobody answers."""

        async def log_in(connection: Connection) -> None:
            # A broker that seeks tells other mqbrokers that somebody is there.
            await ask_product(connection, self.credentials, PRODUCT)

        topology = Topology()
        for place in places:
            locator = Locator(self.runtime, [place], self.settings(), topology=topology, greet=log_in, follow=False)
            try:
                await locator.create_session_factory()
                self.accepts(place)
                break
            except ClusterSecurityError:
                self.refuses(place)
            except MQError:
                continue
            finally:
                await locator.close()
        return topology


class ReplicatedBackup:
    """Follows one active broker after the other until :meth:`stop`.

    ``registration()`` is what it says of itself now.  ``known`` are places beside those of the cluster connection.  ``refused(member)``
    is called when that broker, of this kind, refuses it; the next one is tried once the result fires, which says whether the broker is of
    the same node.  ``unheard()`` is called after a round in which nobody has taken it, and nobody of its node has refused it; the pause
    before the next one begins once the result fires.
    """

    def __init__(
        self,
        side: ClusterSide,
        retry_seconds: float,
        registration: Callable[[], Registration],
        known: Callable[[], Sequence[TransportConfiguration]],
        owner: FollowingOwner,
        refused: Callable[[TopologyMember], Deferred[bool]],
        unheard: Callable[[], Deferred[Any]],
    ) -> None:
        self.topology = Topology()
        """The members of the cluster, as they were known last."""
        self._side = side
        self._retry_seconds = retry_seconds
        self._registration = registration
        self._known = known
        self._owner = owner
        self._refused = refused
        self._unheard = unheard
        self._following: Following | None = None
        self._stopped = True
        self._pause = Pause(side.runtime)
        self._round = 0
        """Tells the search that runs from one that was stopped."""

    def start(self) -> None:
        if self._stopped:
            self._stopped = False
            self._round += 1
            self._side.runtime.spawn(self._run(self._round))

    def stop(self) -> None:
        """Follow nobody."""
        self._stopped = True
        if self._following is not None:
            self._following.end()
            self._following = None
        self._pause.end()

    def leave_folder(self, done: Callable[[], object]) -> None:
        """Answer the active broker no more, and look for no other; ``done`` is called when the files are closed.

        The connection stays for questions, until :meth:`stop`.
        """
        self._stopped = True
        if self._following is None:
            done()
        else:
            self._following.leave_folder(done)

    def ask(self, handler: str, question: bytes) -> Deferred[bytes] | None:
        """Ask the active broker over the connection to it; None without one."""
        return None if self._following is None else self._following.ask(handler, question)

    @property
    def is_searching(self) -> bool:
        """Does it follow a broker, or look for one?  Not after :meth:`leave_folder`."""
        return not self._stopped

    @property
    def taken(self) -> int | None:
        """Bytes that have come from the active broker; None when this one follows nobody."""
        return None if self._following is None else self._following.taken

    # --- the search

    async def _run(self, number: int) -> None:
        runtime = self._side.runtime
        while self._goes_on(number):
            try:
                heard = False
                for member in await self._candidates():
                    if not self._goes_on(number):
                        return
                    heard = await self._follow(member) or heard
                if not heard and self._goes_on(number):
                    await self._unheard()
            except Exception as error:  # a defect must not leave this broker alone for ever
                if self._goes_on(number):
                    runtime.log_failure("the search for an active broker failed", error)
            if self._goes_on(number):
                place_known = bool(self._known() or self._side.places())
                await self._pause.wait(self._retry_seconds if place_known else min(UNANNOUNCED_SECONDS, self._retry_seconds))

    def _goes_on(self, number: int) -> bool:
        return not self._stopped and number == self._round

    async def _follow(self, member: TopologyMember) -> bool:
        """Has the broker taken this replica, or refused it as a broker of the same node?"""
        side, place = self._side, member.primary
        assert place is not None
        following = Following(side.runtime, side.settings(), self.topology, place, self._registration(), self._owner)
        self._following = following
        try:
            await following.run()
        except MQError as error:
            # Brokers that have no place for a replica are asked again and again.
            level = LogLevel.info if following.refusal is None else LogLevel.debug
            log.emit(level, "no replica at {place}: {error}", place=describe(place), error=error)
            if following.refusal is None:
                return False
            return self._stopped or await self._refused(member)
        finally:
            if self._following is following:
                self._following = None
        return True

    async def _candidates(self) -> list[TopologyMember]:
        """The active brokers that this one may follow."""
        side, registration = self._side, self._registration()
        self.topology = await side.members((*self._known(), *side.places()))
        found = []
        for member in self.topology:
            wanted = registration.node_id in ("", member.node_id)
            if registration.group_name is not None and not registration.node_id:
                wanted = member.backup_group_name == registration.group_name
            if wanted and member.primary is not None and not same_place(member.primary, side.own):
                found.append(member)
        return found
