"""Core bridges: their options, what management sees of them, and the messages they change."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.core_bridge import CoreBridges, credentials
from mqbroker.cluster.links import forwarder
from mqbroker.cluster.links.outgoing import CoreBridgeMessages
from mqbroker.config.model.cluster import BridgeConfiguration, TransformerConfiguration
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER, Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.transformers import ADD_HEADERS, load_transformer
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_ROUTING_TYPE, CoreMessage, decode_message
from mqclient.wire.properties import BYTE, BYTES, INT, STRING, TypedValue
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import NODE_ID, MemoryRuntime, connector
from tests.unit.cluster.support import KnownOthers
from tests.unit.messaging.message.test_transformers import Shout

NODE = "00010203-0405-0607-0809-0a0b0c0d0e0f"
CONFIGURATION = BridgeConfiguration("bridge", "q", static_connectors=("target",), retry_interval=1000)


class Bridged:
    """Broker A with queue ``q``, broker B with queues ``q`` and ``other``, and the bridges of A."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        configuration = Configuration(security_enabled=False)
        for name, value in settings.items():
            setattr(configuration, name, value)
        self.a = World(configuration, clock=self.clock)
        self.a.store.node_id = NODE
        self.b = World(clock=self.clock)
        self.runtime = MemoryRuntime(self.clock)
        self.runtime.targets["1"] = self.b
        self.sender = self.a.session()
        self.sender.create_queue("q")
        self.receiver = self.b.session()
        self.receiver.create_queue("q")
        self.receiver.create_queue("other")
        self.told: list[tuple[str, object]] = []
        self.a.server.notifications.told.subscribe(lambda kind, headers: self.told.append((kind, headers.get("name", (0, None))[1])))
        self.groups = {"group": lambda: [connector(1)]}
        self.bridges = CoreBridges(self.a.server, self.runtime, {"target": connector(1)}, self.groups.get)
        self.a.server.others = KnownOthers(bridges=self.bridges)

    def stir(self) -> None:
        for _ in range(10_000):
            self.clock.advance(0)
            busy = [link.move(1 << 20) for link in list(self.runtime.links)]
            if not any(busy) and not self.clock.due:
                return
        raise AssertionError("the brokers talk without end")

    def create(self, **values: Any) -> None:
        self.bridges.create(replace(CONFIGURATION, **values))
        self.stir()

    def publish(self, *bodies: bytes, **headers: Any) -> None:
        for body in bodies:
            self.sender.publish(body, **headers)
        self.stir()

    def arrived(self, queue: str = "q") -> list[CoreMessage]:
        return [decode_message(reference.message.buffer) for reference in self.b.queue(queue).references]

    def bodies(self, queue: str = "q") -> list[bytes]:
        return [message.body for message in self.arrived(queue)]


class OptionTests(SynchronousTestCase):
    def test_messages_go_to_their_own_address(self) -> None:
        bridged = Bridged()
        bridged.create()
        bridged.publish(b"1", b"2")
        self.assertEqual(bridged.bodies(), [b"1", b"2"])

    def test_or_to_the_forwarding_address(self) -> None:
        bridged = Bridged()
        bridged.create(forwarding_address="other")
        bridged.publish(b"1")
        self.assertEqual(([message.address for message in bridged.arrived("other")], bridged.arrived()), (["other"], []))

    def test_what_the_filter_does_not_match_stays(self) -> None:
        bridged = Bridged()
        bridged.create(filter_string="color = 'red'")
        bridged.publish(b"1", properties={"color": (STRING, "red")})
        bridged.publish(b"2")
        self.assertEqual((bridged.bodies(), bridged.a.queue("q").message_count), ([b"1"], 1))

    def test_a_transformer_changes_messages(self) -> None:
        bridged = Bridged()
        bridged.create(transformer=TransformerConfiguration(f"{Shout.__module__}:Shout", {"mark": "?"}))
        bridged.publish(b"hey")
        self.assertEqual(bridged.bodies(), [b"HEY?"])

    def test_several_together_have_no_more_under_way_than_one_since_the_target_remembers_no_more(self) -> None:
        self.patch(forwarder, "IN_FLIGHT_MESSAGES_MAX", 10)
        bridged = Bridged()
        bridged.b.server.messaging.core.settings.set("q", {"id_cache_size": 20})
        bridged.create(concurrency=3)
        bodies = [b"%02d" % number for number in range(40)]
        for body in bodies:
            bridged.sender.publish(body)
        links = list(bridged.runtime.links)
        for _ in range(5):
            bridged.clock.advance(0)
            for link in links:
                arrived = bytes(link.to_broker)
                link.to_broker.clear()
                link.connection.received(arrived)
        for link in links:
            link.cut()
        for _ in range(10):
            bridged.clock.advance(0.5)
            bridged.stir()
        self.assertEqual(sorted(bridged.bodies()), bodies)

    def test_several_work_side_by_side(self) -> None:
        bridged = Bridged()
        bridged.create(concurrency=3)
        self.assertEqual(bridged.bridges.names(), ["bridge-0", "bridge-1", "bridge-2"])
        bridged.publish(*[b"%d" % number for number in range(9)])
        self.assertEqual(sorted(bridged.bodies()), [b"%d" % number for number in range(9)])
        self.assertEqual(len(bridged.runtime.links), 3)
        self.assertTrue(bridged.bridges.destroy("bridge"))
        self.assertEqual(bridged.bridges.names(), [])

    def test_a_discovery_group_gives_the_connectors(self) -> None:
        bridged = Bridged()
        found: list[Any] = []
        bridged.groups["group"] = lambda: found
        bridged.create(static_connectors=(), discovery_group="group")
        self.assertEqual(bridged.runtime.tried, [])
        found.append(connector(1))
        bridged.clock.advance(2)
        bridged.stir()
        bridged.publish(b"1")
        self.assertEqual(bridged.bodies(), [b"1"])

    def test_the_session_has_the_options_of_the_bridge(self) -> None:
        bridged = Bridged()
        bridged.create(client_id="me", confirmation_window_size=12345, min_large_message_size=777)
        session = bridged.runtime.links[0].connection.sessions[10]
        self.assertEqual((session.min_large_message_size, session.window.size), (777, 12345))
        self.assertEqual((session.pre_acknowledge, bridged.runtime.links[0].connection.client_id), (True, "me"))

    def test_credentials(self) -> None:
        self.assertEqual(credentials(CONFIGURATION, "cluster", "secret"), (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD))
        self.assertEqual(credentials(replace(CONFIGURATION, user="cluster"), "cluster", "secret"), ("cluster", "secret"))
        self.assertEqual(credentials(replace(CONFIGURATION, user="cluster", password="x"), "cluster", "secret"), ("cluster", "x"))
        self.assertEqual(credentials(replace(CONFIGURATION, user="app", password="x"), "cluster", "secret"), ("app", "x"))
        self.assertEqual(credentials(replace(CONFIGURATION, user="app"), "cluster", "secret"), ("app", None))

    def test_what_cannot_be_deployed_is_refused_with_the_reason(self) -> None:
        bridged = Bridged()
        bridged.create()
        for values, reason in (
            ({"name": "bridge"}, "exists already"),
            ({"name": "2", "queue_name": "nowhere"}, "no queue nowhere"),
            ({"name": "2", "static_connectors": ("elsewhere",)}, "no connector elsewhere; known: target"),
            ({"name": "2", "static_connectors": ()}, "neither static connectors nor"),
            ({"name": "2", "static_connectors": (), "discovery_group": "none"}, "no discovery group none"),
            ({"name": "2", "filter_string": "a b c"}, "filter 'a b c'"),
            ({"name": "2", "transformer": TransformerConfiguration("no.such.Thing")}, "no.such.Thing cannot be imported"),
        ):
            error = self.assertRaises(ValueError, bridged.bridges.create, replace(CONFIGURATION, **values))  # type: ignore[arg-type]
            self.assertIn(reason, str(error))
        self.assertEqual(bridged.bridges.names(), ["bridge"])

    def test_one_that_cannot_be_deployed_does_not_keep_others(self) -> None:
        bridged = Bridged()
        bridged.bridges.deploy([replace(CONFIGURATION, name="bad", queue_name="nowhere"), CONFIGURATION])
        bridged.stir()
        self.assertEqual(bridged.bridges.names(), ["bridge"])

    def test_all_stop_with_the_broker(self) -> None:
        bridged = Bridged()
        self.successResultOf(bridged.bridges.stop())
        bridged.create()
        bridged.create(name="second")
        bridged.bridges.destroy("second")
        stopped = bridged.bridges.stop()
        bridged.stir()
        self.successResultOf(stopped)
        self.assertEqual([link.open for link in bridged.runtime.links], [False, False])

    def test_a_bridge_ends_with_its_queue(self) -> None:
        bridged = Bridged()
        bridged.create()
        bridged.a.messaging.administration.delete_queue(bridged.a.queue("q"), remove_consumers=True)
        bridged.stir()
        bridge = bridged.bridges.find("bridge")
        assert bridge is not None
        self.assertEqual(bridge.state, "stopped")
        self.assertIn(("BRIDGE_STOPPED", "bridge"), bridged.told)
        self.assertRaises(ValueError, bridge.start)

    def test_also_when_that_is_deleted_while_there_is_no_link(self) -> None:
        bridged = Bridged()
        bridged.runtime.targets.clear()
        bridged.create()
        bridged.a.messaging.administration.delete_queue(bridged.a.queue("q"))
        bridged.runtime.targets["1"] = bridged.b
        bridged.clock.advance(2)
        bridged.stir()
        bridge = bridged.bridges.find("bridge")
        assert bridge is not None
        self.assertEqual((bridge.state, bridged.told[-1]), ("stopped", ("BRIDGE_STOPPED", "bridge")))
        self.assertFalse(any(link.open for link in bridged.runtime.links))


class KeptTests(SynchronousTestCase):
    """What the store has of a bridge of management."""

    def kept(self, **settings: Any) -> str:
        bridged = Bridged(**settings)
        bridged.bridges.create_kept(
            replace(CONFIGURATION, user="u", password="a secret", transformer=TransformerConfiguration(ADD_HEADERS))
        )
        bridged.stir()
        (entry,) = bridged.a.store.entries("setting")
        return str(entry[3])

    def restored(self, text: str, **settings: Any) -> list[BridgeConfiguration]:
        bridged = Bridged(**settings)
        bridges = bridged.bridges
        bridges.restore({"bridge": text})
        bridged.stir()
        return [bridge.configuration for name in bridges.names() if (bridge := bridges.find(name)) is not None]

    def test_the_password_is_masked(self) -> None:
        text = self.kept()
        self.assertNotIn("a secret", text)
        (found,) = self.restored(text)
        self.assertEqual((found.user, found.password, found.queue_name), ("u", "a secret", "q"))

    def test_the_key_is_that_of_broker_xml(self) -> None:
        text = self.kept(password_codec=";key=another")
        self.assertEqual([each.password for each in self.restored(text, password_codec=";key=another")], ["a secret"])
        self.assertEqual(self.restored(text), [], "with another key the bridge is not in force, and the log says why")

    def test_one_that_was_kept_in_the_clear(self) -> None:
        values = {**asdict(CONFIGURATION), "password": "ENC(plain)"}
        self.assertEqual([each.password for each in self.restored(json.dumps(values))], ["ENC(plain)"])


class MessageTests(SynchronousTestCase):
    def sent(self, message: Message, **options: Any) -> CoreMessage:
        outgoing = CoreBridgeMessages(options.pop("node_id", NODE_ID), 102400, **options)(message)
        data = b"".join(outgoing.parts)
        self.assertEqual(outgoing.size, len(data))
        return decode_message(data)

    def test_routing_types(self) -> None:
        message = Message.of(CoreMessage(5, "a", properties={KEY_ROUTING_TYPE: (BYTE, 1), "_AMQ_ROUTING_TYPE_X": (INT, 1)}))
        for routing_type, expected in (("PASS", (BYTE, 1)), ("STRIP", None), ("ANYCAST", (BYTE, 1)), ("MULTICAST", (BYTE, 0))):
            found = self.sent(message, routing_type=routing_type).properties
            self.assertEqual((found.get(KEY_ROUTING_TYPE), found["_AMQ_ROUTING_TYPE_X"]), (expected, (INT, 1)))
        plain = Message.of(CoreMessage(5, "a"))
        self.assertEqual(self.sent(plain, routing_type="STRIP", node_id=None).properties, {})

    @given(
        st.dictionaries(
            st.sampled_from(["a", "b", "_AMQ_ROUTE_TO", "_AMQ_ROUTE_TOx", "_AMQ_BRIDGE_DUP", KEY_ROUTING_TYPE]),
            st.one_of(st.binary(max_size=9).map(lambda value: (BYTES, value)), st.integers(0, 1).map(lambda value: (BYTE, value))),
        ),
        st.one_of(st.none(), st.text(max_size=9)),
        st.sampled_from(["PASS", "STRIP", "ANYCAST", "MULTICAST"]),
        st.one_of(st.none(), st.text(max_size=9)),
        st.booleans(),
    )
    def test_only_what_is_asked_for_changes(
        self, properties: dict[str, TypedValue], address: str | None, routing_type: str, own_address: str | None, user_id: bool
    ) -> None:
        original = CoreMessage(5, own_address, properties=properties, body=b"body", user_id=bytes(16) if user_id else None, priority=7)
        found = self.sent(Message.of(original), forwarding_address=address, routing_type=routing_type)
        expected = {key: value for key, value in properties.items() if not key.startswith("_AMQ_ROUTE_TO")}
        expected.pop(KEY_BRIDGE_DUPLICATE_ID, None)
        if routing_type != "PASS":
            expected.pop(KEY_ROUTING_TYPE, None)
        if routing_type in ("ANYCAST", "MULTICAST"):
            expected[KEY_ROUTING_TYPE] = (BYTE, int(routing_type == "ANYCAST"))
        expected[KEY_BRIDGE_DUPLICATE_ID] = (BYTES, NODE_ID + (5).to_bytes(8, "big"))
        self.assertEqual(list(found.properties.items()), list(expected.items()))
        self.assertEqual((found.address, found.body, found.priority), (own_address if address is None else address, b"body", 7))
        self.assertEqual(found.user_id, original.user_id)

    def test_the_duplicate_id_is_that_of_the_message_also_behind_a_transformer(self) -> None:
        message = Message.of(CoreMessage(5, "a"))
        transform = load_transformer(TransformerConfiguration(f"{Shout.__module__}:Shout"), "bridge b")
        found = self.sent(message, transform=transform)
        self.assertEqual(found.properties[KEY_BRIDGE_DUPLICATE_ID], (BYTES, NODE_ID + (5).to_bytes(8, "big")))
