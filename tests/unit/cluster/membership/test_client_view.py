"""What clients are told where each member stands in for another one."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.client_view import Appearance, ClientView
from mqclient.protocol.topology import TopologyMember
from tests.unit.cluster.support import member

A, B, C = (member(name, 10, port) for name, port in (("a", 1), ("b", 2), ("c", 3)))


class ClientViewTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.view = ClientView()

    def shown(self, *members: TopologyMember) -> dict[str, str | None]:
        """Where the stand-in of each member is."""
        ports = {each.node_id: self.view.of(each, members).backup for each in members}
        return {name: None if found is None else str(dict(found.parameters)["port"]) for name, found in ports.items()}

    def test_the_next_one_stands_in_and_the_first_for_the_last(self) -> None:
        self.assertEqual(self.shown(C, A, B), {"a": "2", "b": "3", "c": "1"})

    def test_one_alone_has_nobody(self) -> None:
        self.assertEqual(self.shown(A), {"a": None})

    def test_members_without_a_place_stand_in_for_nobody(self) -> None:
        self.assertEqual(self.shown(A, member("b", 10, None), C)["a"], "3")

    def test_another_stand_in_is_news(self) -> None:
        first = self.view.of(A, [A, B, C])
        again = self.view.of(A, [A, B, C])
        changed = self.view.of(A, [A, C])
        self.assertEqual((first.unique_event_id, again.unique_event_id, changed.unique_event_id), (10, 10, 11))
        self.assertEqual(self.view.of(member("a", 20, 1), [A, C]).unique_event_id, 20)

    def test_a_departure_is_later_than_all_that_was_told(self) -> None:
        self.view.of(A, [A, B])
        self.view.of(A, [A, C])
        self.assertEqual(self.view.gone("a", 10), 11)
        self.assertEqual(self.view.gone("a", 10), 10)

    def test_whom_a_change_concerns(self) -> None:
        self.assertEqual([self.view.concerned(name, [A, B, C]) for name in ("a", "b", "c")], [[C], [A], [B]])
        self.assertEqual(self.view.concerned("b", [A, C]), [A])
        self.assertEqual(self.view.concerned("a", [A]), [])
        self.view.left_out = frozenset("c")
        self.assertEqual(self.view.concerned("a", [A, B, C]), [C, B])

    def test_who_is_left_out_stands_in_for_nobody_unless_there_is_no_other_one(self) -> None:
        self.view.left_out = frozenset("b")
        self.assertEqual(self.shown(C, A, B), {"a": "3", "b": "3", "c": "1"})
        self.view.left_out = frozenset("bc")
        self.assertEqual(self.shown(C, A, B), {"a": "2", "b": "1", "c": "1"})


class AppearanceTests(SynchronousTestCase):
    def told(self, appearance: Appearance, own: TopologyMember) -> tuple[str, int]:
        found = appearance.of(own)
        self.assertEqual((found.primary, found.backup), (own.primary, own.backup))
        return found.node_id, found.unique_event_id

    def test_the_broker_is_the_lost_node_from_now_on(self) -> None:
        appearance = Appearance("lost", 50, A)
        self.assertEqual([self.told(appearance, A), self.told(appearance, A)], [("lost", 50), ("lost", 50)])

    def test_each_change_is_news(self) -> None:
        appearance = Appearance("lost", 50, A)
        self.assertEqual(self.told(appearance, member("a", 11, 1)), ("lost", 51))
        self.assertEqual(self.told(appearance, member("a", 60, 1)), ("lost", 60))

    def test_what_others_are_told_may_be_later(self) -> None:
        self.assertEqual(self.told(Appearance("lost", 5, A), A), ("lost", 10))
