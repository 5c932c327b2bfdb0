"""Consumers that are made, refused and closed."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from tests.support.broker import World
from tests.support.registrar import ReadingRegistrar


class CreationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q", max_consumers=1)

    def test_a_qualified_name_without_a_queue_means_none(self) -> None:
        for name in ("q::", "::", "q::missing"):
            self.assertEqual(self.session.error(wire.CreateConsumer(1, name)), 100, name)
        self.session.consume("::q", 1)

    def test_errors(self) -> None:
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "missing")), 100)
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "q", "a = ")), 103)
        self.session.consume()
        self.assertEqual(self.session.error(wire.CreateConsumer(1, "q")), 214)
        answer = self.session.call(wire.CreateConsumer(1, "q", browse_only=True))
        self.assertIsInstance(answer, wire.QueueQueryResponseV3)

    def test_the_answer_describes_the_queue_with_its_new_consumer(self) -> None:
        answer = self.session.call(wire.CreateConsumer(0, "q"))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        self.assertEqual((answer.name, answer.consumer_count, answer.max_consumers), ("q", 1, 1))

    def test_a_failed_silent_request_is_not_answered_and_its_consumer_is_ended(self) -> None:
        self.session.send(wire.CreateConsumer(0, "missing", requires_response=False))
        self.assertEqual(self.session.take(), [wire.DisconnectConsumer(0)])
        self.session.send(wire.ForceConsumerDelivery(0, 1))
        self.assertEqual(self.session.take(), [])

    def test_a_consumer_that_is_made_twice_lives_on(self) -> None:
        self.session.call(wire.CreateConsumer(0, "q"))
        self.session.send(wire.CreateConsumer(0, "q", requires_response=False))
        self.assertEqual(self.session.take(), [])

    def test_closing_an_unknown_consumer_is_answered(self) -> None:
        self.session.ok(wire.ConsumerClose(42))


class SubscriptionTests(SynchronousTestCase):
    """A durable subscription may have been deleted and made again elsewhere: its consumers wait until others were heard."""

    def setUp(self) -> None:
        self.registrar = ReadingRegistrar()
        self.world = World(registrar=self.registrar)
        self.session, self.other = self.world.session(), self.world.session()
        self.other.create_queue("s", "a", routing_type=0)
        self.other.publish(b"of the former life", "a", routing_type=0)

    def begin_again(self) -> None:
        self.other.ok(wire.DeleteQueue("s"))
        self.other.create_queue("s", "a", routing_type=0)
        self.other.publish(b"of this life", "a", routing_type=0)

    def test_a_consumer_gets_nothing_of_a_former_life(self) -> None:
        self.session.consume("s")
        self.begin_again()
        self.assertEqual(self.session.take(), [])
        self.registrar.go_on()
        self.assertEqual(self.session.bodies(), [b"of this life"])
        self.assertEqual(self.registrar.waiting, [])

    def test_a_subscription_that_has_ended_ends_the_consumer(self) -> None:
        self.session.consume("s", 7, credits=0, start=False)
        self.other.ok(wire.DeleteQueue("s"))
        self.registrar.go_on()
        self.assertEqual(self.session.take(), [wire.DisconnectConsumer(7)])

    def test_requests_that_follow_keep_their_order(self) -> None:
        self.session.send(wire.CreateConsumer(0, "s"))
        self.session.send(wire.ConsumerClose(0))
        self.assertEqual(self.session.take(), [])
        self.registrar.go_on()
        self.assertEqual([each.NAME for each in self.session.take()], ["SESS_QUEUEQUERY_RESP_V3", "NULL_RESPONSE"])
        self.assertEqual(self.world.queue("s").consumer_count, 0)

    def test_a_connection_that_is_lost_meanwhile(self) -> None:
        self.session.consume("s")
        self.session.peer.lose()
        self.assertEqual(self.registrar.waiting, [])
        self.assertEqual(self.world.queue("s").consumer_count, 0)

    def test_a_client_that_comes_back_meanwhile_gets_one_consumer(self) -> None:
        session = self.world.peer().open(name="n", window_size=1000)
        session.consume("s")
        [heard] = self.registrar.waiting
        session.peer.lose()
        peer = self.world.peer()
        peer.send(wire.ReattachSession("n", -1), SESSION_CHANNEL)
        for request in (wire.CreateConsumer(0, "s", requires_response=False), wire.FlowToken(0, -1), wire.SessionStart()):
            peer.send(request, session.channel)
        heard()
        self.assertEqual(self.world.queue("s").consumer_count, 0, "the request that has come again has not waited yet")
        self.registrar.go_on()
        self.assertEqual(self.world.queue("s").consumer_count, 1)
        self.assertEqual(len([each for each in peer.take(session.channel) if isinstance(each, wire.SessionReceive)]), 1)

    def test_nobody_waits_for_other_queues(self) -> None:
        self.session.create_queue("q")
        self.session.create_queue("t", "a", routing_type=0, durable=False, temporary=True)
        for number, name in enumerate(("q", "t")):
            self.session.call(wire.CreateConsumer(number, name))
            self.assertEqual(self.world.queue(name).consumer_count, 1)

    def test_a_home_link_does_not_wait(self) -> None:
        self.session.ok(wire.AddMetadataV2(wire.HOME_LINK_KEY, "other"))
        self.session.call(wire.CreateConsumer(0, "s"))
        self.assertEqual(self.world.queue("s").consumer_count, 1)
