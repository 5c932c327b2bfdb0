"""The steps of a takeover: told, locked, switched, read; and what happens when one of them fails."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.takeover import FOLLOW_SECONDS, TakeoverError
from mqbroker.storage.shared.brokers import State
from mqbroker.storage.sql.database import DatabaseError
from mqbroker.storage.sql.schema import table
from mqclient.errors import NotConnectedError
from tests.unit.imq.enhanced.support import Cluster, Member


class TakeoverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(self.addCleanup)
        self.one, self.two, self.three = (self.cluster.add(number) for number in (1, 2, 3))

    def state(self, member: Member) -> tuple[State, str]:
        row = self.cluster.row(member.name)
        return row.state, row.taker

    def test_clients_are_not_served_before_the_data_are_there(self) -> None:
        node_id = self.one.active.node_id
        self.two.active.data.held = True
        self.one.kill()
        self.cluster.pass_time(8)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))
        self.assertFalse(self.two.membership.serves(node_id))
        self.assertIn("connect again", str(self.two.active.refusal))
        self.assertTrue(self.two.membership.serves(self.two.active.node_id), "own clients are served")
        self.two.active.data.finish()
        self.assertTrue(self.two.membership.serves(node_id))
        self.assertTrue(self.two.membership.has(node_id))
        self.assertFalse(self.three.membership.has(node_id))
        self.assertIsNone(self.two.active.refusal)

    def test_clients_of_a_node_of_which_nothing_is_left_go_on_at_the_taker_of_its_taker(self) -> None:
        """Once they were served nowhere any more, with what they had not been answered."""
        node_id = self.one.active.node_id
        self.one.kill()
        self.cluster.pass_time(8)
        self.cluster.connection.run(table("DELETE FROM {session} WHERE node_id = ?"), (node_id,))
        self.two.kill()
        self.cluster.pass_time(8)
        self.assertEqual(self.state(self.two), (State.FAILOVER_COMPLETE, "b3"))
        self.assertTrue(self.three.membership.serves(node_id))
        self.assertTrue(self.three.membership.has(node_id))

    def test_a_taker_that_dies_in_the_middle_is_followed_by_the_next(self) -> None:
        nodes = {self.one.active.node_id, self.two.active.node_id}
        self.two.database.fail_next = None
        self.one.kill()
        row = self.cluster.row("b1")
        self.cluster.table.lock(self.cluster.connection, row, "b2")
        self.two.kill()
        self.cluster.pass_time(8)
        self.assertEqual([self.state(each) for each in (self.one, self.two)], [(State.FAILOVER_COMPLETE, "b3")] * 2)
        [(sessions, _)] = self.three.active.data.waiting
        self.assertEqual({each.node_id for each in sessions}, nodes)

    def test_of_two_takers_at_once_one_does_it(self) -> None:
        self.one.kill()
        row = self.cluster.row("b1")
        results = [each.membership.take_over(row) for each in (self.two, self.three)]
        self.cluster.pass_time(6)
        self.assertEqual(len(self.two.active.data.waiting) + len(self.three.active.data.waiting), 1)
        failed = [result for result in results if isinstance(result.result, Exception) or getattr(result, "result", None) is not None]
        self.assertEqual(len(failed), 1)
        self.failureResultOf(failed[0], TakeoverError)
        self.assertIsNone(self.two.active.refusal)
        self.assertIsNone(self.three.active.refusal)

    def behind(self) -> Deferred[None]:
        """The lost member has followed the record further than its taker."""
        self.two.active.data.behind = 7
        self.one.kill()
        taken = self.two.membership.take_over(self.cluster.row("b1"))
        self.cluster.pass_time(1)
        self.assertEqual(self.state(self.one), (State.FAILOVER_PENDING, "b2"))
        self.assertEqual(self.owner(), "b1")
        return taken

    def owner(self) -> str:
        return self.cluster.table.owners(self.cluster.connection)[self.one.active.node_id]

    def test_the_data_have_no_taker_that_has_not_read_of_their_queues(self) -> None:
        taken = self.behind()
        data = self.two.active.data
        data.behind = 0
        [coming] = data.coming
        coming.callback(None)
        self.cluster.pass_time(1)
        self.successResultOf(taken)
        self.assertEqual(self.owner(), "b2")

    def test_a_taker_that_cannot_read_of_them_leaves_the_member(self) -> None:
        taken = self.behind()
        self.two.active.data.coming[0].errback(NotConnectedError("the table is away"))
        self.cluster.settle()
        self.failureResultOf(taken, TakeoverError)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_a_record_that_is_not_read_in_time_leaves_the_member(self) -> None:
        taken = self.behind()
        self.two.active.data.coming[0].callback(None)
        self.cluster.pass_time(FOLLOW_SECONDS - 5)
        self.assertEqual(self.state(self.one), (State.FAILOVER_PENDING, "b2"))
        self.cluster.pass_time(5)
        self.assertIn("7", str(self.failureResultOf(taken, TakeoverError).value))
        self.assertEqual(self.state(self.one)[1], "")

    def test_an_error_before_the_switch_restores_the_row(self) -> None:
        self.two.database.fail_next = DatabaseError("no")
        row = self.cluster.row("b1")
        self.one.beat.frozen = True
        taken = self.two.membership.take_over(row)
        self.cluster.settle()
        self.failureResultOf(taken, TakeoverError)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))
        self.assertIsNone(self.two.active.refusal)
        self.assertIn(("takeoverAbort", "b1", row.node_id), self.three.asked)
        self.assertEqual(self.three.active.parted, [])

    def test_an_error_after_the_switch_leaves_the_data_with_the_taker(self) -> None:
        self.two.active.data.held = True
        self.one.kill()
        self.cluster.pass_time(8)
        self.two.active.data.finish(DatabaseError("damaged"))
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))
        self.assertIsNone(self.two.active.refusal)

    def test_a_lost_answer_to_the_switch_is_looked_up(self) -> None:
        self.two.database.lose_commit = True
        self.one.kill()
        node_id = self.one.active.node_id
        self.cluster.pass_time(9)
        [(sessions, _)] = self.two.active.data.waiting
        self.assertEqual([each.node_id for each in sessions], [node_id])

    def test_a_lost_answer_to_the_switch_is_looked_up_although_the_member_is_back(self) -> None:
        """Once its messages, and its clients, waited for the next start of their taker: the row said nothing of it any more."""
        self.two.database.lose_commit = True
        node_id = self.one.active.node_id
        taken = self.two.membership.take_over(self.cluster.row("b1"))
        self.cluster.settle()
        self.one.membership.begin_again("its store has another owner")
        self.cluster.settle()
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))
        self.cluster.pass_time(1)
        self.successResultOf(taken)
        [(sessions, _)] = self.two.active.data.waiting
        self.assertEqual([each.node_id for each in sessions], [node_id])
        self.assertTrue(self.two.membership.serves(node_id))
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_a_lost_answer_to_the_lock_is_looked_up(self) -> None:
        """Once the row stayed locked for a takeover of which nothing came: the member never started again."""
        self.one.kill()
        self.two.database.lose_update = True
        taken = self.two.membership.take_over(self.cluster.row("b1"))
        self.cluster.pass_time(1)
        self.successResultOf(taken)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))

    def test_a_lock_that_did_not_come_about_is_not_tried_again(self) -> None:
        """The member may not have stamped its row for the same reason."""
        self.two.database.away = True
        taken = self.two.membership.take_over(self.cluster.row("b1"))
        self.cluster.settle()
        self.assertNoResult(taken)
        self.two.database.away = False
        self.cluster.pass_time(1)
        self.failureResultOf(taken, TakeoverError)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_a_stop_ends_the_look_for_the_answer(self) -> None:
        self.two.database.away = True
        taken = self.two.membership.take_over(self.cluster.row("b1"))
        self.cluster.settle()
        self.two.membership.detach()
        self.cluster.pass_time(1)
        self.failureResultOf(taken, TakeoverError)

    def test_the_row_is_restored_as_soon_as_the_database_answers(self) -> None:
        self.two.database.fail_next = DatabaseError("no")
        self.two.database.away_after_failure = True
        row = self.cluster.row("b1")
        self.one.beat.frozen = True
        taken = self.two.membership.take_over(row)
        self.cluster.settle()
        self.assertEqual(self.state(self.one), (State.FAILOVER_PENDING, "b2"))
        self.two.database.away = False
        self.cluster.pass_time(1)
        self.failureResultOf(taken, TakeoverError)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_a_client_of_a_node_that_the_database_does_not_know_waits_for_the_next_look(self) -> None:
        self.assertFalse(self.two.membership.serves("of a store that was reset"))
        self.cluster.pass_time(2)
        self.assertTrue(self.two.membership.serves("of a store that was reset"))

    def test_a_client_that_does_not_find_the_taker_is_served_at_another_member_at_last(self) -> None:
        node_id = self.one.active.node_id
        self.assertFalse(self.three.membership.serves(node_id))
        self.cluster.pass_time(16)
        self.assertTrue(self.three.membership.serves(node_id))
        self.one.kill()
        self.assertFalse(self.three.membership.serves(node_id), "not while its broker is lost and nobody has its data")
        self.cluster.pass_time(6)
        self.assertFalse(self.three.membership.serves(node_id), "it may find the taker")
        self.cluster.pass_time(16)
        self.assertTrue(self.three.membership.serves(node_id), "the taker is linked")

    def test_a_client_of_a_member_that_was_there_for_a_moment_only_waits_for_its_data(self) -> None:
        four = self.cluster.add(4)
        node_id = four.active.node_id
        four.kill()
        self.assertFalse(self.two.membership.serves(node_id))
        self.cluster.pass_time(1)
        self.assertFalse(self.two.membership.serves(node_id))

    def test_whoever_holds_up_the_switch_is_ended(self) -> None:
        ended: list[object] = []
        self.two.database.lose_commit = True
        self.two.database.end_writers = "SELECT ?"
        self.two.database.watch = lambda statement, parameters: ended.append((statement, parameters))
        self.two.membership.detach()
        self.two.membership.attach(self.two.active)
        self.cluster.settle()
        self.one.kill()
        self.two.membership.take_over(self.cluster.row("b1"))
        self.cluster.pass_time(1)
        self.assertEqual(ended, [("SELECT ?", ("mqbroker_session",))])
        self.assertEqual(self.state(self.one)[1], "b2")

    def test_a_member_by_its_id(self) -> None:
        taken = self.two.membership.take_over_broker("b1")
        self.cluster.settle()
        self.successResultOf(taken)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b2"))

    def test_what_cannot_be_taken_over_by_its_id(self) -> None:
        self.three.kill()
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b3"), "b1")
        for broker, reason in (("b2", "this broker itself"), ("b9", "there is no broker b9"), ("b3", "CONFLICT: b1 takes over b3")):
            taken = self.two.membership.take_over_broker(broker)
            self.cluster.settle()
            self.assertIn(reason, str(self.failureResultOf(taken, TakeoverError).value))

    def test_one_takeover_at_a_time(self) -> None:
        self.two.active.data.held = True
        self.two.membership.take_over(self.cluster.row("b1"))
        self.failureResultOf(self.two.membership.take_over(self.cluster.row("b3")), TakeoverError)

    def test_a_broker_that_stops_begins_no_takeover(self) -> None:
        self.one.kill()
        taken = self.two.membership.take_over(self.cluster.row("b1"))
        self.two.membership.detach()
        self.cluster.settle()
        self.failureResultOf(taken, TakeoverError)
        self.assertEqual(self.state(self.one), (State.OPERATING, ""))

    def test_a_stop_gives_up_the_takeover_that_waits(self) -> None:
        """Once nobody took the member over, and it did not start, until the broker that had stopped ran again."""
        taken = self.behind()
        self.two.stop()
        self.two.kill()
        self.assertEqual(self.state(self.two)[0], State.SHUTDOWN_COMPLETE)
        self.cluster.pass_time(6)
        self.assertEqual(self.state(self.one), (State.FAILOVER_COMPLETE, "b3"))
        self.assertNoResult(taken)

    def test_members_are_described_with_their_messages(self) -> None:
        found = self.two.membership.describe()
        self.cluster.settle()
        self.assertEqual([(each.row.broker, each.messages) for each in self.successResultOf(found)], [("b1", 0), ("b2", 0), ("b3", 0)])
