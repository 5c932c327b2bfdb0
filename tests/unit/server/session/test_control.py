"""The metadata of a session."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from tests.support.broker import World


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
