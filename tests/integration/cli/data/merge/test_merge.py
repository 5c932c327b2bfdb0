"""``mqbroker data merge`` against a broker that runs, and a copy of its folders that went on without it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from typing import Any

from mqbroker.cli.data.here import Here
from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.folders import journal_node_id
from mqbroker.storage.mirror.former import KEPT
from tests.integration.cli.test_commands_on_a_broker import CommandsOnABrokerCase
from tests.unit.cli.runner import mqbroker
from tests.unit.storage.support import make_message

BODY = bytes(range(256)) * 1000


class MergeTests(CommandsOnABrokerCase):
    def setUp(self) -> None:
        super().setUp()
        self.good("queue", "create", "--name", "orders", "--anycast", "--durable", "--auto-create-address", "--preserve-on-no-consumers")
        self.good("producer", "--destination", "queue://orders", "--message-count", "3")
        data = self.instance / "data"
        running = DataFolders(data / "journal", data / "bindings", data / "large-messages")
        self.kept = running.below("oldreplica.1")
        for source in (data / "journal", data / "bindings"):
            copy = source / "oldreplica.1"
            copy.mkdir()
            for file in source.glob("*.mqj"):
                shutil.copy(file, copy)
        self.go_on()
        (self.kept.journal / KEPT).touch()

    def go_on(self) -> None:
        """The kept copy consumes a message and gets three: a plain one, a large one, and one that is consumed again."""
        here, failures = Here(), list[str]()
        store = FileStore(self.kept.settings(), LocalFileSystem(), here, here, os.urandom, failures.append)
        store.open(self.node_id())
        recovered = store.load()
        (queue,) = [each.queue_id for each in recovered.queues if each.name == "orders"]
        batch = store.begin()
        batch.acknowledge(queue, recovered.messages[0][0])
        plain, consumed, large = (make_message(store, b"only here", "orders") for _ in range(3))
        batch.add_message(plain, [queue])
        batch.add_message(consumed, [queue])
        store.commit(batch)
        large.large = body = store.create_large_body(store.next_id())
        body.append(BODY)
        body.complete()
        batch = store.begin()
        batch.acknowledge(queue, consumed)
        batch.add_message(large, [queue])
        store.commit(batch)
        store.stop(lambda: None)
        here.run()
        self.assertEqual(failures, [])
        self.ids = [plain.message_id, large.message_id]

    def node_id(self) -> str:
        found = journal_node_id(LocalFileSystem(), self.kept.settings())
        assert found is not None
        return str(uuid.UUID(bytes=found))

    def merge(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.good("data", "merge", "--instance", str(self.instance), "--json", *arguments))
        return found

    def count(self) -> str:
        (entry,) = json.loads(self.good("queue", "stat", "--queueName", "orders", "--json"))["data"]
        return str(entry["messageCount"])

    def test_a_second_run_adds_nothing(self) -> None:
        files = {path: path.read_bytes() for path in self.instance.glob("data/*/oldreplica.1/*")}
        self.good("consumer", "--destination", "queue://orders", "--message-count", "2")
        found = self.merge()
        self.assertEqual([each["messageID"] for each in found["missing"]], self.ids)
        self.assertEqual((found["inBoth"], found["undecided"], found["unsendable"], found["sent"]), (1, [], [], None))
        self.assertEqual((len(found["consumed"]["orders"]["both"]), found["consumed"]["orders"]["onlyRunning"]), (1, 1))
        self.assertEqual(self.count(), "1")
        self.assertEqual(self.merge("--send")["sent"], 2)
        self.assertEqual(self.count(), "3")
        again = self.merge("--send")
        self.assertEqual((again["sent"], [each["messageID"] for each in again["alreadyThere"]]), (0, self.ids))
        self.assertEqual(self.count(), "3")
        text = self.good("data", "merge", "--instance", str(self.instance))
        self.assertIn("Already there, by their duplicate ids: 2 messages", text)
        self.assertEqual({path: path.read_bytes() for path in self.instance.glob("data/*/oldreplica.1/*")}, files)
        self.good("consumer", "--destination", "queue://orders", "--message-count", "3")
        self.assertEqual(self.count(), "0")

    def test_a_broker_that_is_not_reached(self) -> None:
        result = mqbroker("data", "merge", "--instance", str(self.instance), "--url", "tcp://127.0.0.1:9", "--send")
        self.assertEqual(result.status, 3, result.err)
        self.assertEqual(self.count(), "3")
