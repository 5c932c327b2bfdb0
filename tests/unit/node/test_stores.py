"""The store of a broker whose folder is in use."""

from __future__ import annotations

from mqbroker.node.parts import StartError
from tests.unit.node.test_life import StartCase


class StoreTests(StartCase):
    def test_a_folder_that_another_broker_holds_is_left_alone(self) -> None:
        first, second = self.life(), self.life()
        first.start()
        found = self.files()
        error = self.assertRaises(StartError, second.start)
        self.assertIn("lock", str(error))
        self.assertEqual((second.state, self.files()), ("failed", found))
        self.assertFalse(self.pages[1].is_open)
        self.stopped(first)
        second.start()
        self.assertEqual(second.state, "active")
        self.stopped(second)
