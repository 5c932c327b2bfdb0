"""A member of an enhanced cluster, assembled: its links lead to whom the database lists, and clients to whoever has their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.node.enhanced import EnhancedActivation
from mqbroker.storage.memorystore import MemoryStore
from mqbroker.storage.shared.brokers import BrokerRow, State
from mqclient.protocol.topology import place
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, SESSION_CHANNEL
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.support.diskwriter import WriterInTurns
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.config.imq.support import Made
from tests.unit.imq.peers.support import MemoryDatabase

TEXT = (
    "imq.cluster.ha=true\nimq.cluster.clusterid=c\nimq.brokerid=b1\nimq.persist.store=jdbc\n"
    "imq.persist.jdbc.opendburl=jdbc:sqlite:/the.db\nimq.cluster.heartbeat.interval=1\nimq.cluster.monitor.interval=1\n"
)
TAKER = BrokerRow("b2", "c", "there:7677", "node2", "1", State.OPERATING, "", 1, "", "")


class PlayedMembership:
    answers: dict[str, Any] = {}
    stamp_age_s, takeovers, takeovers_failed = 0.5, 0, 0

    def __init__(self) -> None:
        self.active: Any = None
        self.problem: str | None = None

    def attach(self, active: Any) -> None:
        self.active = active

    def detach(self) -> None:
        self.active = None

    def serves(self, node_id: str) -> bool:
        return node_id == "taken"

    def has(self, node_id: str) -> bool:
        return node_id == "taken"

    def owner_of(self, node_id: str) -> BrokerRow | None:
        return TAKER if node_id == "elsewhere" else None


class EnhancedTests(SynchronousTestCase):
    def setUp(self) -> None:
        made = Made(TEXT)
        assert made.instance is not None, made.errors
        made.configuration.security_enabled = False
        database = MemoryDatabase()
        self.addCleanup(database.close)
        self.clock = FakeClock()
        self.membership: Any = PlayedMembership()
        self.world = World(
            made.configuration,
            clock=self.clock,
            store=MemoryStore(lambda size: bytes(range(size)), None, lambda reason: None),
            imq=made.instance,
            make_runtime=lambda: MemoryRuntime(self.clock),
            make_writer=lambda in_turn: WriterInTurns(in_turn, self.clock),
            record=database,
            activation=EnhancedActivation(self.membership),
        )
        self.world.broker.others.join()
        for _ in range(10):
            self.clock.run_due()
        clustering = self.world.broker.others.clustering
        assert clustering is not None and clustering.homes is not None
        self.clustering, self.homes = clustering, clustering.homes

    def asks(self, node_id: str) -> Sequence[Any]:
        peer = self.world.peer()
        peer.send(wire.CheckForFailover(node_id), SESSION_CHANNEL)
        return [*peer.take(PING_CHANNEL), *peer.take(SESSION_CHANNEL)]

    def test_it_has_the_record_and_links_to_whom_the_membership_lists(self) -> None:
        self.assertTrue(self.homes.shared.recording.synchronised)
        self.membership.active.list_members(["there:7677"])
        self.assertEqual([place(each) for each in self.clustering.connection_of_homes.places()], [("there", "7677")])
        self.assertEqual(list(self.homes.brokers), ["here:7676", "there:7677"])

    def test_clients_go_where_their_data_are(self) -> None:
        self.assertEqual(self.asks("taken"), [wire.CheckForFailoverReply(True)])
        told, refusal = self.asks("elsewhere")
        self.assertEqual((told.node_id, place(told.primary), refusal), ("elsewhere", ("there", "7677"), wire.CheckForFailoverReply(False)))
        self.assertEqual(self.asks("unknown"), [wire.CheckForFailoverReply(False)])

    def test_a_database_that_is_away_is_a_problem_of_health(self) -> None:
        self.assertIsNone(self.clustering.problem())
        self.membership.problem = "the database does not answer"
        self.assertEqual(self.clustering.problem(), "the database does not answer")

    def test_a_stop_ends_the_membership(self) -> None:
        self.assertIn("imq.takeovers", {each.name for each in self.world.server.gauges})
        self.clustering.stop()
        self.assertIsNone(self.membership.active)
        self.assertNotIn("imq.takeovers", {each.name for each in self.world.server.gauges})
