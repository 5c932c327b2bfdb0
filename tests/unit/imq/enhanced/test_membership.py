"""Members of an enhanced cluster: who takes over whom, and when."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.takeover import TakeoverError
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.management.registry import ManagementError
from mqbroker.storage.shared.brokers import State
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError
from tests.unit.imq.enhanced.support import Cluster, Member


class MembershipTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(self.addCleanup)
        self.one, self.two, self.three = (self.cluster.add(number) for number in (1, 2, 3))

    def state(self, member: Member) -> tuple[State, str]:
        row = self.cluster.row(member.name)
        return row.state, row.taker

    def test_members_find_each_other_and_stay(self) -> None:
        self.cluster.pass_time(30)
        self.assertEqual({self.state(each) for each in (self.one, self.two, self.three)}, {(State.OPERATING, "")})
        self.assertEqual(self.one.active.places, ["localhost:7672", "localhost:7673"])

    def test_a_killed_member_is_taken_over_by_the_next_one(self) -> None:
        node_id = self.one.active.node_id
        self.one.kill()
        self.cluster.pass_time(2)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))
        self.cluster.pass_time(4)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))
        [(sessions, _)] = self.two.active.data.waiting
        self.assertEqual([each.node_id for each in sessions], [node_id])
        self.assertTrue(self.two.membership.serves(node_id))
        self.assertFalse(self.three.membership.serves(node_id))
        owner = self.three.membership.owner_of(node_id)
        assert owner is not None
        self.assertEqual(owner.url, "localhost:7672")
        self.assertIn(("takeoverPending", "b1", node_id, "b2"), self.three.asked)
        self.assertIn(("takeoverComplete", "b1", [node_id]), self.three.asked)
        self.assertEqual(self.three.active.parted, [node_id])

    def test_a_member_whose_links_are_cut_and_that_stamps_is_not_taken_over(self) -> None:
        self.cluster.unlink(self.one)
        self.cluster.pass_time(20)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_a_starved_member_stamps_beside_its_loop(self) -> None:
        """Complaint 43 (openmq 69): nothing is answered on its links."""
        self.cluster.unlink(self.one)
        self.one.membership._looked = lambda found: None  # type: ignore[method-assign]
        self.cluster.pass_time(20)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_nobody_is_taken_over_because_the_database_was_away(self) -> None:
        members = (self.one, self.two, self.three)
        for member in members:
            self.cluster.unlink(member)
            member.database.away = True
        self.cluster.pass_time(2)  # less than it takes to give up
        for member in members:
            member.database.away = False
        self.one.beat.frozen = True  # it comes back a little later than the others
        self.cluster.pass_time(2.5)
        self.one.beat.frozen = False
        self.cluster.pass_time(10)
        self.assertEqual({self.state(each) for each in members}, {(State.OPERATING, "")})

    def test_a_frozen_member_is_taken_over_and_starts_again_without_messages(self) -> None:
        node_id = self.one.active.node_id
        self.cluster.unlink(self.one)
        self.one.beat.frozen = True
        self.cluster.pass_time(6)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))
        self.one.beat.frozen = False
        self.cluster.pass_time(2)
        self.assertEqual((self.one.begun_again, self.one.granted_times), (1, 2))
        self.assertNotEqual(self.one.active.node_id, node_id)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))
        self.assertFalse(self.one.membership.serves(node_id), "its messages stay with the taker")
        self.assertTrue(self.two.membership.serves(node_id))

    def test_a_member_that_hears_that_it_was_taken_over_begins_again_at_once(self) -> None:
        self.one.beat.frozen = True
        self.two.membership.take_over(self.cluster.row("b1"))
        self.two.active.peers.by_id.update(self.two.active.peers.by_id)
        self.cluster.pass_time(4)
        self.one.membership.answers["takeoverComplete"]("b1", [self.one.active.node_id])
        self.assertEqual(self.one.begun_again, 1)

    def test_a_member_that_alone_has_lost_the_database_gives_up_and_comes_back(self) -> None:
        self.one.database.away = True
        self.cluster.pass_time(6)
        self.assertEqual(self.one.begun_again, 1)
        self.assertEqual(self.one.granted_times, 1, "the start waits for the database")
        self.cluster.pass_time(6)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))
        self.one.database.away = False
        self.cluster.pass_time(3)
        self.assertEqual((self.one.granted_times, self.state(self.one)), (2, (State.OPERATING, "")))

    def test_nobody_gives_up_when_all_have_lost_the_database(self) -> None:
        members = (self.one, self.two, self.three)
        for member in members:
            member.database.away = True
        self.cluster.pass_time(20)
        self.assertEqual([member.begun_again for member in members], [0, 0, 0])
        self.assertIn("does not answer", str(self.one.membership.problem))
        for member in members:
            member.database.away = False
        self.cluster.pass_time(30)
        self.assertEqual({self.state(each) for each in members}, {(State.OPERATING, "")})
        self.assertIsNone(self.one.membership.problem)

    def test_nobody_gives_up_because_another_one_has_the_database_again_first(self) -> None:
        members = (self.one, self.two, self.three)
        for member in members:
            member.database.away = True
        self.cluster.pass_time(8)
        self.two.database.away = False
        self.cluster.pass_time(1)
        for member in members:
            member.database.away = False
        self.cluster.pass_time(10)
        self.assertEqual([member.begun_again for member in members], [0, 0, 0])

    def test_a_member_asks_what_it_has_until_the_database_says_it(self) -> None:
        four = self.cluster.members["b4"] = Member(self.cluster, 4)
        four.away_at_start = True
        four.start()
        own = four.active.node_id.replace("-", "")
        ask = four.membership.answers["hasDataOf"]
        answers: list[Any] = []
        self.assertRaises(Undecided, ask, [own]).when_known(lambda: answers.append(ask([own])))
        with self.assertRaisesRegex(TakeoverError, "does not know yet"):
            four.membership.take_over(self.cluster.row("b1"))
        self.assertEqual(four.active.settled, 0)
        four.database.away = False
        self.cluster.pass_time(2)
        self.assertEqual((answers, four.active.settled), ([[own]], 1))

    def test_branches_are_looked_for_where_data_have_come(self) -> None:
        before = [each.active.settled for each in (self.two, self.three)]
        self.one.kill()
        self.cluster.pass_time(8)
        self.assertEqual([each.active.settled for each in (self.two, self.three)], [number + 1 for number in before])
        self.assertEqual(self.two.membership.nodes, {self.one.active.node_id, self.two.active.node_id})

    def test_a_stop_in_order_is_no_failure(self) -> None:
        self.one.stop()
        self.cluster.pass_time(20)
        self.assertEqual(self.state(self.one), (State.SHUTDOWN_COMPLETE, ""))
        self.one.start()
        self.assertEqual(self.one.granted_times, 2)

    def test_a_stop_that_wants_a_failover_is_taken_at_once(self) -> None:
        self.one.membership.want_failover(True)
        self.one.stop()
        self.cluster.pass_time(4)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))

    def test_a_quiesced_member_watches_nobody_and_says_when_its_clients_are_gone(self) -> None:
        self.two.active.clients = self.two.active.transient = True
        self.two.membership.quiesce()
        self.cluster.pass_time(2)
        self.assertEqual(self.state(self.two), (State.QUIESCE_STARTED, ""))
        self.two.active.clients = False
        self.cluster.pass_time(2)
        self.assertEqual(self.state(self.two), (State.QUIESCE_STARTED, ""), "messages would be lost")
        self.two.active.transient = False
        self.cluster.pass_time(2)
        self.assertEqual(self.state(self.two), (State.QUIESCE_COMPLETED, ""))
        self.assertEqual(self.one.active.left_out, [self.two.active.node_id])
        self.one.kill()
        self.cluster.pass_time(8)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b3"))
        self.two.membership.unquiesce()
        self.cluster.pass_time(1)
        self.assertEqual(self.state(self.two), (State.OPERATING, ""))

    def test_a_link_that_was_ended_for_a_taker_which_died_comes_back(self) -> None:
        node_id = self.one.active.node_id
        self.three.membership.answers["takeoverPending"]("b1", node_id, "b2")
        self.cluster.pass_time(59)
        self.assertEqual(self.three.active.parted, [node_id])
        self.cluster.pass_time(2)
        self.assertEqual(self.three.active.parted, [])

    def test_what_members_are_told_while_they_are_not_active_means_nothing(self) -> None:
        self.three.membership.detach()
        answers = self.three.membership.answers
        answers["takeoverPending"]("b1", "node", "b2")
        answers["takeoverAbort"]("b1", "node")
        answers["takeoverComplete"]("b3", ["node"])
        with self.assertRaises(ManagementError):
            answers["databaseAnswers"]()


class DescriptionTests(SynchronousTestCase):
    """What ``list bkr`` shows of each member."""

    def setUp(self) -> None:
        self.cluster = Cluster(self.addCleanup)
        self.one, self.two, self.three = (self.cluster.add(number) for number in (1, 2, 3))

    def described(self, member: Member) -> dict[str, tuple[State | None, bool]]:
        asked = member.membership.describe()
        self.cluster.settle()
        return {each.row.broker: (each.state, each.failed) for each in self.successResultOf(asked)}

    def test_a_takeover_that_came_to_nothing_has_failed_until_the_member_is_another_one(self) -> None:
        self.one.kill()
        seen = self.cluster.row("b1")
        self.two.database.fail_next = DatabaseError("no")
        self.two.membership.take_over(seen).addErrback(lambda failure: None)
        self.cluster.settle()
        self.cluster.clock.advance(2)
        self.assertEqual(self.described(self.two)["b1"], (State.OPERATING, True))
        self.assertEqual(self.described(self.three)["b1"], (State.OPERATING, False), "whoever has not tried does not know")
        again = Member(self.cluster, 1, self.one.folder)
        again.start()
        self.assertEqual(self.described(self.two)["b1"], (State.OPERATING, False))

    def test_a_takeover_whose_taker_is_taken_over_has_failed(self) -> None:
        self.one.kill()
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b1"), "b2")
        self.assertEqual(self.described(self.three)["b1"], (State.FAILOVER_PENDING, False))
        self.assertEqual(self.described(self.two)["b1"], (State.FAILOVER_PENDING, True), "nobody goes on with it here")
        self.two.kill()
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b2"), "b3")
        self.assertEqual(self.described(self.three)["b1"], (State.FAILOVER_PENDING, True))

    def test_a_taker_that_stops_gives_the_member_back(self) -> None:
        self.one.kill()
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b1"), "b2")
        self.two.stop()
        self.assertEqual(self.described(self.three)["b1"], (State.SHUTDOWN_FAILOVER, False))

    def test_while_the_database_is_away_a_member_knows_its_own_state_alone(self) -> None:
        self.cluster.pass_time(1)
        self.two.database.away = True
        asked = self.two.membership.describe()
        self.cluster.settle()
        found = {each.row.broker: (each.state, each.messages, each.age_ms) for each in self.successResultOf(asked)}
        self.assertEqual(found, {"b1": (None, None, None), "b2": (State.OPERATING, None, None), "b3": (None, None, None)})

    def test_a_member_that_never_had_its_database_knows_nobody(self) -> None:
        four = Member(self.cluster, 4)
        four.away_at_start = True
        four.start()
        asked = four.membership.describe()
        self.cluster.settle()
        self.failureResultOf(asked, DatabaseAwayError)
