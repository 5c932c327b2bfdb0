"""Store-and-forward queues of a cluster connection."""

from __future__ import annotations

from unittest import mock

from mqbroker.cluster.membership import store_and_forward
from mqbroker.cluster.membership.member import Member
from mqbroker.cluster.membership.store_and_forward import StoreAndForwardLoads
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqclient.errors import IllegalStateError
from tests.support.clock import START_MS
from tests.unit.cluster.flow_support import PEER
from tests.unit.cluster.test_connection import ConnectionTestCase, carried


class StoreAndForwardTests(ConnectionTestCase):
    """Messages are routed to the queue as long as the member is known: without it they would be lost."""

    def delete(self, found: Member) -> None:
        self.world.messaging.administration.delete_address(carried(found).queue.name, force=True)

    def test_what_a_member_needs_is_not_deleted(self) -> None:
        found = self.appear(PEER, 1)
        queue = carried(found).queue
        error = self.assertRaises(IllegalStateError, self.delete, found)
        self.assertIn(f"messages for the member {PEER} of the cluster connection c wait there", str(error))
        self.assertFalse(queue.deleted)

    def test_nor_while_the_cluster_connection_is_stopped(self) -> None:
        queue = carried(self.appear(PEER, 1)).queue
        self.connection.stop()
        self.assertRaises(IllegalStateError, self.world.messaging.administration.delete_address, queue.name, force=True)

    def test_what_is_left_of_one_that_has_gone_may_be(self) -> None:
        found = self.appear(PEER, 1)
        queue = carried(found).queue
        found.gave_up()
        self.world.messaging.administration.delete_address(queue.name, force=True)
        self.assertTrue(queue.deleted)

    def test_what_an_earlier_life_may_have_sent_expires_at_the_member(self) -> None:
        queue = carried(self.appear(PEER, 1)).queue
        sending = self.world.session()
        for number in (b"1", b"2"):
            sending.publish(number, queue.definition.address, routing_type=None, expiration=START_MS + 1000)
        self.world.store.sync()
        self.assertEqual(queue.message_count, 2)
        with mock.patch.object(store_and_forward, "IN_FLIGHT_MESSAGES_MAX", 1):
            StoreAndForwardLoads(self.world.server, ClusterConnectionConfiguration("c", "self"), self.loads.ways, print)
        self.clock.advance(2)
        self.world.messaging.expiry_reaper.scan()
        self.assertEqual((queue.message_count, queue.messages_expired), (1, 1))
