"""Clients that use what home brokers share beside queues: client ids and temporary destinations; and the change of the master."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mqbroker.imq.master.change_of_master import MasterChangeError
from mqclient.errors import DuplicateMetadataError, MQError
from tests.simulation.cluster.actors import AtNode
from tests.simulation.imq.node import HomeNode
from tests.simulation.others import TemporaryUser

if TYPE_CHECKING:
    from tests.simulation.imq.run import HomeSimulation

CLIENT_ID = "jms-client-id"
IDS = ("client a", "client b")
TEMPORARY = "temporary."
"""Beginning of the names of temporary destinations."""
CHANGED_WITHIN = 20.0
"""Seconds in which a change of the master ends: its requests and its waits for the disk have limits of two seconds each."""


class ClientIdUser(AtNode):
    """Takes a client id for a while, now and then; what it is told must hold for all members that its broker is linked with."""

    node: HomeNode  # type: ignore[assignment]

    def __init__(self, simulation: Any, name: str) -> None:
        super().__init__(simulation, name)
        self.settings.reconnect_attempts = 0
        self.mortal = True

    async def work(self) -> None:
        for _ in range(self.rng.randrange(2, 6)):
            client_id = self.rng.choice(IDS)
            try:
                session = await self.session()
                links = linked_both_ways(self.node)
                await self.call(f"take {client_id}", lambda session=session, own=client_id: session.add_unique_metadata(CLIENT_ID, own))
                self._check(client_id, links)
            except DuplicateMetadataError:
                self.world.note(f"{self.name}: {client_id} is used")
            except MQError:
                await self.pause(0.05)
            await self.pause(self.rng.uniform(0, 0.8))
            await self.leave()
            await self.pause(self.rng.uniform(0, 0.5))

    def _check(self, client_id: str, links: dict[str, tuple[Any, Any]]) -> None:
        """Has no member the id that was linked all the time?"""
        node = self.node
        if not node.serves or not holds(node, client_id):
            return  # the connection is gone by now
        still = linked_both_ways(node)
        for other in node.peers:
            if links.get(other.node_id) is not None and still.get(other.node_id) == links[other.node_id] and holds(other, client_id):
                self.world.violation(f"{client_id} is held at {node.name} and at {other.name}, which are linked")


def linked_both_ways(node: HomeNode) -> dict[str, tuple[Any, Any]]:
    """The links to and from each member, by its node id, where both are up."""
    found = {}
    for other in node.peers if node.serves else ():
        if other is not node and other.serves:
            there = node.homes.links.members.get(other.node_id)
            back = other.homes.links.members.get(node.node_id)
            if there is not None and back is not None:
                found[other.node_id] = there, back
    return found


def holds(node: HomeNode, client_id: str) -> bool:
    """Has the broker given the id to a client that uses it?"""
    if not node.serves:
        return False
    claim = node.homes.shared.reservations._claims.get((CLIENT_ID, client_id))
    return claim is not None and claim.held and claim.taken


class HomeTemporaryUser(AtNode, TemporaryUser):
    """Its destinations are known to all members."""


def shared_problems(live: Sequence[HomeNode]) -> list[str]:
    """What members that are all linked disagree on."""
    found = []
    for client_id in IDS:
        holders = [node.name for node in live if holds(node, client_id)]
        if len(holders) > 1:
            found.append(f"{client_id} is held at {' and at '.join(holders)}")
    masters = {node.homes.master for node in live}
    if len(masters) > 1:
        found.append(f"the masters are {sorted(str(master) for master in masters)}")
    found += [f"{node.name} takes no changes: {node.homes.shared.recording.keeping.blocked}" for node in live if node.is_blocked]
    return found


def temporary_left(live: Sequence[HomeNode]) -> list[str]:
    """Temporary destinations whose clients have gone."""
    return [f"{name} of {node.name}" for node in live for name in node.messaging.core.queues if name.startswith(TEMPORARY)]


class MasterChanges:
    """An administrator makes another broker the master, some times."""

    def __init__(self, simulation: HomeSimulation, rng: random.Random) -> None:
        self._simulation = simulation
        self._rng = rng
        self.made = 0
        for _ in range(rng.choice((1, 1, 2, 3))):
            simulation.world.schedule(rng.uniform(0.5, 7.0), self._change)

    def _change(self) -> None:
        simulation = self._simulation
        nodes = [node for node in simulation.nodes if node.serves and not node.process.stopping]
        old = next((node for node in nodes if node.homes.shared.recording.is_master), None)
        away = None if simulation.plan.away is None else simulation.plan.away[0]
        others = [node for node in simulation.nodes if node is not old and node.number != away]
        if old is None or not others:
            return
        new = self._rng.choice(others)
        simulation.world.note(f"{new.name} is to be the master in the place of {old.name}")
        outcome: list[str] = []
        process = old.process

        def begin() -> None:
            changed: Deferred[None] = old.homes.change_master(simulation.plan.place_of(new.number))
            changed.addCallbacks(lambda _: outcome.append("OK"), lambda failure: outcome.append(_status(failure)))
            changed.addBoth(lambda _: simulation.world.note(f"the change of the master has ended: {outcome[0]}"))

        old.server.turn.run(begin)

        def look() -> None:
            if process.alive and not outcome:
                simulation.world.violation(f"a change of the master by {old.name} does not end")
            self.made += outcome == ["OK"]

        simulation.world.schedule(CHANGED_WITHIN, look)


def _status(failure: Failure) -> str:
    return failure.value.status if failure.check(MasterChangeError) is not None else repr(failure.value)
