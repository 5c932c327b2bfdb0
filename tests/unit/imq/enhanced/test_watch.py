"""When a member counts as dead."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.watch import Watch, WatchSettings, rank_of
from mqbroker.storage.shared.brokers import BrokerRow, State


def row(number: int, stamp: int = 1000, state: State = State.OPERATING) -> BrokerRow:
    return BrokerRow(f"b{number}", "c", f"localhost:767{number}", f"node{number}", "1", state, "", stamp, f"process {number}", "")


class WatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.watch = Watch("b1", WatchSettings(interval=10, threshold=2))
        self.now = 0.0

    def tick(self, *others: BrokerRow, linked: tuple[str, ...] = (), seconds: float = 10) -> list[str]:
        self.now += seconds
        return [each.broker for each in self.watch.tick(self.now, [row(1), *others], linked)]

    def test_a_member_that_stamps_no_more_is_dead_after_the_threshold(self) -> None:
        self.assertEqual([self.tick(row(2)) for _ in range(3)], [[], [], ["b2"]])
        self.assertEqual(self.watch.suspects(), ["b2"])

    def test_a_linked_member_is_no_suspect_however_old_its_stamp_is(self) -> None:
        self.assertEqual([self.tick(row(2), linked=("node2",)) for _ in range(9)], [[]] * 9)
        self.assertEqual(self.watch.suspects(), [])

    def test_a_member_without_a_link_that_stamps_is_alive(self) -> None:
        self.assertEqual([self.tick(row(2, stamp)) for stamp in (1, 1, 2, 2, 3, 3, 4)], [[]] * 7)

    def test_a_stamp_that_is_old_at_the_first_look_is_watched_like_any_other(self) -> None:
        self.assertEqual([self.tick(row(2, -(10**9))), self.tick(row(2, -(10**9)))], [[], []])

    def test_a_stamp_of_an_earlier_clock_of_the_database_is_a_sign_of_life(self) -> None:
        self.assertEqual([self.tick(row(2, stamp)) for stamp in (9, 9, 3, 3)], [[]] * 4)

    def test_a_link_that_comes_back_ends_the_suspicion(self) -> None:
        self.tick(row(2))
        self.tick(row(2))
        self.tick(row(2), linked=("node2",))
        self.assertEqual([self.tick(row(2)), self.tick(row(2))], [[], []])

    def test_after_a_break_the_ticks_begin_anew_and_wait_as_long_as_it_was(self) -> None:
        self.tick(row(2))
        self.tick(row(2))
        self.assertEqual(self.tick(row(2), seconds=60), [], "the stamp that it would be dead by is from before the break")
        self.assertEqual([self.tick(row(2)) for _ in range(5)], [[]] * 5)
        self.assertEqual([self.tick(row(2)), self.tick(row(2))], [[], ["b2"]])

    def test_a_member_that_is_back_from_a_break_before_it_is_judged_lives(self) -> None:
        self.tick(row(2))
        self.tick(row(2), seconds=60)
        for _ in range(5):
            self.assertEqual(self.tick(row(2)), [])
        self.assertEqual([self.tick(row(2, 2000)), self.tick(row(2, 2000))], [[], []])

    def test_a_failed_takeover_begins_anew(self) -> None:
        for _ in range(3):
            self.tick(row(2))
        self.watch.forget("b2")
        self.assertEqual([self.tick(row(2)) for _ in range(3)], [[], [], ["b2"]])

    def test_a_broker_that_wants_a_failover_is_taken_at_once(self) -> None:
        self.assertEqual(self.tick(row(2, state=State.SHUTDOWN_FAILOVER)), ["b2"])

    def test_nobody_takes_over_what_ended_or_is_taken_already(self) -> None:
        for state in (State.SHUTDOWN_COMPLETE, State.FAILOVER_PENDING, State.FAILOVER_STARTED, State.FAILOVER_COMPLETE):
            self.assertEqual([self.tick(row(2, state=state)) for _ in range(4)], [[]] * 4, state)

    def test_states_of_a_start_and_of_a_stop_are_watched_too(self) -> None:
        for state in (State.INITIALIZING, State.SHUTDOWN_STARTED, State.QUIESCE_COMPLETED):
            self.setUp()
            self.assertEqual([self.tick(row(2, state=state)) for _ in range(3)], [[], [], ["b2"]], state)

    def test_the_next_one_tries_first_and_the_others_a_tick_later_each(self) -> None:
        third = replace(row(3), node_id="node0")  # the circle: node0 (b3), node1 (b1), node2 (b2), dead
        linked = ("node0",)
        self.assertEqual([self.tick(row(2), third, linked=linked) for _ in range(4)], [[], [], [], ["b2"]])

    def test_who_does_not_operate_tries_nothing_and_is_not_waited_for(self) -> None:
        third = replace(row(3, state=State.QUIESCE_COMPLETED), node_id="node0")
        self.assertEqual([self.tick(row(2), third, linked=("node0",)) for _ in range(3)], [[], [], ["b2"]])

    def test_several_are_dead_at_once(self) -> None:
        self.assertEqual([self.tick(row(2), row(3)) for _ in range(3)], [[], [], ["b2", "b3"]])

    def test_of_two_that_want_a_failover_each_taker_has_its_turn(self) -> None:
        third = replace(row(3), node_id="node0")
        wants = row(2, state=State.SHUTDOWN_FAILOVER)
        self.assertEqual([self.tick(wants, third, linked=("node0",)) for _ in range(2)], [[], ["b2"]])

    def test_the_rank_goes_round_the_circle_of_node_ids(self) -> None:
        online = [row(1), row(3), row(4)]
        self.assertEqual([rank_of(own, row(2), online) for own in ("b3", "b4", "b1", "nobody")], [0, 1, 2, 3])
