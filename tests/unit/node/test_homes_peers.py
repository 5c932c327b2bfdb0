"""A member of a cluster of peers, assembled: its record is in a database, through which members may find each other."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.peers.looking import LOOK_SECONDS
from mqbroker.imq.peers.member_table import PRESENT_SECONDS
from mqbroker.imq.peers.record_table import RecordTable
from mqbroker.imq.record.record import ChangeRecord
from mqbroker.node.parts import StartError
from mqbroker.storage.memorystore import MemoryStore
from mqclient.protocol.topology import place
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.support.diskwriter import WriterInTurns
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.config.imq.support import PROPERTIES, Files, Made
from tests.unit.imq.peers.support import MemoryDatabase

TEXT = (
    "imq.cluster.nomasterbroker=true\nimq.cluster.clusterid=c\nimq.cluster.sharecc.persist.jdbc.dbVendor=sqlite\n"
    "imq.cluster.sharecc.persist.jdbc.sqlite.opendburl=jdbc:sqlite:/the.db\n"
)


class PeersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.database = MemoryDatabase()
        self.addCleanup(self.database.close)
        self.restarts = 0
        self.clock = FakeClock()

    def restart(self) -> None:
        self.restarts += 1

    def make_writer(self, in_turn: Any) -> WriterInTurns:
        self.writer = WriterInTurns(in_turn, self.clock)
        return self.writer

    def start(self, text: str = TEXT, *, database: bool = True, restart: bool = True) -> World:
        made = Made(text)
        assert made.instance is not None, made.errors
        made.configuration.security_enabled = False
        files = Files({PROPERTIES: text})
        self.failures: list[str] = []
        self.world = World(
            made.configuration,
            clock=self.clock,
            store=MemoryStore(lambda size: bytes(range(size)), None, self.failures.append),
            imq=made.instance,
            make_runtime=lambda: MemoryRuntime(self.clock),
            read_file=files.read,
            make_writer=self.make_writer,
            record=self.database if database else None,
            restart=self.restart if restart else None,
        )
        self.world.broker.others.join()
        self.settle()
        return self.world

    def settle(self) -> None:
        for _ in range(10):
            self.clock.run_due()

    def look(self) -> None:
        self.clock.advance(LOOK_SECONDS)
        self.settle()

    @property
    def homes(self) -> Any:
        clustering = self.world.broker.others.clustering
        assert clustering is not None
        return clustering.homes

    def places(self) -> list[tuple[str, str]]:
        clustering = self.world.broker.others.clustering
        assert clustering is not None
        return [place(each) for each in clustering.connection_of_homes.places()]

    def listed(self) -> list[str]:
        rows = json.loads(self.world.registry.invoke("imq.broker", "listBrokers", []))["brokers"]
        return [row["address"] for row in rows]

    def note(self, member: str, seconds_ago: int = 0) -> None:
        now = self.database.now
        connection = self.database.connect()
        connection.run(f"INSERT INTO mqbroker_member (cluster, place, seen) VALUES ('c', ?, {now} - ?)", (member, seconds_ago * 1000))

    def test_it_has_the_record_and_no_master(self) -> None:
        self.start()
        self.assertTrue(self.homes.shared.recording.synchronised)
        self.assertIsNone(self.homes.master)

    def test_members_are_found_in_the_database(self) -> None:
        self.start()
        self.assertEqual((self.places(), self.listed()), ([], ["here:7676"]))
        self.note("b2:7676")
        self.look()
        self.assertEqual((self.places(), self.listed()), ([("b2", "7676")], ["b2:7676", "here:7676"]))

    def test_those_that_were_not_there_for_long_are_listed_and_not_dialled(self) -> None:
        self.start()
        self.note("b2:7676", PRESENT_SECONDS + 1)
        self.look()
        self.assertEqual((self.places(), self.listed()), ([], ["b2:7676", "here:7676"]))

    def test_a_reload_keeps_members_of_the_database(self) -> None:
        self.start()
        self.note("b2:7676")
        self.look()
        self.successResultOf(self.homes.reload())
        self.assertEqual(self.places(), [("b2", "7676")])

    def test_a_list_comes_before_the_database(self) -> None:
        self.start(TEXT + "imq.cluster.brokerlist=here,b3")
        self.note("b2:7676")
        self.look()
        self.assertEqual((self.places(), self.listed()), ([("b3", "7676")], ["here:7676", "b3:7676"]))

    def test_it_looks_as_soon_as_a_link_has_ended(self) -> None:
        self.start()
        self.note("b2:7676")
        peer = SimpleNamespace(name="b2:7676", node_id="b2")
        self.world.server.turn.run(self.homes._same_record._peers.unlinked, peer)
        self.settle()
        self.assertEqual(self.places(), [("b2", "7676")])

    def replace_record(self) -> None:
        table, connection = RecordTable(self.database, "c"), self.database.connect()
        table.delete(connection)
        table.create(connection)
        table.put(connection, ChangeRecord.begin("restored", "b9:7676", 0))

    def test_it_starts_again_when_another_record_has_come(self) -> None:
        self.start()
        self.replace_record()
        self.look()
        self.assertEqual((self.restarts, self.failures), (1, []))

    def test_where_nobody_can_start_it_again_it_ends(self) -> None:
        self.start(restart=False)
        self.replace_record()
        self.look()
        [reason] = self.failures
        self.assertIn("PRECONDITION_FAILED", reason)

    def test_without_its_database_it_does_not_start(self) -> None:
        error = self.assertRaises(StartError, self.start, database=False)
        self.assertIn("the database of the change record was not opened", str(error))

    def test_a_stop_closes_the_connection(self) -> None:
        self.start()
        clustering = self.world.broker.others.clustering
        assert clustering is not None
        stopped = clustering.stop()
        self.settle()
        self.successResultOf(stopped)
        connects = self.database.connects
        self.look()
        self.assertEqual(self.database.connects, connects)

    def test_a_stop_that_is_cut_short_ends_the_thread_too(self) -> None:
        self.start()
        clustering = self.world.broker.others.clustering
        assert clustering is not None
        clustering.cut()
        self.settle()
        self.assertTrue(self.writer.closed)
