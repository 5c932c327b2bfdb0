"""What real Artemis brokers sent to each other, sent to this one; and diverts by management."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqbroker.messaging.routing.awaited import PATIENCE_SECONDS
from mqbroker.messaging.routing.remote import REMOTE_ID_BASE, LoadBalancing, RemoteBinding
from mqclient.wire import packets as wire
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import decode_message
from mqclient.wire.properties import BYTES, STRING
from tests.unit.server.management.test_service import ManagementCase
from tests.unit.server.support import World

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


class AwaitedTests(SynchronousTestCase):
    """A message that states a queue of another broker which is not known here yet."""

    ID = REMOTE_ID_BASE + 7

    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.session.create_queue("away")
        self.session.take()

    def bring(self, body: bytes = b"1", number: int = -2) -> None:
        ids = self.ID.to_bytes(8, "big") + self.world.queue("q").queue_id.to_bytes(8, "big")
        self.session.publish(body, reply=True, number=number, properties={"_AMQ_ROUTE_TO": (BYTES, ids)})

    def waiting(self, queue: str) -> list[bytes]:
        return [decode_message(reference.message.buffer).body for reference in self.world.queue(queue).references]

    def come(self) -> None:
        binding = RemoteBinding("q", "q", "q" + "n" * 36, self.ID, 5, 1, LoadBalancing.ON_DEMAND, self.world.queue("away"))
        self.world.server.turn.run(self.world.messaging.core.routing.bind_remote, binding)
        self.world.clock.advance(0)

    def test_it_waits_for_the_queue_and_what_follows_stays_behind_it(self) -> None:
        self.bring(b"1")
        self.session.publish(b"2", reply=True, number=-3)
        self.world.clock.advance(PATIENCE_SECONDS / 2)
        self.assertEqual((self.session.take(), self.waiting("q")), ([], []))
        self.come()
        self.assertEqual([packet.correlation_id for packet in self.session.take() if isinstance(packet, wire.NullResponse)], [-2, -3])
        self.assertEqual((self.waiting("q")[0], self.waiting("away")[0]), (b"1", b"1"))

    def test_a_queue_that_does_not_come_is_not_waited_for_again(self) -> None:
        self.bring(b"1")
        self.world.clock.advance(PATIENCE_SECONDS)
        self.world.clock.advance(0)
        self.assertEqual((len(self.session.take()), self.waiting("q")), (1, [b"1"]))
        self.bring(b"2", number=-3)
        self.assertEqual((len(self.session.take()), self.waiting("q")), (1, [b"1", b"2"]))
        self.come()
        self.bring(b"3", number=-4)
        self.assertEqual((self.waiting("q"), self.waiting("away")), ([b"1", b"2", b"3"], [b"3"]))

    def test_whoever_brought_it_may_go(self) -> None:
        self.bring()
        self.session.peer.connection.lost("cut")
        self.come()
        self.assertEqual(self.waiting("q"), [])

    def test_a_broker_that_stops_waits_no_more(self) -> None:
        self.bring()
        self.world.messaging.stop()
        self.world.clock.advance(PATIENCE_SECONDS)
        self.assertEqual(self.waiting("q"), [])


def mark(message: Any, properties: Any) -> None:
    message.properties["marked"] = (STRING, properties.get("as", ""))


class DivertTests(ManagementCase):
    def setUp(self) -> None:
        super().setUp()
        self.session.create_queue("t")
        self.session.create_queue("u")

    def count(self, name: str) -> int:
        return self.world.queue(name).message_count

    def test_a_divert_from_beginning_to_end(self) -> None:
        transformer = {"class-name": f"{__name__}:mark", "properties": {"as": "x"}}
        given = {"name": "d", "address": "q", "forwarding-address": "t", "exclusive": "true", "filter-string": "colour = 'red'"}
        self.call("broker", "createDivert", json.dumps({**given, "transformer-configuration": transformer}))
        self.assertEqual(self.call("broker", "listDivertNames"), ["d"])
        self.assertEqual(self.call("broker", "getDivertNames"), ["d"])
        self.session.publish(properties={"colour": (STRING, "red")}, routing_type=1)
        self.assertEqual((self.count("q"), self.count("t")), (0, 1))
        (reference,) = self.world.queue("t").references
        self.assertEqual(reference.message.property("marked"), "x")
        self.assertEqual(
            {name: self.call("divert.d", f"get{name}") for name in ("Address", "ForwardingAddress", "Filter", "RoutingType", "UniqueName")},
            {"Address": "q", "ForwardingAddress": "t", "Filter": "colour = 'red'", "RoutingType": "STRIP", "UniqueName": "d"},
        )
        self.assertTrue(self.call("divert.d", "isExclusive"))
        self.assertEqual(json.loads(self.call("divert.d", "getTransformerPropertiesAsJSON")), {"as": "x"})
        self.call("broker", "updateDivert", json.dumps({"name": "d", "forwarding-address": "t,u", "routing-type": "PASS"}))
        self.session.publish(routing_type=1)
        self.assertEqual((self.count("q"), self.count("t"), self.count("u")), (0, 2, 1))
        self.call("broker", "destroyDivert", "d")
        self.session.publish(routing_type=1)
        self.assertEqual((self.count("q"), self.call("broker", "listDivertNames")), (1, []))

    def test_the_positional_forms(self) -> None:
        self.call("broker", "createDivert", "d", "name", "q", "t", False, None, None)
        self.call("broker", "createDivert", "e", "name", "q", "u", False, "a = 1", f"{__name__}:mark", {"as": "y"}, "MULTICAST")
        diverts = self.world.messaging.diverts
        found = diverts.find("e")
        assert found is not None and found.configuration.transformer is not None
        self.assertEqual((found.configuration.routing_type, found.configuration.transformer.properties), ("MULTICAST", {"as": "y"}))
        self.call("broker", "updateDivert", "e", "t", None, None, None, "ANYCAST")
        found = diverts.find("e")
        assert found is not None
        configuration = found.configuration
        self.assertEqual(
            (configuration.routing_type, configuration.forwarding_addresses, configuration.transformer), ("ANYCAST", ("t",), None)
        )

    def test_what_is_refused(self) -> None:
        for operation, parameters, reason in (
            ("createDivert", ["not json"], "not JSON"),
            ("createDivert", ["[]"], "not a JSON object"),
            ("createDivert", [json.dumps({"name": "d"})], "a name and an address"),
            ("createDivert", [json.dumps({"name": "d", "address": "q"})], "a forwarding address is missing"),
            (
                "createDivert",
                [json.dumps({"name": "d", "address": "q", "forwarding-address": "t", "filter-string": "((("})],
                "AMQ229020",
            ),
            (
                "createDivert",
                [
                    json.dumps(
                        {"name": "d", "address": "q", "forwarding-address": "t", "transformer-configuration": {"class-name": "org.A"}}
                    )
                ],
                "this broker runs no Java",
            ),
            ("updateDivert", [json.dumps({"name": "none"})], "no divert none"),
            ("destroyDivert", ["none"], "no divert none"),
        ):
            self.assertIn(reason, self.refused("broker", operation, *parameters))
        self.assertEqual(self.call("broker", "listDivertNames"), [])

    def refused(self, resource: str, operation: str, *parameters: Any) -> str:
        self.request({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, encode_text(json.dumps(parameters)))
        succeeded, result = self.reply()
        self.assertFalse(succeeded)
        return str(result)

    def test_a_copy_is_made_for_each_kind_of_send(self) -> None:
        """Plain ones in a row, and large ones."""
        self.session.publish(routing_type=1)
        self.call("broker", "createDivert", json.dumps({"name": "d", "address": "q", "forwarding-address": "t"}))
        self.session.publish(routing_type=1)
        self.session.begin_large(routing_type=1)
        self.session.chunk(b"body", 4)
        self.assertEqual((self.count("q"), self.count("t")), (3, 2))
        self.assertEqual([each.message.large is not None for each in self.world.queue("t").references], [False, True])
