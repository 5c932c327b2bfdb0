"""Which members of a home cluster are linked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.links.home_links import HomeLinks


class HomeLinksTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.links = HomeLinks()
        self.told: list[tuple[str, str]] = []
        self.links.linked.subscribe(lambda member: self.told.append(("linked", member.node_id)))
        self.links.unlinked.subscribe(lambda member: self.told.append(("unlinked", member.node_id)))

    def member(self, node_id: str) -> Any:
        return SimpleNamespace(node_id=node_id)

    def test_listeners_find_the_member_when_they_are_told(self) -> None:
        seen: list[list[str]] = []
        self.links.linked.subscribe(lambda member: seen.append(list(self.links.members)))
        self.links.unlinked.subscribe(lambda member: seen.append(list(self.links.members)))
        first = self.member("a")
        self.links.up(first)
        self.links.up(self.member("b"))
        self.links.down(first)
        self.assertEqual(seen, [["a"], ["a", "b"], ["b"]])
        self.assertEqual(self.told, [("linked", "a"), ("linked", "b"), ("unlinked", "a")])

    def test_the_end_of_an_earlier_link_does_not_end_the_later_one(self) -> None:
        earlier, later = self.member("a"), self.member("a")
        self.links.up(earlier)
        self.links.down(earlier)
        self.links.up(later)
        self.links.down(earlier)
        self.assertIs(self.links.members["a"], later)
        self.assertEqual(self.told, [("linked", "a"), ("unlinked", "a"), ("linked", "a")])
