"""A pair as ``mqbroker create`` makes it: it runs, commands and management see both, and one goes on when it is asked to."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import TestCase

from mqclient.jms import ConnectionFactory
from tests.integration.brokers import Broker
from tests.integration.cluster.nodes import ReservedPort
from tests.unit.cli.runner import mqbroker

LOGIN = ("--user", "admin", "--password", "admin")
WAIT_MS = 20_000


class CreatedPairTests(TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-pair-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        reserved = [ReservedPort(), ReservedPort()]
        for each in reserved:
            self.addCleanup(each.close)
        self.ports = [each.number for each in reserved]

    def create(self, number: int, *options: str) -> Path:
        instance = self.folder / f"node{number}"
        made = mqbroker(
            *("create", str(instance), "--silent", "--host", "127.0.0.1", "--default-port", str(self.ports[number])),
            *("--static-cluster", f"tcp://127.0.0.1:{self.ports[1 - number]}"),
            *options,
        )
        self.assertEqual(made.status, 0, made.err)
        return instance

    def run_instance(self, instance: Path, line: str) -> Broker:
        broker = Broker([str(instance / "bin" / "mqbroker"), "run"], instance, line)
        self.addCleanup(broker.stop)
        return broker

    def start_pair(self, waiting: str, *options: str) -> None:
        """Create it with ``options``, and start it; the backup has written ``waiting``."""
        first, second = self.create(0, *options), self.create(1, *options, "--backup")
        checked = mqbroker("check", "ha", "--instance", str(second))
        self.assertEqual(checked.status, 1)
        self.assertIn("connection-ttl: 60 s", checked.err)
        self.primary = self.run_instance(first, "AMQ221007")
        self.backup = self.run_instance(second, waiting)

    def assert_told_of_slowness(self) -> None:
        for broker in (self.primary, self.backup):
            self.assertIn("connection-ttl: 60 s", broker.wait_for("see 'mqbroker check ha'"))

    def test_one_that_shares_its_store(self) -> None:
        self.start_pair("AMQ221031", "--shared-store", "--data", str(self.folder / "shared"))
        self.assert_told_of_slowness()
        self.assert_goes_on_when_asked_to()

    def test_a_replicated_one(self) -> None:
        self.start_pair("AMQ221024", "--replicated")
        self.primary.wait_for("AMQ221024")
        self.assert_told_of_slowness()
        self.assert_goes_on_when_asked_to()

    def assert_goes_on_when_asked_to(self) -> None:
        url = f"tcp://127.0.0.1:{self.ports[0]}"
        seen = mqbroker("check", "node", "--primary", "--backup", "--url", url, *LOGIN)
        self.assertEqual(seen.status, 0, seen.err)
        with ConnectionFactory(url).create_context("admin", "admin") as context:
            context.create_producer().send(context.create_queue("q"), "kept")
            request = context.create_text_message("[]")
            request.set_string_property("_AMQ_ResourceName", "broker")
            request.set_string_property("_AMQ_OperationName", "forceFailover")
            context.create_producer().send(context.create_queue("activemq.management"), request)
            self.assertEqual(self.primary.ended(), 0)
        self.backup.wait_for("AMQ221010")
        with ConnectionFactory(f"tcp://127.0.0.1:{self.ports[1]}").create_context("admin", "admin") as context:
            message = context.create_consumer(context.create_queue("q")).receive(WAIT_MS)
            assert message is not None
            self.assertEqual(message.text, "kept")
