"""Core bridges in the hands of management."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import TransformerConfiguration
from mqbroker.messaging.message.transformers import ADD_HEADERS
from mqbroker.server.management.bridge_control import parse_bridge
from mqbroker.server.management.registry import ManagementError
from tests.unit.cluster.support import KnownOthers
from tests.unit.cluster.test_core_bridge import Bridged


class ManagementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bridged = Bridged()
        self.registry = self.bridged.a.registry

    def test_a_bridge_is_a_resource(self) -> None:
        self.bridged.create(forwarding_address="other", transformer=TransformerConfiguration(ADD_HEADERS, {"a": "b"}))
        self.bridged.publish(b"1", b"2")
        read = self.registry.attribute
        found = {name: read("bridge.bridge", name) for name in ("Name", "QueueName", "ForwardingAddress", "StaticConnectors", "Started")}
        self.assertEqual(
            found,
            {"Name": "bridge", "QueueName": "q", "ForwardingAddress": "other", "StaticConnectors": ["target"], "Started": True},
        )
        self.assertEqual(read("bridge.bridge", "Metrics"), {"messagesPendingAcknowledgement": 0, "messagesAcknowledged": 2})
        self.assertEqual(read("bridge.bridge", "TransformerProperties"), {"a": "b"})
        self.assertEqual((read("bridge.bridge", "connected"), read("bridge.bridge", "state")), (True, "started"))
        self.assertEqual(read("broker", "BridgeNames"), ["bridge"])
        self.assertRaises(ManagementError, read, "bridge.nothing", "Name")

    def test_it_can_be_stopped_started_paused_and_resumed(self) -> None:
        self.bridged.create()
        invoke = self.registry.invoke
        invoke("bridge.bridge", "pause", [])
        self.bridged.publish(b"1")
        self.assertEqual((self.bridged.bodies(), self.registry.attribute("bridge.bridge", "State")), ([], "paused"))
        invoke("bridge.bridge", "resume", [])
        self.bridged.stir()
        self.assertEqual(self.bridged.bodies(), [b"1"])
        invoke("bridge.bridge", "stop", [])
        self.bridged.stir()
        self.assertEqual(self.registry.attribute("bridge.bridge", "started"), False)
        invoke("bridge.bridge", "start", [])
        self.bridged.publish(b"2")
        self.assertEqual(self.bridged.bodies(), [b"1", b"2"])
        self.assertEqual(
            [entry for entry in self.bridged.told if entry[0].startswith("BRIDGE")],
            [("BRIDGE_STARTED", "bridge"), ("BRIDGE_STOPPED", "bridge"), ("BRIDGE_STARTED", "bridge")],
        )

    def test_started_again_while_it_stops_it_is_shown_as_running(self) -> None:
        bridged = self.bridged
        bridged.create()
        bridged.sender.publish(b"1")
        bridged.clock.advance(0)
        self.registry.invoke("bridge.bridge", "stop", [])
        self.assertEqual(self.registry.attribute("bridge.bridge", "State"), "stopping")
        self.registry.invoke("bridge.bridge", "start", [])
        bridged.stir()
        self.assertEqual(self.registry.attribute("bridge.bridge", "State"), "started")
        self.assertIn("bridge.connected", {gauge.name for gauge in bridged.a.server.gauges})
        told = [entry for entry in bridged.told if entry[0].startswith("BRIDGE")]
        self.assertEqual(told, [("BRIDGE_STARTED", "bridge"), ("BRIDGE_STOPPED", "bridge"), ("BRIDGE_STARTED", "bridge")])

    def test_one_that_gave_up_is_told_as_stopped(self) -> None:
        self.bridged.runtime.targets.clear()
        self.bridged.create(initial_connect_attempts=0)
        self.assertEqual(self.bridged.told[-1], ("BRIDGE_STOPPED", "bridge"))
        self.assertEqual(self.registry.attribute("bridge.bridge", "State"), "failed")

    def test_metrics_of_bridges_that_run(self) -> None:
        gauges = self.bridged.a.server.gauges
        self.bridged.create()
        self.bridged.publish(b"1")
        values = {gauge.name: gauge.read() for gauge in gauges}
        self.assertEqual(values["bridge.messages.acknowledged"], 1)
        self.assertEqual((values["bridge.connected"], values["bridge.messages.pending.acknowledgement"]), (True, 0))
        self.registry.invoke("broker", "destroyBridge", ["bridge"])
        self.bridged.stir()
        self.assertEqual(list(gauges), [])

    def test_bridges_can_be_made_and_ended(self) -> None:
        invoke = self.registry.invoke
        invoke("broker", "createBridge", [json.dumps({"name": "b", "queue-name": "q", "static-connectors": ["target"], "concurrency": 1})])
        self.bridged.publish(b"1")
        self.assertEqual(self.bridged.bodies(), [b"1"])
        with self.assertRaises(ManagementError):
            invoke("broker", "createBridge", [json.dumps({"name": "b", "queue-name": "q", "static-connectors": ["target"]})])
        invoke("broker", "destroyBridge", ["b"])
        self.assertEqual(self.registry.attribute("broker", "BridgeNames"), [])
        self.assertRaises(ManagementError, invoke, "broker", "destroyBridge", ["b"])

    def test_forms_of_create_bridge(self) -> None:
        transformer = {"class-name": "a:B", "properties": {"x": 1}}
        parsed = parse_bridge(
            [
                json.dumps(
                    {
                        "name": "b",
                        "queue-name": "q",
                        "forwarding-address": "f",
                        "filter-string": "x = 1",
                        "discovery-group-name": "group",
                        "retry-interval-multiplier": "1.5",
                        "client-failure-check-period": 5,
                        "use-duplicate-detection": "false",
                        "transformer-configuration": transformer,
                        "password": None,
                    }
                )
            ]
        )
        self.assertEqual((parsed.forwarding_address, parsed.filter_string, parsed.discovery_group), ("f", "x = 1", "group"))
        self.assertEqual((parsed.retry_interval_multiplier, parsed.check_period, parsed.use_duplicate_detection), (1.5, 5, False))
        self.assertEqual(parsed.transformer, TransformerConfiguration("a:B", {"x": "1"}))
        head, rest = ["b", "q", "f", None, "a:B"], [100, 2.0, 3, 4, True, 500]
        tail = [600, "one, two", False, True, "user", "pass"]
        oldest = parse_bridge([*head, *rest, *tail])
        self.assertEqual((oldest.static_connectors, oldest.ha, oldest.user, oldest.check_period), (("one", "two"), True, "user", 600))
        self.assertEqual((oldest.retry_interval, oldest.initial_connect_attempts, oldest.reconnect_attempts), (100, 3, 4))
        newer = parse_bridge([*head, '{"x": "1"}', *rest, *tail])
        self.assertEqual(newer.transformer, TransformerConfiguration("a:B", {"x": "1"}))
        newest = parse_bridge([*head, {"x": "1"}, *rest, 700, *tail])
        self.assertEqual((newest.producer_window_size, newest.check_period, newest.password), (700, 600, "pass"))
        for wrong in (
            ["no JSON"],
            ["[]"],
            ['{"name": "b"}'],
            ['{"name": "b", "queue-name": "q"}'],
            ['{"name": "b", "queue-name": "q", "static-connectors": ["x"], "discovery-group-name": "y"}'],
            ['{"name": "b", "queue-name": "q", "static-connectors": ["x"], "colour": 1}'],
            ['{"name": "b", "queue-name": "q", "static-connectors": ["x"], "retry-interval": "soon"}'],
            ['{"name": "b", "queue-name": "q", "static-connectors": ["x"], "retry-interval-multiplier": "much"}'],
            ['{"name": "b", "queue-name": "q", "static-connectors": ["x"], "transformer-configuration": 1}'],
            ["b", "q"],
        ):
            self.assertRaises(ManagementError, parse_bridge, wrong)

    def test_a_broker_without_bridges_says_so(self) -> None:
        self.bridged.a.server.others = KnownOthers()
        self.assertEqual(self.registry.attribute("broker", "BridgeNames"), [])
        with self.assertRaisesRegex(ManagementError, "there is no bridge b"):
            self.registry.invoke("broker", "destroyBridge", ["b"])
