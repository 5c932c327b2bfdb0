"""The load of the links of a home cluster: sessions of the cluster user, for the parts of this broker that need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.cluster.links.bridge import Bridge
from mqbroker.cluster.membership.store_and_forward import member_bridge_settings
from mqbroker.imq.links.home_links import HomeLinks
from mqclient.core.connection.connection import describe
from mqclient.core.session.session import Session
from mqclient.errors import NotConnectedError

if TYPE_CHECKING:
    from mqbroker.cluster.membership.load import Link, LinkedTo, LoadOwner
    from mqbroker.server.transport.cluster_channel import ClusterCredentials
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.protocol.topology import TopologyMember

log = Logger(namespace="mqbroker.imq")


class HomeMember:
    """One link to another member (a :class:`~mqbroker.imq.links.home_links.LinkedMember`)."""

    def __init__(self, node_id: str, factory: SessionFactory, credentials: ClusterCredentials) -> None:
        self.node_id = node_id
        self.name = describe(factory.connector)
        self.up = True
        self._factory = factory
        self._credentials = credentials

    async def open_session(self, *, transacted: bool = False, xa: bool = False) -> Session:
        if not self.up:
            raise NotConnectedError(f"the link to {self.name} is lost")
        credentials = self._credentials
        return await self._factory.create_session(
            credentials.user,
            credentials.password,
            xa=xa,
            auto_commit_acks=not transacted,
            auto_commit_sends=not transacted,
            pre_acknowledge=False,
        )

    def fail(self, reason: Exception) -> None:
        connection = self._factory.connection
        if self.up and connection is not None:
            log.warn("the link to {name} is given up: {reason}", name=self.name, reason=str(reason))
            connection.fail(NotConnectedError(str(reason)))

    def lost(self) -> None:
        """The link is gone."""
        self.up = False


class _Cargo:
    """The session that a bridge opens for messages: none go over a home link."""

    def prepare(self, session: Session) -> None: ...

    def attach(self, session: Session) -> None: ...

    def detach(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close_when_settled(self, seconds: float) -> Deferred[None]:
        return succeed(None)

    def figures(self) -> dict[str, Any]:
        return {}


class HomeLoad:
    """The link to one member (a :class:`~mqbroker.cluster.membership.load.Load`).

    A member that is back makes its own link at once; the one to it then does not wait for its next attempt either.
    """

    waiting = 0

    def __init__(self, links: HomeLinks, owner: LoadOwner, node_id: str, consumers: Callable[[str], int]) -> None:
        self._links = links
        self._owner = owner
        self._node_id = node_id
        self._consumers = consumers
        self._factory: SessionFactory | None = None
        self._member: HomeMember | None = None
        self._bridge: Bridge | None = None
        self._unsubscribe = owner.topology.heard_from.subscribe(self._heard_from)

    def make_link(self, member: LinkedTo) -> Link:
        owner = self._owner
        name = f"{owner.name}.{self._node_id}"
        # Sessions end with the link: nothing is kept for their reattachment.
        settings = replace(member_bridge_settings(owner, name), confirmation_window_size=-1)
        locators = owner.locators
        self._bridge = Bridge(
            name, owner.runtime, member.connectors, settings, _Cargo(), member, topology=locators.topology, greet=locators.greet
        )
        return self._bridge

    def _heard_from(self, node_id: str) -> None:
        if node_id == self._node_id and self._bridge is not None:
            self._bridge.try_now()

    async def connected(self, factory: SessionFactory) -> None:
        self._factory = factory

    def started(self) -> None:
        assert self._factory is not None
        self._member = HomeMember(self._node_id, self._factory, self._owner.locators.credentials)
        log.info("{name} ({node}) is linked", name=self._member.name, node=self._node_id)
        self._links.up(self._member)

    def disconnected(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            member.lost()
            self._links.down(member)

    def end(self) -> None:
        self.disconnected()

    def move_to(self, node_id: str) -> None: ...

    def forgotten(self, running: bool) -> None:
        self._unsubscribe()
        self.disconnected()

    def rows(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def figures(self) -> dict[str, Any]:
        return {"remoteConsumers": self._consumers(self._node_id)}

    def series(self) -> Sequence[tuple[str, str, Callable[[], float]]]:
        consumers = self._consumers
        node_id = self._node_id
        return (("cluster.link.remote.consumers", "Consumers that this broker has there for its clients", lambda: consumers(node_id)),)


class HomeLoads:
    """Makes the loads of a home cluster (:class:`~mqbroker.cluster.membership.load.Loads`).

    ``consumers`` gives the number of consumers that this broker has at a member.
    """

    stand_ins = True

    def __init__(self, links: HomeLinks, consumers: Callable[[str], int]) -> None:
        self._links = links
        self._consumers = consumers

    def load(self, owner: LoadOwner, announced: TopologyMember) -> HomeLoad:
        return HomeLoad(self._links, owner, announced.node_id, self._consumers)

    def stop(self) -> None: ...
