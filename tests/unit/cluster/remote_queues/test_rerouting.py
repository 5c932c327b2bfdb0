"""Messages for a member that has scaled down go to the broker that took its place."""

from __future__ import annotations

from dataclasses import replace

from mqbroker.cluster.membership.member import Member
from mqbroker.cluster.remote_queues import rerouting
from mqbroker.cluster.remote_queues.interests import Interests
from mqclient.wire.packets import Commit
from mqclient.wire.properties import LONG, STRING
from tests.unit.cluster.flow_support import OTHER, PEER, binding, consumer
from tests.unit.cluster.test_connection import ConnectionTestCase, carried


class ScaledDownTests(ConnectionTestCase):
    def store(self, found: Member) -> None:
        """A message waits for a queue of the member that nobody else has."""
        carried(found).flow.handle(binding())
        carried(found).flow.handle(consumer("CREATED"))
        sender = self.world.session()
        sender.publish(b"1", "q")
        self.assertEqual(carried(found).queue.message_count, 1)

    def test_of_a_member_whose_messages_have_followed_it_nothing_is_kept(self) -> None:
        leaving = self.appear(PEER, 1)
        self.scale_down(leaving, OTHER)
        self.clock.advance(0)
        self.assertTrue(carried(leaving).queue.deleted)
        self.assertEqual(self.loads.reroutings, {})

    def test_what_a_transaction_has_sent_to_it_follows_after_the_commit(self) -> None:
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        carried(leaving).flow.handle(binding())
        carried(leaving).flow.handle(consumer("CREATED"))
        sender = self.world.session(auto_commit_sends=False)
        sender.publish(b"1", "q")
        carried(other).flow.handle(binding(node_id=OTHER, remote_id=9))
        self.scale_down(leaving, OTHER)
        self.clock.advance(1)
        sender.ok(Commit())
        self.clock.advance(1)
        self.assertEqual((bodies(other), carried(leaving).queue.deleted), ([b"1"], True))

    def test_messages_are_not_moved_any_more_once_the_member_is_back(self) -> None:
        leaving = self.appear(PEER, 1)
        self.store(leaving)
        self.scale_down(leaving, OTHER)
        self.clock.advance(1)
        self.assertEqual(list(self.loads.reroutings), [PEER])
        back = self.appear(PEER, self.clock.wall_ms() + 1)
        self.assertEqual(self.loads.reroutings, {})
        self.assertIs(carried(back).queue, carried(leaving).queue)
        self.assertEqual(carried(back).queue.message_count, 1)

    def test_nor_once_the_cluster_connection_is_stopped(self) -> None:
        leaving = self.appear(PEER, 1)
        self.store(leaving)
        self.scale_down(leaving, OTHER)
        self.connection.stop()
        self.clock.advance(1000)
        self.assertEqual((self.loads.reroutings, carried(leaving).queue.message_count), ({}, 1))

    def test_what_cannot_follow_yet_does_not_keep_messages_for_other_queues(self) -> None:
        """Each queue keeps its order: what is for one that is not known there waits, and what follows for the same one, too."""
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        sender = self.world.session()
        for name, remote_id in (("gone", 8), ("q", 7)):
            carried(leaving).flow.handle(binding(queue=name, remote_id=remote_id))
            carried(leaving).flow.handle(consumer("CREATED", name))
        for body, name in ((b"1", "gone"), (b"2", "q"), (b"3", "gone"), (b"4", "q")):
            sender.publish(body, name)
        carried(other).flow.handle(binding(queue="q", node_id=OTHER, remote_id=9))
        self.scale_down(leaving, OTHER)
        self.clock.advance(0)
        self.assertEqual((bodies(leaving), bodies(other)), ([b"1", b"3"], [b"2", b"4"]))
        carried(other).flow.handle(binding(queue="gone", node_id=OTHER, remote_id=10))
        self.clock.advance(1)
        self.assertEqual(bodies(other), [b"2", b"4", b"1", b"3"])
        self.assertTrue(carried(leaving).queue.deleted)

    def test_many_go_in_several_turns(self) -> None:
        self.patch(rerouting, "MOVED_PER_TURN", 2)
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        self.store(leaving)
        self.world.session().publish(b"5", "q", properties={"_AMQ_SCHED_DELIVERY": (LONG, self.clock.wall_ms() + 60_000)})
        for body in (b"2", b"3", b"4"):
            self.world.session().publish(body, "q")
        carried(other).flow.handle(binding(node_id=OTHER, remote_id=9))
        self.scale_down(leaving, OTHER)
        self.clock.advance(0)
        self.assertEqual(bodies(other), [b"1", b"2", b"3", b"4"])
        self.assertEqual((carried(other).queue.scheduled.count, carried(leaving).queue.deleted), (1, True))

    def test_what_never_can_follow_stays_and_the_rest_does_not_wait_for_it(self) -> None:
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        self.store(leaving)
        self.scale_down(leaving, OTHER)
        self.clock.advance(rerouting.ATTEMPTS * rerouting.RETRY_SECONDS + 1)
        self.assertEqual((bodies(leaving), bodies(other), self.loads.reroutings), ([b"1"], [], {}))

    def test_a_queue_of_the_same_name_on_another_address_is_another_queue(self) -> None:
        """The queue gets no messages of this address: the broker that took over would drop them."""
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        self.store(leaving)
        carried(other).flow.handle(binding(node_id=OTHER, remote_id=9, address="elsewhere"))
        self.scale_down(leaving, OTHER)
        self.clock.advance(1)
        self.assertEqual((bodies(leaving), bodies(other)), ([b"1"], []))
        carried(other).flow.handle(binding("BINDING_REMOVED", node_id=OTHER, remote_id=9, address="elsewhere"))
        carried(other).flow.handle(binding(node_id=OTHER, remote_id=10))
        self.clock.advance(1)
        self.assertEqual(bodies(other), [b"1"])

    def test_a_message_for_several_queues_goes_to_all_of_them_in_one_piece(self) -> None:
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        for number, name in enumerate(("x", "y")):
            carried(leaving).flow.handle(binding(queue=name, remote_id=7 + number, address="a"))
            carried(leaving).flow.handle(consumer("CREATED", name, address="a"))
            carried(other).flow.handle(binding(queue=name, remote_id=17 + number, address="a", node_id=OTHER))
        sender = self.world.session()
        sender.create_queue("here", "a", routing_type=0)
        sender.publish(b"1", "a", routing_type=0)
        self.assertEqual((bodies(leaving), bodies(other)), ([b"1"], []))
        self.scale_down(leaving, OTHER)
        self.clock.advance(0)
        (reference,) = carried(other).queue.references
        stated = reference.message.raw_property(f"_AMQ_ROUTE_TO{carried(other).queue.name}".encode("utf-16-le"))
        assert isinstance(stated, bytes)
        self.assertEqual({int.from_bytes(stated[at : at + 8], "big") for at in (0, 8)}, {17, 18})
        self.assertTrue(carried(leaving).queue.deleted)

    def test_what_was_to_go_further_takes_another_way_there(self) -> None:
        """The member passed messages on to a broker that has not left, and that can be reached without it."""
        third = "00000000-0000-11ee-8000-00000000000d"
        self.loads.flow_settings = replace(self.loads.flow_settings, interests=Interests("", 2, "activemq.notifications", ()))
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        further = binding(queue="q", node_id=third, remote_id=77, distance=1)
        carried(leaving).flow.handle(further)
        carried(leaving).flow.handle({**further, "_AMQ_NotifType": (STRING, "CONSUMER_CREATED")})
        self.world.session().publish(b"1", "q")
        self.assertEqual(bodies(leaving), [b"1"])
        carried(other).flow.handle(binding(queue="q", node_id=third, remote_id=88, distance=1))
        self.scale_down(leaving, OTHER)
        self.clock.advance(0)
        self.assertEqual((bodies(other), carried(leaving).queue.deleted), ([b"1"], True))

    def test_one_message_may_stay_here_and_go_further(self) -> None:
        third = "00000000-0000-11ee-8000-00000000000d"
        self.loads.flow_settings = replace(self.loads.flow_settings, interests=Interests("", 2, "activemq.notifications", ()))
        leaving, other = self.appear(PEER, 1), self.appear(OTHER, 1)
        for further in (binding(queue="x", address="a"), binding(queue="y", address="a", node_id=third, remote_id=77, distance=1)):
            carried(leaving).flow.handle(further)
            carried(leaving).flow.handle({**further, "_AMQ_NotifType": (STRING, "CONSUMER_CREATED")})
        sender = self.world.session()
        sender.create_queue("here", "a", routing_type=0)
        sender.publish(b"1", "a", routing_type=0)
        self.assertEqual(bodies(leaving), [b"1"])
        sender.create_queue("x", "a", routing_type=0)
        carried(other).flow.handle(binding(queue="y", address="a", node_id=third, remote_id=88, distance=1))
        self.scale_down(leaving, self.world.server.node_id)
        self.clock.advance(0)
        self.assertEqual((self.world.queue("x").message_count, bodies(other), carried(leaving).queue.deleted), (1, [b"1"], True))


def bodies(found: Member) -> list[bytes]:
    """What waits for a member."""
    return [reference.message.decoded().body for reference in carried(found).queue.references]
