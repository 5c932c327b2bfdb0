"""A real Artemis broker on a folder of ours ends with an error, instead of serving empty queues, and leaves our messages alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import TestCase

import pytest

from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.embedded import EmbeddedBroker
from mqclient.jms import ConnectionFactory
from tests.interop.artemis import START_SECONDS, ArtemisBroker


def files(folder: Path) -> dict[str, bytes]:
    """The files that hold messages and queues."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "mqbroker-" in path.name}


@pytest.mark.usefixtures("java")
class ArtemisOnOurFolderTests(TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="mqbroker-foreign-")
        self.addCleanup(temporary.cleanup)
        self.instance = Path(temporary.name)
        shared = Configuration(security_enabled=False, shared_store=SharedStoreConfiguration(False))
        self.ours = EmbeddedBroker(shared, data=str(self.instance))
        with self.ours, ConnectionFactory(self.ours.url).create_context() as context:
            context.create_producer().send(context.create_queue("q"), "kept")
        self.before = files(self.instance)
        self.assertTrue(self.before)

    def start_artemis(self) -> None:
        artemis = ArtemisBroker(self.instance)
        self.addCleanup(artemis.kill)
        artemis.launch()
        artemis.process.wait_for_line("AMQ149002", START_SECONDS)
        self.assertEqual(artemis.process.wait(START_SECONDS), 1)
        self.assertFalse([line for line in artemis.process.output() if "AMQ221007" in line])

    def test_it_does_not_start_and_ours_goes_on(self) -> None:
        self.start_artemis()
        self.assertEqual(files(self.instance), self.before)
        with self.ours, ConnectionFactory(self.ours.url).create_context() as context:
            message = context.create_consumer(context.create_queue("q")).receive(20_000)
            assert message is not None
            self.assertEqual(message.text, "kept")

    def test_it_does_not_start_with_bindings_of_its_own_either(self) -> None:
        bindings = self.instance / "data" / "bindings"
        bindings.rename(self.instance / "bindings")
        self.start_artemis()
        self.assertEqual({Path(path).name for path in files(self.instance)}, {Path(path).name for path in self.before})
