"""The figures that metrics show."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.observation.figures import BrokerFigures
from mqbroker.server.observation.metrics import render
from tests.unit.server.support import World


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
