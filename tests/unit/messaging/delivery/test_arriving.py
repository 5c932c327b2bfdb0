"""What real Artemis brokers sent to each other, sent to this one; and diverts by management."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqclient.wire import packets as wire
from tests.support.broker import World

VECTORS = Path(__file__).parents[4] / "protocol-spec" / "vectors" / "cluster-2.44.0"
CHANNEL = 10


def sent(scenario: str, connection: str) -> list[bytes]:
    """The messages that one broker sent to another, as frames."""
    recording = json.loads((VECTORS / f"{scenario}.json").read_text())
    (found,) = [each for each in recording["connections"] if each["name"] == connection]
    return [
        bytes.fromhex(frame["hex"])
        for frame in found["frames"]
        if frame["dir"] == "c2s" and frame["channel"] == CHANNEL and frame["name"].startswith("SESS_SEND")
    ]


class RecordedTests(SynchronousTestCase):
    def world(self, queue_id: int, name: str, address: str, routing_type: int) -> World:
        definition = QueueDefinition(name, address, routing_type)
        world = World(recovered=Recovered(queues=[definition.record(queue_id)]))
        self.session = world.peer().session(channel=CHANNEL)
        self.session.take()
        return world

    def test_forwarded_messages_arrive_once_however_often_they_come(self) -> None:
        """Regular and large ones, to the queue that they state; the answers are the same."""
        world = self.world(0x33, "orders", "orders", ANYCAST)
        frames = sent("cluster-forwarding", "to-B#3")
        answers: list[int] = []
        for _ in range(2):
            for frame in frames:
                self.session.peer.feed(frame)
            answers.append(len([packet for packet in self.session.take() if isinstance(packet, wire.NullResponse)]))
        self.assertEqual(answers[0], answers[1])
        messages = [reference.message for reference in world.queue("orders").references]
        self.assertGreaterEqual(len(messages), 5)
        self.assertTrue(any(message.large is not None for message in messages))
        for message in messages:
            self.assertFalse([name for name in message.properties if "ROUTE_TO" in name or "BRIDGE" in name])
        self.assertEqual(messages[0].property("_AMQ_DUPL_ID"), "dup-1")

    def test_redistributed_messages_arrive_in_order(self) -> None:
        world = self.world(0x39, "work", "work", ANYCAST)
        for frame in sent("cluster-redistribution", "to-B#1"):
            self.session.peer.feed(frame)
        self.assertEqual([each.message.property("n") for each in world.queue("work").references], [0, 1, 2])

    def test_what_a_leaving_broker_brings(self) -> None:
        world = self.world(0x59, "sd.q", "sd.q", ANYCAST)
        for frame in sent("cluster-scale-down", "to-B#5"):
            self.session.peer.feed(frame)
        self.assertEqual(world.queue("sd.q").message_count, 2)

    def test_ids_that_are_gone(self) -> None:
        """The queue was removed and made anew: it has another id, and gets what was meant for the old one."""
        world = self.world(0x34, "work", "work", ANYCAST)
        for frame in sent("cluster-redistribution", "to-B#1"):
            self.session.peer.feed(frame)
        self.assertEqual(world.queue("work").message_count, 3)
