"""The watch over the network: when it asks, how long it waits, and what it tells."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.network_check.monitor import AT_ONCE, NetworkCheck
from mqbroker.ha.proof.reading_timer import READ_SECONDS
from tests.support.clock import FakeClock

PERIOD = 5.0
SECONDS = 1.0


class Network:
    """The places of a check, each of which answers when a test says so."""

    def __init__(self, count: int = 2) -> None:
        self.clock = FakeClock()
        self.asked: dict[str, Deferred[Any]] = {}
        self.cancelled: list[str] = []
        self.rounds: list[str] = []
        self.told: list[str] = []
        self.check = NetworkCheck(self.clock, self.ask, [f"10.0.0.{number}" for number in range(count)], PERIOD, SECONDS)

    def ask(self, place: str) -> Deferred[Any]:
        self.rounds.append(place)
        self.asked[place] = Deferred(lambda _: self.cancelled.append(place))
        return self.asked[place]

    def start(self) -> Network:
        self.check.start(lambda reason: self.told.append("isolated"), lambda: self.told.append("reachable"))
        return self

    def answer(self, place: str) -> None:
        self.asked.pop(place).callback(None)
        self.clock.advance(0)

    def silence(self, *places: str) -> None:
        for place in places or list(self.asked):
            self.asked.pop(place).errback(OSError("no"))
        self.clock.advance(0)


class LookTests(SynchronousTestCase):
    def test_the_first_look_is_at_the_start_and_then_one_per_period(self) -> None:
        network = Network().start()
        self.assertEqual(network.rounds, ["10.0.0.0", "10.0.0.1"])
        network.answer("10.0.0.1")
        network.clock.advance(PERIOD - 0.1)
        self.assertEqual(len(network.rounds), 2)
        network.clock.advance(0.2)
        self.assertEqual(len(network.rounds), 4)

    def test_one_answer_is_enough_and_the_others_are_asked_no_more(self) -> None:
        network = Network(3).start()
        network.silence("10.0.0.0")
        network.answer("10.0.0.1")
        self.assertEqual((network.cancelled, network.told), (["10.0.0.2"], []))

    def test_all_silent_is_told_once_until_one_answers(self) -> None:
        network = Network().start()
        for _ in range(3):
            network.silence()
            network.clock.advance(PERIOD)
        self.assertEqual(network.told, ["isolated"])
        network.answer("10.0.0.0")
        self.assertEqual(network.told, ["isolated", "reachable"])

    def test_a_place_that_says_nothing_is_silent_after_the_time(self) -> None:
        network = Network().start()
        network.silence("10.0.0.0")
        network.clock.advance(SECONDS - 0.01)
        self.assertEqual(network.told, [])
        network.clock.advance(0.02)
        self.assertEqual((network.told, network.cancelled), (["isolated"], ["10.0.0.1"]))

    def test_many_places_are_asked_some_at_a_time(self) -> None:
        network = Network(AT_ONCE + 1).start()
        self.assertEqual(len(network.rounds), AT_ONCE)
        network.silence()
        self.assertEqual((len(network.rounds), network.told), (AT_ONCE + 1, []))
        network.silence()
        self.assertEqual(network.told, ["isolated"])

    def test_a_machine_that_has_stood_still_looks_again(self) -> None:
        """Its answers may have come in time, and its pings count the time in which they did not run."""
        network = Network(1).start()
        network.clock.seconds += 60
        network.silence()
        self.assertEqual((network.told, len(network.rounds)), ([], 2))
        network.silence()
        self.assertEqual(network.told, ["isolated"])

    def test_a_timer_that_is_late_lets_the_answer_be_read(self) -> None:
        network = Network(1).start()
        network.clock.advance(SECONDS - READ_SECONDS)
        network.clock.seconds += 60
        network.clock.advance(0)
        network.answer("10.0.0.0")
        network.clock.advance(1)
        self.assertEqual(network.told, [])

    def test_who_asks_gets_the_answer_of_the_look_that_is_under_way(self) -> None:
        network = Network(1).start()
        found: list[bool] = []
        network.check.look().addCallback(found.append)
        network.check.look().addCallback(found.append)
        self.assertEqual(len(network.rounds), 1)
        network.answer("10.0.0.0")
        self.assertEqual(found, [True, True])
        network.check.look().addCallback(found.append)
        self.assertEqual(len(network.rounds), 2)
        network.silence()
        self.assertEqual((found, network.told), ([True, True, False], ["isolated"]))

    def test_a_look_that_fails_for_somebody_is_told_though_the_next_one_follows_at_once(self) -> None:
        network = Network(1).start()

        def again(answers: bool) -> None:
            network.check.look()
            network.asked.pop("10.0.0.0").callback(None)

        network.check.look().addCallback(again)
        network.silence("10.0.0.0")
        self.assertEqual(network.told, ["isolated", "reachable"])

    def test_after_a_stop_nobody_is_asked_or_told(self) -> None:
        network = Network().start()
        found: list[bool] = []
        network.check.look().addCallback(found.append)
        network.check.stop()
        network.clock.advance(100)
        self.assertEqual((network.told, found, len(network.rounds), len(network.cancelled)), ([], [], 2, 2))
        self.assertEqual(network.clock.pending, 0)

    def test_a_stop_between_finding_and_telling_tells_nothing(self) -> None:
        network = Network(1).start()
        network.asked["10.0.0.0"].errback(OSError("no"))
        network.check.stop()
        network.start()
        network.clock.advance(0)
        self.assertEqual(network.told, [])

    def test_a_second_start_changes_nothing(self) -> None:
        network = Network(1).start()
        network.start()
        self.assertEqual(len(network.rounds), 1)


class AnswersTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.sampled_from(["answer", "silence", "nothing"]), st.booleans()), max_size=40))
    def test_any_answers_stop_it_at_most_once_until_one_comes(self, steps: list[tuple[str, bool]]) -> None:
        network = Network(2).start()
        expected: list[str] = []
        for step, asks in steps:
            before = len(network.rounds)
            if asks:
                network.check.look()
            if step == "answer":
                network.answer("10.0.0.1")
            elif step == "silence":
                network.silence()
            else:
                network.clock.advance(SECONDS)
            outcome = "reachable" if step == "answer" else "isolated"
            if outcome != (expected or ["reachable"])[-1]:
                expected.append(outcome)
            self.assertEqual(network.told, expected)
            network.asked.clear()
            network.clock.advance(PERIOD)
            self.assertEqual(len(network.rounds), before + 2)
