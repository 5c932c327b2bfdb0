"""Imports of exports, into a broker that runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

from tests.integration.cli.test_commands_on_a_broker import CommandsOnABrokerCase
from tests.unit.cli.runner import mqbroker


class ImportTests(CommandsOnABrokerCase):
    def test_an_export_of_subscriptions_goes_back_to_the_same_queues(self) -> None:
        """A message of two subscriptions is one message on the plain address again, whatever the filters say now."""
        file = self.instance / "tmp" / "in.xml"
        queue = '<queue-binding address="news" filter-string="{}" name="{}" id="{}" routing-type="MULTICAST"/>'
        file.write_text(
            '<activemq-journal><bindings><address-binding routing-types="MULTICAST" name="news" id="1"/>'
            + queue.format("", "s1", 2)
            + queue.format("color = 'red'", "s2", 3)
            + queue.format("", "s3", 4)
            + '</bindings><messages><message id="5" priority="4" timestamp="18" type="bytes"><properties/>'
            '<queues><queue name="s1"/><queue name="s2"/></queues><body><![CDATA[AAE=]]></body></message></messages></activemq-journal>'
        )
        self.good("data", "imp", "--input", str(file))
        self.assertEqual(mqbroker("stop", "--instance", str(self.instance)).status, 0)
        self.broker.wait(20)
        result = mqbroker("data", "exp", "--instance", str(self.instance))
        self.assertEqual(result.status, 0, result.err)
        exported = ElementTree.fromstring(result.out)
        (message,) = exported.iter("message")
        self.assertEqual([queue.get("name") for queue in message.iter("queue")], ["s1", "s2"])
        self.assertEqual([entry.get("name") for entry in message.iter("property")], [])

    def test_import(self) -> None:
        file = self.instance / "tmp" / "in.xml"
        file.write_text(
            """<activemq-journal><bindings>
            <address-binding routing-types="MULTICAST" name="imported" id="1"/>
            <queue-binding address="imported" filter-string="" name="s1" id="2" routing-type="MULTICAST"/>
            <queue-binding address="imported" filter-string="" name="s2" id="3" routing-type="MULTICAST"/>
            <queue-binding address="jms.queue.old" filter-string="" name="jms.queue.old" id="4" routing-type="ANYCAST"/>
            </bindings><messages>
            <message id="5" priority="9" expiration="0" timestamp="17" type="bytes"><properties/><queues><queue name="s2"/></queues>
            <body><![CDATA[AAE=]]></body></message>
            <message id="6" priority="4" timestamp="18" type="bytes"><properties/><queues><queue name="jms.queue.old"/></queues>
            <body isLarge="true"><![CDATA[AAE=]]> <![CDATA[AgM=]]></body></message>
            </messages></activemq-journal>"""
        )
        self.assertIn("imported 2 messages; created 2 addresses and 3 queues", self.good("data", "imp", "--input", str(file)))
        counts = {entry["name"]: entry["messageCount"] for entry in json.loads(self.good("queue", "stat", "--json"))["data"]}
        self.assertEqual((counts["s1"], counts["s2"], counts["old"]), ("0", "1", "1"))
        line = json.loads(self.good("browser", "--destination", "queue://old", "--json"))
        self.assertEqual((line["body"], line["timestamp"], line["deliveryMode"]), ({"bytes": 4}, 18, "PERSISTENT"))
        result = self.command("data", "imp", "--input", str(self.instance / "etc" / "broker.xml"))
        self.assertEqual(result.status, 1)
        self.assertIn("expected <activemq-journal>", result.err)
