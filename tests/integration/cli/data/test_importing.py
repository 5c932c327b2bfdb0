"""Imports of exports, into a broker that runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from unittest import mock

from mqbroker.cli.data import importing
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

    def test_nothing_is_dropped_in_silence(self) -> None:
        """Dead letters of one message that two queues had, and queues that the broker has elsewhere."""
        file = self.instance / "tmp" / "in.xml"
        text = """<activemq-journal><bindings>
            <address-binding routing-types="ANYCAST" name="dead" id="1"/>
            <queue-binding address="dead" filter-string="" name="dead" id="2" routing-type="ANYCAST"/></bindings><messages>"""
        for number in (5, 6):
            text += f"""<message id="{number}" priority="4" timestamp="18" type="bytes"><properties>
                <property name="_AMQ_DUPL_ID" value="one" type="string"/></properties><queues><queue name="dead"/></queues>
                <body><![CDATA[AAE=]]></body></message>"""
        file.write_text(f"{text}</messages></activemq-journal>")
        with mock.patch.object(importing, "BATCH", 1):
            self.assertIn("imported 2 messages", self.good("data", "imp", "--input", str(file)))
        (counts,) = json.loads(self.good("queue", "stat", "--queueName", "dead", "--json"))["data"]
        self.assertEqual(counts["messageCount"], "2")
        self.good("queue", "create", "--name", "moved", "--address", "other", "--anycast", "--durable", "--auto-create-address")
        file.write_text(file.read_text().replace('"dead"', '"moved"').replace('"one"', '"two"'))
        refused = self.command("data", "imp", "--input", str(file))
        self.assertEqual(refused.status, 1)
        self.assertIn("the queue moved belongs to the address other in the broker, and to moved in the file", refused.err)
