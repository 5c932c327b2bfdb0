"""Who may go on at a broker that was elsewhere before."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.clients import ELSEWHERE_SECONDS, REFUSED_MAX, Clients, owner_of
from mqbroker.imq.enhanced.stamping import Look
from tests.unit.imq.enhanced.test_watch import row


def look(when: float = 0.0) -> Look:
    """The second broker has its own data and those of a lost node."""
    return Look(when, True, [row(1), row(2)], {"node1": "b1", "node2": "b2", "lost": "b2"})


class ClientTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clients = Clients()
        self.clients.adopted.add("node1")

    def test_whose_data_are_here(self) -> None:
        self.assertTrue(self.clients.serves("node1", None, (), 0))
        self.assertFalse(self.clients.serves("lost", None, (), 0))

    def test_whose_data_are_elsewhere_for_a_while(self) -> None:
        late = ELSEWHERE_SECONDS + 1
        found = [self.clients.serves("lost", look(now), linked, now) for now, linked in ((0, ("node2",)), (late, ()), (late, ("node2",)))]
        self.assertEqual(found, [False, False, True])

    def test_nobody_knows_them_at_the_next_look_either(self) -> None:
        self.assertEqual([self.clients.serves("gone", look(when), (), 5) for when in (4, 5, 6)], [False, False, True])

    def test_few_are_remembered(self) -> None:
        for number in range(2 * REFUSED_MAX):
            self.clients.serves(f"node {number}", look(), (), 0)
        self.assertLessEqual(len(self.clients._refused), REFUSED_MAX)

    def test_who_has_the_data(self) -> None:
        found = [owner_of(look(), node) for node in ("lost", "node1", "gone")]
        self.assertEqual([each and each.broker for each in found], ["b2", "b1", None])
