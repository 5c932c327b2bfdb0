"""A primary and its backups on one database: leases say who may be active, and the row of their session refuses all others.

The judgement knows nothing of leases and states.  The process that became the owner of the session last has the data; all before are
*former holders*, whatever they believe.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.ha.shared_store.activation import SharedStoreActivation
from mqbroker.node.activation import Surroundings
from mqbroker.storage.sql.schema import PRIMARY_LEASE
from tests.simulation.database.connections import URL
from tests.simulation.database.on_database import OnDatabase
from tests.simulation.database.server import DatabaseServer, Taking
from tests.simulation.database.threads import Threads
from tests.simulation.ha.ledger import HaLedger
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.own_disks import OwnDisksGroup
from tests.simulation.ha.plan import HaPlan
from tests.simulation.policies import Plan
from tests.simulation.world import Process, World

EXPIRATIONS = (800, 1500, 3000)
"""ms that leases last in different runs."""
LOOKED_AT_EVERY = 20
"""Events after which is looked again whether a former holder is active still."""
UNNOTICED_SECONDS = 2.5
"""So long a former holder may be active that nothing holds up: it looks once a second."""


class PairNode(OnDatabase, HaNode):
    """One of the brokers; each has a folder of its own for what comes in."""

    group: DatabaseGroup

    def __init__(self, group: DatabaseGroup, number: int, ledger: HaLedger) -> None:
        self.database_store = group.database_store
        super().__init__(group.server, group, number, ledger)

    def surroundings(self, process: Process, network_answers: Callable[[], Deferred[bool]] | None) -> Surroundings:
        patience = self.database_store.lock_renew_period / 1000
        return self.with_database(super().surroundings(process, network_answers), process, patience)

    def freeze(self, seconds: float) -> None:
        self.world.note(f"{self.process.name} stands still for {seconds:.3f} s")
        self.stands_still_until = max(self.stands_still_until, self.world.now + seconds)
        super().freeze(seconds)

    def stand_still(self, seconds: float, in_the_middle: bool) -> None:
        self.freeze(seconds)
        if in_the_middle:
            self.threads.wait(self.process, seconds)

    @property
    def holder(self) -> str:
        """Its name in the rows of leases."""
        assert isinstance(self.activation, SharedStoreActivation)
        name: str = self.activation._place._locks._row._holder  # type: ignore[attr-defined]
        return name

    def may_fail(self, reason: str) -> bool:
        return self.group.may_fail(self, reason) or super().may_fail(reason)

    @property
    def has_paged(self) -> bool:
        return self.group.activations > 1


class DatabaseGroup(OwnDisksGroup):
    """Brokers that share a database."""

    nodes: list[PairNode]  # type: ignore[assignment]

    def __init__(self, world: World, plan: HaPlan, ledger: HaLedger, settings: Plan) -> None:
        self.threads = Threads(world)
        self.server = DatabaseServer(world, self.threads)
        expiration = world.generator("lease").choice(EXPIRATIONS)
        self.database_store = DatabaseStoreConfiguration(URL, lock_expiration=expiration, lock_renew_period=expiration // 4)
        self._former_since: dict[str, float] = {}
        """By process: since when it is active although another one has the data, and nothing holds it up."""
        super().__init__(world, plan, ledger, settings)
        self.server.on_taking = self._taken
        ledger.turn_at = lambda time: sum(taking.time <= time for taking in self.server.takings)
        world.watch(self._look)

    def make_node(self, number: int) -> PairNode:
        return PairNode(self, number, self.ledger)

    def heal(self) -> None:
        super().heal()
        self.server.heal()
        for node in self.nodes:
            # Starts that did not find the database have met none of it.
            node.trouble.clear()

    # --- who has the data

    def holds(self, node: HaNode) -> bool:
        assert isinstance(node, PairNode)
        return node.owns_data

    def may_fail(self, node: HaNode, reason: str) -> bool:
        """A lease is lost when another broker has it, or when nobody could renew it in time."""
        assert isinstance(node, PairNode)
        if self._lease_holder() != node.holder:
            return any(text in reason for text in ("FencedError", "lease", "another broker has taken the data", "have another owner"))
        return "lease" in reason and self._may_lose_lease(node)

    def _may_lose_lease(self, node: PairNode) -> bool:
        troubled = max(self.server.last_trouble, node.stands_still_until)
        return self.world.now - troubled < self.database_store.lock_expiration / 1000 + 1.0

    def _taken(self, taking: Taking) -> None:
        """A process has the data now: nobody who is active and well may have had them."""
        for node in self.nodes:
            was_owner = node.running and node.store.owner == taking.former
            if was_owner and node.serves and not node.process.stopping and not self._may_lose_lease(node):
                self.world.violation(f"another broker takes the data, although {node.process.name} is active, and nothing is wrong with it")

    def _lease_holder(self) -> str:
        rows = self.server.ask("SELECT holder FROM {lease} WHERE name = ?", (PRIMARY_LEASE,)) if self.server.has_tables else []
        return str(rows[0][0]) if rows else ""

    def became_active(self, node: HaNode) -> None:
        turn = self.server.turn_of(node.store.owner)  # type: ignore[attr-defined]
        if turn == len(self.server.takings):  # who has stood still may become active late, and notices with its next look
            super().became_active(node)
        node.process.life = turn
        if not turn:
            self.world.violation(f"{node.name} is active, and the data were never its own")
        for each in self.nodes:
            each.node_id = each.node_id or node.node_id

    def lose_locks(self, node: HaNode) -> None:
        """Leases end by their time alone, see :class:`tests.simulation.database.pair_faults.ClockPutForward`."""

    def _look(self) -> int:
        now = self.world.now
        for node in self.nodes:
            if not node.serves or node.owns_data or node.process.stopping:
                self._former_since.pop(node.name, None)
                continue
            since = max(self._former_since.setdefault(node.name, now), node.stands_still_until, self.server.last_trouble)
            if now - since > UNNOTICED_SECONDS:
                self.world.violation(f"{node.process.name} is active {now - since:.1f} s after another broker has taken the data")
        return LOOKED_AT_EVERY

    # --- what clients and checks see

    @property
    def held_up_until(self) -> float:
        return max(super().held_up_until, self.server.last_trouble, *(node.slow_until for node in self.nodes))

    def differences(self) -> list[str]:
        found = super().differences()
        if not found and not self.serving[0].owns_data:  # type: ignore[attr-defined]
            found.append(f"{self.serving[0].name} is active, and the data are another broker's")
        return found
