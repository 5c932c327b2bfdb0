"""How a process comes to its row: free, held by another process, being taken over, of another cluster."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.shared.brokers import State
from tests.unit.imq.enhanced.support import Cluster, Member


class OwnRowTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(self.addCleanup)
        self.one = self.cluster.add(1)

    def second(self, folder: str = "another", url: str = "elsewhere:7671") -> Member:
        """Another process with the id of the first one."""
        member = Member(self.cluster, 1, folder, url)
        member.start()
        return member

    def test_a_start_in_the_same_folder_and_place_joins_at_once(self) -> None:
        self.one.kill()
        self.assertEqual(self.second(self.one.folder, "localhost:7671").granted_times, 1)

    def test_a_second_broker_of_one_id_is_refused(self) -> None:
        """A copied folder is another place; one place may be that of two folders."""
        for folder, url in (("another", "elsewhere:7671"), (self.one.folder, "elsewhere:7671"), ("another", "localhost:7671")):
            second = self.second(folder, url)
            self.cluster.pass_time(4)
            self.assertEqual(second.granted_times, 0)
            self.assertIn("a broker of this id runs at localhost:7671", second.refusals[0])
        self.assertEqual((self.one.begun_again, self.cluster.row("b1").state), (0, State.OPERATING))

    def test_a_broker_that_has_moved_joins_when_its_former_process_stamps_no_more(self) -> None:
        self.one.kill()
        moved = self.second()
        self.cluster.pass_time(2)
        self.assertEqual((moved.granted_times, moved.refusals), (0, []))
        self.cluster.pass_time(3)
        self.assertEqual((moved.granted_times, self.cluster.row("b1").url), (1, "elsewhere:7671"))

    def test_a_broker_that_has_stopped_in_order_may_be_anywhere_at_once(self) -> None:
        self.one.stop()
        self.assertEqual(self.second().granted_times, 1)

    def test_a_start_waits_while_it_is_taken_over(self) -> None:
        self.one.kill()
        seen = self.cluster.row("b1")
        self.cluster.table.lock(self.cluster.connection, seen, "b2")
        again = self.second(self.one.folder, "localhost:7671")
        self.cluster.pass_time(12)
        self.assertEqual((again.granted_times, again.refusals), (0, []))
        self.cluster.table.restore(self.cluster.connection, seen, "b2")
        self.cluster.pass_time(10)
        self.assertEqual(again.granted_times, 1)

    def test_a_start_waits_for_a_takeover_only_so_long(self) -> None:
        self.one.kill()
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b1"), "b2")
        again = self.second(self.one.folder, "localhost:7671")
        self.cluster.pass_time(32)
        self.assertIn("imq.cluster.ha.takeoverWaitTimeout", again.refusals[0])

    def test_a_stop_ends_the_waiting(self) -> None:
        self.one.kill()
        self.cluster.table.lock(self.cluster.connection, self.cluster.row("b1"), "b2")
        again = self.second(self.one.folder, "localhost:7671")
        ended: list[bool] = []
        again.membership.end(lambda: ended.append(True))
        self.cluster.pass_time(40)
        self.assertEqual((ended, again.granted_times, again.refusals), ([True], 0, []))

    def test_an_id_of_another_cluster_is_refused(self) -> None:
        other = Member(self.cluster, 1)
        other.membership._myself = replace(other.membership._myself, cluster="other")
        other.start()
        self.assertIn("that of a broker of the cluster c", other.refusals[0])

    def test_a_start_waits_for_the_database(self) -> None:
        two = Member(self.cluster, 2)
        two.database.away = True
        two.start()
        self.cluster.pass_time(3)
        self.assertEqual((two.granted_times, two.refusals), (0, []))
        two.database.away = False
        self.cluster.pass_time(2)
        self.assertEqual(two.granted_times, 1)

    def test_a_state_that_was_not_written_goes_with_the_next_stamp(self) -> None:
        self.one.database.away = True
        self.one.membership.quiesce()
        self.cluster.settle()
        self.assertEqual(self.cluster.row("b1").state, State.OPERATING)
        self.one.database.away = False
        self.cluster.pass_time(2)
        self.assertIn(self.cluster.row("b1").state, (State.QUIESCE_STARTED, State.QUIESCE_COMPLETED))

    def test_an_end_that_cannot_be_written_is_an_end_all_the_same(self) -> None:
        self.one.database.away = True
        ended: list[bool] = []
        self.one.membership.leave()
        self.one.membership.end(lambda: ended.append(True))
        self.cluster.settle()
        self.assertEqual(ended, [True])

    def test_a_row_that_a_taker_gives_back_is_watched_anew(self) -> None:
        """The stamp of the lock is the taker's, and no sign of life."""
        self.one.kill()
        moved = self.second()
        seen = self.cluster.row("b1")
        self.cluster.table.lock(self.cluster.connection, seen, "b2")
        self.cluster.pass_time(12)
        self.cluster.table.restore(self.cluster.connection, seen, "b2")
        self.cluster.pass_time(14)
        self.assertEqual((moved.refusals, moved.granted_times), ([], 1))
