"""Requests to linked members: operations of their management resource ``imq``, one after the other over one session."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from mqbroker.imq.links.home_links import HomeLinks, LinkedMember
from mqbroker.imq.links.operations import RESOURCE
from mqbroker.messaging.event import Event
from mqbroker.messaging.turns.turn import Turn
from mqclient.errors import MQError, NotConnectedError
from mqclient.management import Management, ManagementError


class Peer(Protocol):
    """A linked member that can be asked.  Requests to it are carried out in their order."""

    @property
    def node_id(self) -> str: ...

    @property
    def name(self) -> str:
        """The place of the member, ``host:port``."""

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        """The result, as JSON values, inside a turn.

        Fails with ManagementError (of mqclient) when the member refuses, with OperationTimeoutError without an answer in time, and with
        another MQError when the link is lost: then the member may have carried the request out.
        """


class Peers(Protocol):
    """The linked members."""

    linked: Event[Peer]
    unlinked: Event[Peer]

    @property
    def by_id(self) -> Mapping[str, Peer]: ...

    def at(self, place: str) -> Peer | None:
        """The member at ``host:port``, if it is linked."""


class LinkedPeer:
    """Asks one member over a session that is opened with the first request."""

    def __init__(self, member: LinkedMember, new_name: Callable[[], str], timeout_ms: int, turn: Turn) -> None:
        self.node_id = member.node_id
        self.name = member.name
        self._member = member
        self._new_name = new_name
        self._timeout_ms = timeout_ms
        self._turn = turn
        self._management: Management | None = None
        self._waiting: deque[tuple[str, tuple[Any, ...], Deferred[Any]]] = deque()
        self._busy = False
        self._lost = False

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        answered: Deferred[Any] = Deferred()
        self._waiting.append((operation, parameters, answered))
        if not self._busy:
            self._busy = True
            Deferred.fromCoroutine(self._work())
        return answered

    def end(self) -> None:
        """The link is gone: everything that waits fails."""
        self._lost = True
        if not self._busy:
            return
        waiting, self._waiting = self._waiting, deque()
        for _, _, answered in waiting:
            answered.errback(self._gone())

    def _gone(self) -> NotConnectedError:
        return NotConnectedError(f"the link to {self.name} was lost")

    async def _work(self) -> None:
        while self._waiting:
            operation, parameters, answered = self._waiting.popleft()
            try:
                if self._lost:
                    raise self._gone()
                if self._management is None:
                    session = await self._member.open_session()
                    self._management = await Management.open(session, self._new_name(), self._timeout_ms)
                result = await self._management.invoke(RESOURCE, operation, *parameters)
            except ManagementError as error:
                self._turn.run(answered.errback, error)
            except Exception as error:  # an answer that is none must not end the work either
                # The session may have ended, or its member be slow: the next request opens another one.
                management, self._management = self._management, None
                if management is not None:
                    Deferred.fromCoroutine(_close(management))
                self._turn.run(answered.errback, error)
            else:
                self._turn.run(answered.callback, result)
        self._busy = False


async def _close(management: Management) -> None:
    with suppress(MQError):
        await management.session.close()


class LinkedPeers:
    """The members that :class:`HomeLinks` knows as linked, to be asked.

    ``new_name`` gives unique names for queues of answers.
    """

    def __init__(self, links: HomeLinks, new_name: Callable[[], str], timeout_s: float, turn: Turn) -> None:
        self.linked: Event[Peer] = Event()
        self.unlinked: Event[Peer] = Event()
        self._peers: dict[str, LinkedPeer] = {}
        self._make: Callable[[LinkedMember], LinkedPeer] = lambda member: LinkedPeer(member, new_name, round(timeout_s * 1000), turn)
        links.linked.subscribe(self._up)
        links.unlinked.subscribe(self._down)
        for member in links.members.values():
            self._up(member)

    @property
    def by_id(self) -> Mapping[str, Peer]:
        return self._peers

    def at(self, place: str) -> Peer | None:
        return next((peer for peer in self._peers.values() if peer.name == place), None)

    def _up(self, member: LinkedMember) -> None:
        peer = self._peers[member.node_id] = self._make(member)
        self.linked(peer)

    def _down(self, member: LinkedMember) -> None:
        peer = self._peers.pop(member.node_id, None)
        if peer is not None:
            peer.end()
            self.unlinked(peer)
