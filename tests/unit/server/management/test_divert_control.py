"""Diverts by management."""

from __future__ import annotations

import json
from typing import Any

from mqclient.wire.bodies import encode_text
from mqclient.wire.properties import STRING
from tests.unit.server.management.test_service import ManagementCase


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
