"""What the settings in a store say of a record that was followed."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master.standing import Standing
from mqbroker.imq.record.followed import Followed
from tests.unit.imq.net import ONE, KeptStore


def followed(generation: str | None, position: int, *former: str, **lives: int) -> Followed:
    """A broker that has followed this record so far, and has made queues at these positions."""
    store = KeptStore("node")
    standing = Standing(store, {})
    if generation is not None:
        for queue, life in lives.items():
            standing.made(queue, life)
        standing.follow(generation, former, position, ONE)
    return Followed(store.settings)


class FollowedTests(SynchronousTestCase):
    def test_it_says_what_was_kept(self) -> None:
        found = followed("g", 5, "f", q=3)
        self.assertEqual((found.generation, found.position, found.former, found.lives), ("g", 5, ("f",), {"q": ("g", 3)}))
        self.assertEqual(Followed({}).generation, None)

    def test_who_has_not_come_so_far_has_missed_something(self) -> None:
        for own, other, missed in (
            (followed("g", 5), followed("g", 5), None),
            (followed("g", 5), followed("g", 4), None),
            (followed("g", 5), followed("g", 6), 6),
            (followed(None, 0), followed("g", 6), 6),
            (followed("g", 5), followed(None, 0), None),
            (followed("g", 5, "f"), followed("f", 9), None),
            (followed("g", 5), followed("h", 9), None),
        ):
            self.assertEqual(own.missed(other), missed)

    def test_what_was_made_later(self) -> None:
        own = followed("g", 9, q=3, r=7)
        self.assertEqual([own.has_later(name, followed("g", 5)) for name in "qrs"], [False, True, False])
        self.assertFalse(own.has_later("r", followed("f", 5)), "positions of another record")
