"""Who may go on at a broker that was elsewhere before."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.clients import ELSEWHERE_SECONDS, REFUSED_MAX, SERVED_SECONDS, Clients, owner_of
from mqbroker.imq.enhanced.stamping import Look
from tests.unit.imq.enhanced.test_watch import row


def look(when: float = 0.0, taker: str = "b2") -> Look:
    """The second broker, or another one, has its own data and those of a lost node."""
    return Look(when, True, [row(1), row(2), row(3)], {"node1": "b1", "node2": "b2", "node3": "b3", "lost": taker})


class ClientTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clients = Clients({"node1"})

    def test_whose_data_are_here(self) -> None:
        self.assertTrue(self.clients.serves("node1", None, (), 0))
        self.assertFalse(self.clients.serves("lost", None, (), 0))

    def goes_on_coming(self, start: float, taker: str = "b2") -> list[bool]:
        """Whether a client of the lost node is served that comes twice in the time after which it cannot go to the taker."""
        times = (start, start + ELSEWHERE_SECONDS / 2, start + ELSEWHERE_SECONDS)
        return [self.clients.serves("lost", look(now, taker), ("node2", "node3"), now) for now in times]

    def test_whose_data_are_elsewhere_for_a_while(self) -> None:
        self.assertEqual(self.goes_on_coming(0), [False, False, True])
        self.assertFalse(self.clients.serves("lost", look(), (), ELSEWHERE_SECONDS), "the taker is not linked")

    def test_who_comes_again_much_later_was_at_the_taker_meanwhile(self) -> None:
        self.goes_on_coming(0)
        self.assertEqual(self.goes_on_coming(ELSEWHERE_SECONDS + SERVED_SECONDS), [False, False, True])

    def test_who_pauses_for_long_and_cannot_go_to_the_taker_is_served(self) -> None:
        """Once each attempt counted as the first one."""
        self.assertEqual([self.clients.serves("lost", look(now), ("node2",), now) for now in (0, 120, 240)], [False, True, True])

    def test_another_taker_is_to_be_tried_first(self) -> None:
        self.goes_on_coming(0)
        self.assertEqual(self.goes_on_coming(ELSEWHERE_SECONDS + 1, "b3"), [False, False, True])

    def test_nobody_knows_them_at_the_next_look_either(self) -> None:
        self.assertEqual([self.clients.serves("gone", look(when), (), 5) for when in (4, 5, 6)], [False, False, True])

    def test_nor_those_who_come_seldom(self) -> None:
        seldom = 2 * SERVED_SECONDS
        self.assertEqual([self.clients.serves("gone", look(when), (), when + 1) for when in (4, 4 + seldom)], [False, True])

    def test_few_are_remembered(self) -> None:
        for number in range(2 * REFUSED_MAX):
            self.clients.serves(f"node {number}", look(), (), 0)
        self.assertLessEqual(len(self.clients._refused), REFUSED_MAX)

    def test_who_has_the_data(self) -> None:
        found = [owner_of(look(), node) for node in ("lost", "node1", "gone")]
        self.assertEqual([each and each.broker for each in found], ["b2", "b1", None])
