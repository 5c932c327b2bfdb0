"""A look: clients say when they have worked off what they held."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.integration.kill.worker import HELD_MAX, LOOKS, Worker


class LookTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-looks-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.worker = Worker("c1", 1, "tcp://a tcp://b", self.folder, 0)

    def look(self) -> None:
        with (self.folder / LOOKS).open("a") as looks:
            looks.write(".")

    def receive(self, *found: bool) -> None:
        for each in found:
            self.worker.answer_look(each)

    def cleared(self) -> list[str]:
        lines = (self.folder / "c1.log").read_text().splitlines()
        return [line.split(maxsplit=1)[1] for line in lines]

    def test_who_gets_nothing_holds_nothing(self) -> None:
        consumer: Any = SimpleNamespace(receive=lambda timeout: None)
        self.worker.receive(consumer)
        self.look()
        self.worker.receive(consumer)
        self.assertEqual(self.cleared(), [])
        for _ in range(3):
            self.worker.receive(consumer)
        self.assertEqual(self.cleared(), ["clear 1"])

    def test_so_many_messages_are_no_more_the_same(self) -> None:
        self.look()
        self.look()
        self.receive(*[False] * HELD_MAX)
        self.assertEqual(self.cleared(), [])
        self.receive(False)
        self.assertEqual(self.cleared(), ["clear 2"])
        self.look()
        self.receive(False, True)
        self.assertEqual(self.cleared(), ["clear 2", "clear 3"])

    def test_each_client_has_the_url_of_its_turn(self) -> None:
        self.assertEqual(self.worker.url, "tcp://b")
