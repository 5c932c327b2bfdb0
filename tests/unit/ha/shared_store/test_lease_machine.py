"""The lease of a broker that is active, state by state."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.lease_machine import LeaseData, LeaseMachine, make_lease


class Core:
    """Knows what it was told to do."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def renew_from_now_on(self) -> None:
        self.told.append("renew")

    def renew_no_more(self) -> None:
        self.told.append("renew no more")

    def note_silence(self) -> None:
        self.told.append("note")

    def tell_lost(self) -> None:
        self.told.append("lost")

    def give_back_row(self) -> None:
        self.told.append("give back")


class LeaseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.core = Core()
        self.machine: LeaseMachine = make_lease(LeaseData(self.core))

    def assert_told(self, state: str, *told: str) -> None:
        self.assertEqual((self.machine.state(), self.core.told), (state, list(told)))
        self.core.told.clear()

    def test_a_lease_is_renewed_until_it_is_given_back(self) -> None:
        self.machine.release()
        self.assert_told("free")
        self.machine.acquired()
        self.assert_told("held", "renew")
        self.machine.renewed()
        self.assert_told("held")
        self.machine.release()
        self.assert_told("free", "renew no more", "give back")
        self.machine.acquired()
        self.assert_told("held", "renew")

    def test_silence_is_borne_as_long_as_the_lease_lasts(self) -> None:
        self.machine.acquired()
        self.machine.unanswered()
        self.assert_told("held", "renew", "note")
        self.machine.ran_out()
        self.assert_told("lost", "renew no more", "lost")

    def test_a_row_that_names_another_broker_ends_it_at_once_and_nothing_is_given_back(self) -> None:
        self.machine.acquired()
        self.machine.refused()
        self.assert_told("lost", "renew", "renew no more", "lost")
        self.machine.release()
        self.assert_told("free")

    def test_a_renewal_that_was_under_way_changes_nothing(self) -> None:
        for state, prepare in (("free", ()), ("lost", (self.machine.acquired, self.machine.refused))):
            for each in prepare:
                each()
            self.core.told.clear()
            for late in (self.machine.renewed, self.machine.refused, self.machine.unanswered, self.machine.ran_out):
                late()
                self.assert_told(state)
