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
            *("--static-cluster", f"tcp://127.0.0.1:{self.ports[1 - number]}", "--shared-store", "--data", str(self.folder / "shared")),
            *options,
        )
        self.assertEqual(made.status, 0, made.err)
        return instance

    def run_instance(self, instance: Path, line: str) -> Broker:
        broker = Broker([str(instance / "bin" / "mqbroker"), "run"], instance, line)
        self.addCleanup(broker.stop)
        return broker

    def test_it_fails_over_when_it_is_asked_to(self) -> None:
        first, second = self.create(0), self.create(1, "--backup")
        checked = mqbroker("check", "ha", "--instance", str(second))
        self.assertEqual(checked.status, 1)
        self.assertIn("connection-ttl: 60 s", checked.err)
        primary = self.run_instance(first, "AMQ221007")
        backup = self.run_instance(second, "AMQ221031")
        url = f"tcp://127.0.0.1:{self.ports[0]}"
        seen = mqbroker("check", "node", "--primary", "--backup", "--url", url, *LOGIN)
        self.assertEqual(seen.status, 0, seen.err)
        with ConnectionFactory(url).create_context("admin", "admin") as context:
            context.create_producer().send(context.create_queue("q"), "kept")
            request = context.create_text_message("[]")
            request.set_string_property("_AMQ_ResourceName", "broker")
            request.set_string_property("_AMQ_OperationName", "forceFailover")
            context.create_producer().send(context.create_queue("activemq.management"), request)
            self.assertEqual(primary.ended(), 0)
        backup.wait_for("AMQ221010")
        with ConnectionFactory(f"tcp://127.0.0.1:{self.ports[1]}").create_context("admin", "admin") as context:
            message = context.create_consumer(context.create_queue("q")).receive(WAIT_MS)
            assert message is not None
            self.assertEqual(message.text, "kept")
