"""Events: who hears of them, in which order, and who does not any more."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.event import Event
from mqbroker.messaging.turns.turn import Turn
from tests.support.clock import FakeClock


class EventTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.event: Event[str] = Event()
        self.heard: list[str] = []

    def test_listeners_hear_in_the_order_in_which_they_came_until_they_unsubscribe(self) -> None:
        self.event.subscribe(lambda text: self.heard.append(f"first {text}"))
        end = self.event.subscribe(lambda text: self.heard.append(f"second {text}"))
        self.event("a")
        end()
        self.event("b")
        self.assertEqual(self.heard, ["first a", "second a", "first b"])

    def test_a_listener_that_ends_its_own_subscription_keeps_nobody_from_hearing(self) -> None:
        def once(text: str) -> None:
            self.heard.append(f"once {text}")
            end()

        end = self.event.subscribe(once)
        self.event.subscribe(self.heard.append)
        self.event("a")
        self.event("b")
        self.assertEqual(self.heard, ["once a", "a", "b"])

    def test_who_has_subscribed_twice_hears_twice_and_after_one_end_once(self) -> None:
        self.event.subscribe(self.heard.append)
        end = self.event.subscribe(self.heard.append)
        self.event("a")
        end()
        self.event("b")
        self.assertEqual(self.heard, ["a", "a", "b"])

    def test_the_end_of_a_turn_is_told_after_everybody_was_served_and_its_failure_last(self) -> None:
        turn = Turn(FakeClock())
        turn.ended.subscribe(lambda: self.heard.append("ended"))
        turn.failed.subscribe(lambda error: self.heard.append(str(error)))

        class Failing:
            marked = False

            def deliver(self) -> None:
                raise OSError("no")

        turn.run(turn.mark_queue, Failing())
        self.assertEqual(self.heard, ["ended", "no"])
