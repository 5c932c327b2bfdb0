"""The commands that talk to a broker, against one that `mqbroker run` has started on an instance of `mqbroker create`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.unit.cli.runner import Result, mqbroker

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 30.0


class CommandsOnABrokerTests(unittest.TestCase):
    """Trial knows no setUpClass: each test has a broker of its own."""

    def setUp(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mqbroker-cli-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.instance = folder / "instance"
        made = mqbroker("create", str(self.instance), "--silent", "--host", "127.0.0.1")
        self.assertEqual(made.status, 0, made.err)
        config = self.instance / "etc" / "broker.xml"
        config.write_text(config.read_text().replace("tcp://127.0.0.1:61616", "tcp://127.0.0.1:0"))
        paths = [str(ROOT / path) for path in ("src", "clients/mqclient/src", "plugins")]
        self.log = log = folder / "log"
        with log.open("w") as out:
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MQBROKER_PYTHON": sys.executable}
            command = [str(self.instance / "bin" / "artemis"), "run"]
            self.broker = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
        self.addCleanup(self.end_broker)
        deadline = time.monotonic() + START_SECONDS
        found = None
        while found is None and time.monotonic() < deadline and self.broker.poll() is None:
            time.sleep(0.05)
            found = re.search(r"listening on (tcp://127\.0\.0\.1:\d+)", log.read_text())
        assert found is not None, log.read_text()
        self.url = found[1]

    def end_broker(self) -> None:
        if self.broker.poll() is None:
            self.broker.send_signal(signal.SIGKILL)
        self.broker.wait()

    def command(self, *arguments: str) -> Result:
        return mqbroker(*arguments, "--url", self.url, "--user", "admin", "--password", "admin")

    def good(self, *arguments: str) -> str:
        result = self.command(*arguments)
        self.assertEqual(result.status, 0, result.err)
        return result.out

    def test_produce_browse_consume(self) -> None:
        queue = ("--destination", "queue://pbc")
        sent = json.loads(self.good("producer", *queue, "--message-count", "7", "--threads", "2", "--commit-interval", "3", "--json"))
        self.assertEqual(sent["messages"], 14)
        self.assertIn("browsed: 5 messages", self.good("browser", *queue, "--message-count", "5"))
        got = self.good("consumer", *queue, "--message-count", "14")
        self.assertIn("Consumed: 14 messages", got)
        self.assertRegex(got, r"Rate: 14 messages in [\d.]+ s")
        self.assertIn("Consumed: 0 messages", self.good("consumer", *queue, "--break-on-null", "--receive-timeout", "50"))

    def test_filters_and_properties(self) -> None:
        queue = ("--destination", "queue://filtered")
        for value in ("1", "2"):
            properties = json.dumps([{"type": "int", "key": "n", "value": value}, {"type": "string", "key": "s", "value": "x"}])
            self.good("producer", *queue, "--message-count", "1", "--message", f"text {value}", "--properties", properties)
        line = json.loads(self.good("browser", *queue, "--filter", "n = 2", "--json"))
        self.assertEqual((line["body"], line["properties"]), ("text 2", {"n": 2, "s": "x"}))
        self.assertEqual(self.command("consumer", *queue, "--filter", "n = = 2").status, 1)

    def test_messages_go_through_a_file(self) -> None:
        file = str(self.instance / "tmp" / "messages.xml")
        self.good("producer", "--destination", "queue://f1", "--message", "a ]]> b\n", "--message-count", "1", "--group", "g")
        self.good("producer", "--destination", "queue://f1", "--message-size", "300", "--message-count", "1")
        self.good("consumer", "--destination", "queue://f1", "--message-count", "2", "--data", file)
        self.assertIn("Produced: 2 messages", self.good("producer", "--destination", "queue://f2", "--data", file))
        lines = [json.loads(line) for line in self.good("browser", "--destination", "queue://f2", "--json").splitlines()]
        self.assertEqual([line["body"] for line in lines], ["a ]]> b\n", {"bytes": 300}])
        self.assertEqual(lines[0]["properties"], {"JMSXGroupID": "g"})

    def test_a_durable_subscription(self) -> None:
        topic = ("--destination", "topic://news", "--message-count", "1", "--receive-timeout", "50", "--break-on-null")
        self.good("consumer", *topic, "--durable", "--clientID", "me")
        self.good("producer", "--destination", "topic://news", "--message-count", "1")
        self.assertIn("Consumed: 1 messages", self.good("consumer", *topic, "--durable", "--clientID", "me"))
        self.assertEqual(self.command("consumer", *topic, "--durable").status, 2)

    def test_queues_and_addresses(self) -> None:
        self.good("queue", "create", "--name", "qa", "--anycast", "--durable", "--auto-create-address")
        self.assertEqual(self.command("queue", "create", "--name", "qa", "--anycast", "--durable").status, 1)
        self.good("producer", "--destination", "queue://qa", "--message-count", "3")
        (entry,) = json.loads(self.good("queue", "stat", "--queueName", "qa", "--json"))["data"]
        self.assertEqual((entry["messageCount"], entry["routingType"]), ("3", "ANYCAST"))
        self.good("queue", "purge", "--name", "qa")
        (entry,) = json.loads(self.good("queue", "stat", "--field", "NAME", "--operation", "EQUALS", "--value", "qa", "--json"))["data"]
        self.assertEqual(entry["messageCount"], "0")
        self.good("queue", "delete", "--name", "qa")
        self.assertEqual(self.command("queue", "delete", "--name", "qa").status, 1)
        self.good("address", "create", "--name", "aa", "--anycast", "--multicast")
        self.assertIn("aa", json.loads(self.good("address", "show", "--json")))
        self.assertIn("Address [name=aa", self.good("address", "show", "--name", "aa"))
        self.good("address", "delete", "--name", "aa")
        self.assertNotIn("aa", json.loads(self.good("address", "show", "--json")))

    def test_users_keep_their_file_to_themselves(self) -> None:
        users = self.instance / "etc" / "artemis-users.properties"
        self.assertEqual(users.stat().st_mode & 0o777, 0o600)
        self.good("user", "add", "--user-command-user", "bob", "--user-command-password", "pw", "--role", "amq")
        self.assertIn("bob = ENC(", users.read_text())
        self.assertEqual(users.stat().st_mode & 0o777, 0o600)

    def test_the_log_tells_of_a_start_as_artemis_does(self) -> None:
        """Queues of the configuration are named; those that come later have no line, and no debug lines are written."""
        self.good("queue", "create", "--name", "late", "--anycast", "--auto-create-address")
        text = self.log.read_text()
        codes = ["AMQ221080", "AMQ221003: Deploying ANYCAST queue DLQ on address DLQ", "AMQ221020", "AMQ221007", "AMQ221001"]
        places = [text.find(code) for code in codes]
        self.assertNotIn(-1, places)
        self.assertEqual(places, sorted(places))
        self.assertNotIn("late", text)
        self.assertNotIn("#debug]", self.log.read_text())

    def test_checks(self) -> None:
        self.assertIn("Failures: 0, Errors: 0", self.good("check", "node", "--up", "--memoryUsage", "100", "--diskUsage", "100"))
        self.good("queue", "create", "--name", "qc", "--anycast", "--durable", "--auto-create-address")
        self.good("check", "queue", "--name", "qc", "--up", "--produce", "2", "--browse", "2", "--consume", "2")
        self.assertEqual(self.command("check", "queue", "--name", "qc", "--browse", "1", "--timeout", "500").status, 1)

    def test_a_queue_that_does_not_exist_is_named(self) -> None:
        reason = "queue not.there does not exist"
        for checks in ((), ("--produce", "1"), ("--browse", "1"), ("--consume", "1")):
            result = self.command("check", "queue", "--name", "not.there", *checks)
            self.assertEqual(result.status, 1)
            self.assertEqual(result.err, f"QueueCheck failed. Reason: failure: {reason}\n")
        result = self.command("queue", "purge", "--name", "not.there")
        self.assertEqual((result.status, result.err), (1, f"Failed to purge queue not.there. Reason: {reason}\n"))
        result = self.command("queue", "retry-messages", "--name", "not.there")
        self.assertEqual((result.status, result.err), (1, f"Failed to retry messages of queue not.there. Reason: {reason}\n"))

    def test_messages_are_moved_removed_and_sent_back(self) -> None:
        for number in (1, 2, 3):
            properties = json.dumps([{"type": "int", "key": "n", "value": str(number)}])
            self.good("producer", "--destination", "queue://work", "--message-count", "1", "--properties", properties)
        move = ("queue", "move-messages", "--name", "work", "--to", "DLQ", "--filter", "n > 1")
        self.assertIn("2 messages of queue work would be moved to DLQ.", self.good(*move, "--dry-run"))
        self.assertIn("2 messages of queue work moved to DLQ.", self.good(*move))
        retry = ("queue", "retry-messages", "--name", "DLQ")
        self.assertIn("2 messages of queue DLQ would be sent back to work.", self.good(*retry, "--dry-run"))
        text = self.good(*retry, "--filter", "n = 3")
        self.assertIn("1 message of queue DLQ sent back.", text)
        self.assertNotIn("still there", text)
        self.assertIn("1 message of queue DLQ deleted.", self.good("queue", "remove-messages", "--name", "DLQ", "--filter", "n = 2"))
        counts = {entry["name"]: entry["messageCount"] for entry in json.loads(self.good("queue", "stat", "--json"))["data"]}
        self.assertEqual((counts["work"], counts["DLQ"]), ("2", "0"))

    def test_stop(self) -> None:
        self.assertEqual(mqbroker("stop", "--instance", str(self.instance)).status, 0)
        self.assertEqual(self.broker.wait(20), 0)
        self.assertFalse((self.instance / "etc" / "STOP_ME").exists())

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

    def test_wrong_password(self) -> None:
        result = mqbroker("queue", "stat", "--url", self.url, "--user", "admin", "--password", "wrong")
        self.assertEqual(result.status, 3)

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


class RunTests(unittest.TestCase):
    def refused(self, *options: str, folder: str) -> str:
        """What `mqbroker run` says that does not start."""
        paths = [str(ROOT / path) for path in ("src", "clients/mqclient/src", "plugins")]
        command = [sys.executable, "-m", "mqbroker.cli", "run", "--instance", f"{folder}/i", *options]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout + done.stderr

    def test_a_broken_instance_does_not_start(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            mqbroker("create", f"{folder}/i", "--silent")
            config = Path(folder, "i", "etc", "broker.xml")
            good = config.read_text()
            config.write_text(good.replace("<acceptors>", "<aceptors>"))
            self.assertIn("broker.xml", self.refused(folder=folder))
            other = Path(folder, "other.xml")
            other.write_text(good)
            (Path(folder) / "journal").mkdir()
            (Path(folder) / "journal" / "activemq-data-1.amq").write_bytes(bytes(100))
            text = self.refused("--broker", str(other), "--journal", f"{folder}/journal", folder=folder)
            self.assertIn(f"{folder}/journal", text)
            self.assertIn("artemis data exp", text)
