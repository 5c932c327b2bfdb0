"""The figures that metrics show."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.cluster_port import ColocatedFigures, CopyFigures, HostedFigures
from mqbroker.server.observation.figures import BrokerFigures, PassiveFigures
from mqbroker.server.observation.metrics import render
from tests.support.broker import World
from tests.unit.cluster.support import KnownOthers


class FigureTests(SynchronousTestCase):
    def lines(self, world: World) -> set[str]:
        return set(b"".join(render(BrokerFigures(world.server, lambda: 0.25, lambda: None))).decode().splitlines())

    def test_of_a_broker_at_work(self) -> None:
        world = World(Configuration(name="b", security_enabled=False))
        session = world.session()
        session.create_queue("q")
        for _ in range(3):
            session.publish()
        session.consume(credits=1)
        lines = self.lines(world)
        for line in (
            'artemis_connection_count{broker="b"} 1',
            'artemis_session_count{broker="b"} 1',
            'artemis_active{broker="b"} 1',
            'artemis_disk_store_usage{broker="b"} 0.25',
            'artemis_routed_message_count{broker="b",address="q"} 3',
            'artemis_message_count{broker="b",address="q",queue="q"} 3',
            'artemis_delivering_message_count{broker="b",address="q",queue="q"} 1',
            'artemis_consumer_count{broker="b",address="q",queue="q"} 1',
        ):
            self.assertIn(line, lines)

    def test_a_limit_of_messages_counts_as_one_of_bytes(self) -> None:
        world = World(
            Configuration(name="b", security_enabled=False, address_settings={"q": {"max_size_messages": 10, "max_size_bytes": 1_000_000}})
        )
        session = world.session()
        session.create_queue("q")
        for _ in range(9):
            session.publish()
        self.assertIn('artemis_limit_percent{broker="b",address="q"} 90', self.lines(world))

    def test_addresses_without_metrics(self) -> None:
        world = World(Configuration(security_enabled=False, address_settings={"quiet.#": {"enable_metrics": False}}))
        session = world.session()
        session.create_queue("quiet.q")
        session.create_queue("loud")
        text = "\n".join(self.lines(world))
        self.assertIn("loud", text)
        self.assertNotIn("quiet", text)

    def test_logins(self) -> None:
        world = World(Configuration(name="b"))
        world.peer().open(username="admin", password="secret")
        world.peer().session(username="admin", password="wrong")
        lines = self.lines(world)
        self.assertIn('artemis_authentication_count{broker="b",result="success"} 1', lines)
        self.assertIn('artemis_authentication_count{broker="b",result="failure"} 1', lines)

    def test_hosted_backups(self) -> None:
        world = World(Configuration(name="b", security_enabled=False))
        world.server.others = KnownOthers()
        self.assertNotIn("hosted", "\n".join(self.lines(world)))
        for host, value in (("h", 1), (None, 0)):
            world.server.others.colocated = ColocatedFigures(host, [HostedFigures("colocated_backup_1", "n", "passive")])
            lines = self.lines(world)
            self.assertIn(f'artemis_backup_hosted{{broker="b"}} {value}', lines)
            self.assertIn('artemis_hosted_backup{broker="b",backup="colocated_backup_1",node="n",state="passive"} 1', lines)

    def test_a_replicated_pair_on_both_sides(self) -> None:
        world = World(Configuration(name="b", security_enabled=False))
        world.server.others = KnownOthers()
        self.assertIn('artemis_replica_sync{broker="b"} 0', self.lines(world))
        world.server.others.copies = CopyFigures(7, True, 10, 20, 5)
        passive = PassiveFigures("b", "backup", "passive", CopyFigures(6, False, 10, None))
        shown = set(b"".join(render(passive)).decode().splitlines())
        for lines, in_sync, sequence, sized in ((self.lines(world), 1, 7, True), (shown, 0, 6, False)):
            for name, value in (("replica_sync", in_sync), ("activation_sequence", sequence), ("replica_copied", 10)):
                self.assertIn(f'artemis_{name}{{broker="b"}} {value}', lines)
            self.assertEqual('artemis_replica_size{broker="b"} 20' in lines, sized)
            self.assertEqual('artemis_replica_behind{broker="b"} 5' in lines, sized)
        self.assertIn('artemis_passive{broker="b",role="backup",state="passive"} 1', shown)
