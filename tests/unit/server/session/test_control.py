"""The metadata of a session."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from tests.support.broker import World
from tests.support.registrar import SlowRegistrar


class MetadataTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def test_unique_metadata_is_unique_in_the_whole_broker(self) -> None:
        first, second = self.world.session(), self.world.session()
        claim = wire.UniqueAddMetadata("jms-client-id", "me", True)
        first.ok(claim)
        first.ok(claim)
        self.assertEqual(second.error(claim), 114)
        second.ok(wire.UniqueAddMetadata("jms-client-id", "you", True))
        first.peer.lose()
        second.ok(claim)

    def test_plain_metadata_needs_no_uniqueness_and_is_answered_on_demand(self) -> None:
        first, second = self.world.session(), self.world.session()
        for session in (first, second):
            session.ok(wire.AddMetadataV2("jms-client-id", "me", True), wire.AddMetadata("k", "v"))
            session.send(wire.AddMetadataV2("x", "y", False))
            self.assertEqual(session.take(), [])
        self.assertEqual(first.peer.connection.client_id, "me")

    def test_a_session_cannot_hoard(self) -> None:
        session = self.world.session()
        for number in range(500):
            session.send(wire.AddMetadataV2(f"k{number}", "v", False))
        self.assertLessEqual(len(session.server_session.metadata), 100)

    def test_nor_can_it_hoard_what_others_may_not_have(self) -> None:
        registrar = SlowRegistrar()
        session = World(registrar=registrar).session()
        for number in range(200):
            session.call(wire.UniqueAddMetadata("k", str(number), True))
        self.assertEqual(list(registrar.owners), [("k", "199")])
        for number in range(200):
            session.call(wire.UniqueAddMetadata(f"k{number}", "v", True))
        self.assertEqual(len(registrar.owners), 100)
        self.assertEqual(session.error(wire.UniqueAddMetadata("another", "v", True)), 104)
        session.ok(wire.UniqueAddMetadata("k", "199", True))
        session.peer.lose()
        self.assertEqual(registrar.owners, {})
