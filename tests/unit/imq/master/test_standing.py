"""What a broker keeps about the record that it follows, and about the master."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master.standing import Mastership, Standing
from mqbroker.imq.record.followed import KIND
from tests.unit.imq.net import ONE, TWO, KeptStore


class StandingTests(SynchronousTestCase):
    def test_it_is_kept(self) -> None:
        store = KeptStore("node")
        standing = Standing(store, {})
        self.assertEqual((standing.generation, standing.position, standing.master), (None, 0, None))
        standing.follow("g", ("f",), 4, ONE)
        standing.note(5)
        standing.advance(6)
        again = Standing(store, store.settings)
        self.assertEqual((again.generation, again.position, again.master), ("g", 5, ONE))
        standing.keep()
        self.assertEqual(Standing(store, store.settings).position, 6)

    def test_what_was_made_is_noted_with_all_up_to_there(self) -> None:
        store = KeptStore("node")
        standing = Standing(store, {})
        standing.made("q", 3)
        standing.follow("g", (), 4, ONE)
        for name in ("r", "s", "t"):
            standing.made(name, 5)
        standing.ended("r")
        self.assertEqual(Standing(store, store.settings).lives, {"q": ("g", 3)})
        standing.note(6)
        standing.ended("s")
        self.assertEqual(Standing(store, store.settings).lives, {"q": ("g", 3), "t": ("g", 5)})
        standing.forget()
        self.assertEqual(Standing(store, store.settings).lives, {})

    def test_positions_that_an_earlier_state_has_kept_stay(self) -> None:
        store = KeptStore("node")
        store.settings[KIND, "standing"] = json.dumps({"generation": "g", "position": 4, "lives": {"q": ["g", 3], "r": ["f", 2]}})
        standing = Standing(store, store.settings)
        standing.ended("r")
        standing.made("s", 5)
        standing.note(5)
        self.assertEqual(Standing(store, store.settings).lives, {"q": ("g", 3), "s": ("g", 5)})
        self.assertNotIn("lives", json.loads(store.settings[KIND, "standing"]))

    def test_it_has_everything_of_the_records_before(self) -> None:
        standing = Standing(KeptStore("node"), {})
        standing.follow("g", ("f",), 4, ONE)
        self.assertEqual([standing.has(*each) for each in (("g", 4), ("g", 5), ("f", 100), ("h", 1))], [True, False, True, False])


class MastershipTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = KeptStore("node")

    def again(self, configured: str = ONE) -> Mastership:
        return Mastership(self.store, self.store.settings, configured)

    def test_a_change_holds_until_the_configuration_names_another_master(self) -> None:
        mastership = self.again()
        self.assertEqual((mastership.master, mastership.changed), (ONE, False))
        mastership.settle(TWO)
        self.assertEqual((self.again().master, self.again().changed), (TWO, True))
        self.assertEqual((self.again("b3:7676").master, self.again(TWO).changed), ("b3:7676", False))

    def test_that_it_was_changed_is_known_when_it_is_the_former_one_again(self) -> None:
        mastership = self.again()
        mastership.hand_over(TWO, "c")
        self.assertFalse(mastership.changed)
        mastership.settle(TWO)
        mastership.settle(ONE)
        self.assertEqual((self.again().master, self.again().changed), (ONE, True))

    def test_a_successor_whose_answer_is_missing_is_kept(self) -> None:
        self.again().hand_over(TWO, "c")
        found = self.again()
        self.assertEqual((found.master, found.successor, found.change), (ONE, TWO, "c"))
        found.settle(ONE)
        self.assertIsNone(self.again().successor)
