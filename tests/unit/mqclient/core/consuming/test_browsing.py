"""A browser goes on after a reconnect, although the broker begins at the head of the queue again."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.consuming import browsing
from mqclient.wire.message import CoreMessage, encode_headers, encode_message
from mqclient.wire.packets import ClusterTopologyV4, FlowToken, ForceConsumerDelivery, SessionReceiveContinuation, SessionReceiveLarge
from tests.support.network import ScriptedBroker, World, marker, message, pending

CHANNEL = 10


class BrowserTests(SynchronousTestCase):
    def start(self, browse_only: bool = True, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **{"reconnect_attempts": -1, "retry_interval": 50, **settings})
        self.factory = self.world.factory()
        session = self.world.session(self.factory)
        self.consumer = self.world.finish(session.create_consumer("q", browse_only=browse_only))

    def deliver(self, *numbers: int) -> None:
        for number in numbers:
            self.broker.deliver(CHANNEL, message(number))

    def deliver_large(self, number: int) -> None:
        headers = encode_headers(CoreMessage(number, "q"))
        self.broker.deliver(CHANNEL, SessionReceiveLarge(0, 1, 5, headers))
        self.broker.deliver(CHANNEL, SessionReceiveContinuation(b"abc", True, 0))
        self.broker.deliver(CHANNEL, SessionReceiveContinuation(b"de", False, 0))

    def shown(self) -> list[int]:
        found = []
        while (received := self.world.finish(self.consumer.receive_immediate())) is not None:
            found.append(received.message_id)
        return found

    def cut(self) -> None:
        self.world.network.link.cut()
        self.world.advance(0.2)

    def test_what_was_shown_is_not_shown_again(self) -> None:
        self.start()
        self.deliver(1, 2)
        self.assertEqual(self.shown(), [1, 2])
        self.deliver(3)  # has arrived, and nobody has taken it
        self.cut()
        self.deliver(1, 2, 3, 4)
        self.assertEqual(self.shown(), [3, 4])
        self.cut()
        self.deliver(1, 2, 3, 4, 5)
        self.assertEqual(self.shown(), [5])

    def test_other_consumers_see_messages_again(self) -> None:
        self.start(browse_only=False)
        self.deliver(1)
        self.assertEqual(self.shown(), [1])
        self.cut()
        self.deliver(1)
        self.assertEqual(self.shown(), [1])

    def test_without_a_failure_nothing_is_left_out(self) -> None:
        self.start()
        self.deliver(1, 1)
        self.assertEqual(self.shown(), [1, 1])

    def test_large_messages(self) -> None:
        self.start()
        self.deliver_large(1)
        self.assertEqual(self.shown(), [1])
        self.cut()
        self.deliver_large(1)
        self.deliver(2)
        self.deliver_large(3)
        self.assertEqual(self.shown(), [2, 3])

    def test_credits_of_what_is_passed_over_go_back(self) -> None:
        self.start(consumer_window_size=1000)
        self.deliver(*range(1, 5))
        self.assertEqual(self.shown(), [1, 2, 3, 4])
        self.cut()
        [granted] = self.broker.got(FlowToken)
        self.deliver(*range(1, 5))
        self.deliver_large(5)
        self.assertEqual(self.shown(), [5])
        returned = sum(packet.credits for packet in self.broker.got(FlowToken)[1:])
        sent = sum(len(frame) for frame in self.frames(range(1, 5)))
        self.assertGreaterEqual(granted.credits + returned, sent)

    def frames(self, numbers: range) -> list[bytes]:
        return [encode_message(CoreMessage(number, "q")) for number in numbers]

    def test_without_a_window_the_next_one_is_asked_for(self) -> None:
        for deliver in (self.deliver, self.deliver_large):
            self.start(consumer_window_size=0)
            first = self.consumer.receive()
            deliver(1)
            self.assertEqual(self.world.finish(first).message_id, 1)
            second = self.consumer.receive()
            self.cut()
            before = len(self.broker.got(FlowToken))
            deliver(1)
            self.assertEqual(self.broker.got(FlowToken)[before:][-1].credits, 1)
            deliver(2)
            self.assertEqual(self.world.finish(second).message_id, 2)

    def test_the_end_of_what_was_shown_is_not_the_end(self) -> None:
        """The broker has answered that there is no more for the credits that it had."""
        for window in (0, 1000):
            self.start(consumer_window_size=window)
            self.deliver(1)
            self.assertEqual(self.world.finish(self.consumer.receive(100)).message_id, 1)
            self.cut()
            self.broker.silent.add(ForceConsumerDelivery)
            call = self.consumer.receive_immediate()
            self.world.network.stir()
            [asked] = self.broker.got(ForceConsumerDelivery)
            self.deliver(1)
            self.broker.deliver(CHANNEL, marker(asked))
            self.assertTrue(pending(call))
            again = self.broker.got(ForceConsumerDelivery)[-1]
            self.broker.deliver(CHANNEL, marker(again))
            self.assertIsNone(self.world.finish(call))

    def test_another_node_numbers_its_messages_in_another_way(self) -> None:
        self.start()
        self.deliver(1)
        self.assertEqual(self.shown(), [1])
        self.broker.topology = [ClusterTopologyV4(False, "another node", 2, last=True, server_version=136)]
        self.cut()
        self.deliver(1)
        self.assertEqual(self.shown(), [1])

    def test_what_is_remembered_has_an_end(self) -> None:
        self.start()
        self.patch(browsing, "BROWSED_MAX", 2)
        self.deliver(1, 2, 3)
        self.assertEqual(self.shown(), [1, 2, 3])
        self.cut()
        self.deliver(1, 2, 3)
        self.assertEqual(self.shown(), [3])
