"""A pair alone, whose brokers stand still, come back, and meet late: one is active, and one goes on."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from mqbroker.config.model.cluster import ReplicationConfiguration
from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, write_record
from mqbroker.ha.proof.seeking_machine import raising
from mqbroker.ha.replication.passive_side import WORD_SECONDS
from tests.unit.ha.replication.support import FOLDER, Acceptors, Node, PairCase, created


class Nobody:
    """The end of a connection behind a cut."""

    def data_received(self, data: bytes) -> None: ...

    def link_lost(self, reason: str) -> None: ...


class OneActiveCase(PairCase):
    def watch(self, seconds: float) -> None:
        """Never may two acknowledge alone."""
        for _ in range(round(seconds / 0.05)):
            self.run_for(0.05)
            seekers = [node.activation._own.seeker for node in self.nodes if node.process.alive]
            self.assertLessEqual(sum(seeker is not None and seeker.alone for seeker in seekers), 1)

    def link(self) -> Any:
        """The connection of the pair."""
        [link] = [each for each in self.network.links if each.open and each.connection.link is not None]
        return link

    def lose(self, node: Node) -> None:
        """``node`` gives the connection of the pair up, and the other end does not hear of it."""
        link = self.link()
        handler, link.handler = link.handler, Nobody()
        link.silent = True
        link.abort = link.close = lambda: None
        handler.link_lost("nothing comes any more")

    def assert_kept(self, node: Node) -> None:
        """A former journal is kept for good."""
        folders = [name.rpartition("/")[0] for name in node.disk.files() if name.endswith("/kept")]
        self.assertTrue([name for folder in folders for name in node.disk.list(folder) if name.startswith("mqbroker-data")], folders)

    def assert_pair(self, active: Node, replica: Node) -> None:
        self.run_until(lambda: active.state == "active" and active.replica_state == "in sync")
        self.assertEqual((replica.state, active.failures, replica.failures), ("passive", [], []))


class StandstillTests(OneActiveCase):
    def test_a_primary_that_wakes_up_while_the_backup_reads_its_journal(self) -> None:
        primary, backup = self.pair()
        session = primary.client()
        primary.stand_still()
        activate = backup.activation._activate

        def read_for_long() -> None:
            backup.stand_still()
            self.clock.call_later(6, read)

        def read() -> None:
            backup.go_on()
            activate()

        self.patch(backup.activation, "_activate", read_for_long)
        self.lose(backup)
        self.run_until(lambda: backup.record.sequence == 2)
        primary.go_on()
        session.send(created("q"))
        self.watch(15)
        self.assertEqual((primary.activations, backup.activations), (1, 1))
        self.assert_pair(backup, primary)

    def test_a_primary_that_wakes_up_when_the_backup_is_active_and_whose_link_looks_open(self) -> None:
        primary, backup = self.pair()
        session = primary.client()
        primary.stand_still()
        self.lose(backup)
        self.run_until(lambda: backup.state == "active")
        primary.go_on()
        session.send(created("q"))
        self.watch(15)
        self.assertEqual((primary.activations, backup.activations), (1, 1))
        self.assert_pair(backup, primary)

    def test_a_backup_that_wakes_up_follows(self) -> None:
        primary, backup = self.pair()
        backup.stand_still()
        primary.client().send(created("q"))
        self.watch(10)
        self.assertEqual(primary.record.sequence, 2)
        backup.go_on()
        self.watch(10)
        self.assert_pair(primary, backup)
        self.assertEqual(backup.activations, 0)

    def test_the_acceptors_of_an_active_broker_that_steps_back_and_seeks_on_never_close(self) -> None:
        """A backup counts a primary as gone that refuses connections for a moment."""
        primary, backup = self.pair()
        closed: list[Acceptors] = []
        self.patch(Acceptors, "close", closed.append)
        self.lose(backup)
        backup.stand_still()
        primary.client().send(created("q"))
        self.run_until(lambda: primary.state == "passive")
        backup.kill()
        self.run_until(lambda: primary.activations == 2)
        self.assertEqual((primary.state, primary.failures, closed), ("active", [], []))

    def test_the_acceptors_of_a_copy_that_takes_over_never_close(self) -> None:
        primary, backup = self.pair()
        primary.kill()
        self.run_until(lambda: "2" in self.network.listening)
        while backup.state != "active":
            self.run_for(0.01)
            self.assertIn("2", self.network.listening)


class TakeOverTests(OneActiveCase):
    def test_a_backup_takes_over_at_once_when_the_process_of_its_primary_is_gone(self) -> None:
        primary, backup = self.pair()
        primary.kill()
        self.assertLess(self.run_until(lambda: backup.state == "active"), 1)


class MeetingTests(OneActiveCase):
    def met(self, **options: Any) -> None:
        """Both were down; the data of the backup are of no use to itself, and the primary needs its word."""
        primary, backup = self.pair()
        primary.kill()
        backup.kill()
        self.run_for(1)
        for node, record in ((primary, primary.record), (backup, backup.record)):
            assert record.shared
            if node is backup:
                write_record(node.disk, FOLDER, CopyRecord(record.copy_id, sequence=1, other=record.other, **options))
        primary.start()
        self.run_for(3)
        self.assertEqual(primary.state, "passive")
        backup.start()
        self.assert_pair(primary, backup)

    def test_a_backup_that_has_given_itself_up_looks_for_its_primary(self) -> None:
        self.met(state=CopyState.GIVEN_UP)

    def test_a_backup_whose_copy_was_interrupted_looks_for_its_primary(self) -> None:
        self.met(state=CopyState.INCOMPLETE)

    def given_up(self) -> tuple[Node, Node]:
        """Both were down, and have given themselves up to each other; the first one may take that back."""
        nodes = self.pair()
        for node in nodes:
            node.kill()
        self.run_for(1)
        for node in nodes:
            write_record(node.disk, FOLDER, node.record.gave_up())
        last, other = sorted(nodes, key=lambda node: node.record.copy_id, reverse=True)
        return last, other

    def test_two_that_have_given_themselves_up_to_each_other(self) -> None:
        last, other = self.given_up()
        last.start()
        other.start()
        self.assert_pair(last, other)

    def test_two_that_have_given_themselves_up_to_each_other_beside_a_primary_that_wants_a_replica(self) -> None:
        last, other = self.given_up()
        self.assertTrue(last.policy is not None and last.policy.backup)
        third = self.node("third", 3, 1, 2, policy=ReplicationConfiguration(False)).start()
        self.run_until(lambda: third.state == "active")
        node_id = last.record_node
        last.others["to3"] = "3"
        last.start()
        self.run_for(5)
        self.assertEqual((last.record.state, last.record_node), (CopyState.GIVEN_UP, node_id))
        other.start()
        self.assert_pair(last, other)

    def test_a_copy_that_has_the_word_when_its_time_to_listen_is_over_goes_on(self) -> None:
        last, other = self.given_up()
        last.start()
        self.run_until(lambda: last.port in self.network.listening)
        last.write_seconds = 1.1
        self.run_for(WORD_SECONDS - 2)
        other.start()
        self.run_until(lambda: last.activation._own.seeker.state == raising.name)
        other.kill()
        self.patch(last.activation._network, "ask_copy", lambda *question: Deferred())
        self.run_for(3)
        last.write_seconds = 0
        self.run_until(lambda: last.state == "active")
        self.assertEqual(last.record.sequence, 2)


class SplitTests(OneActiveCase):
    def test_when_a_cut_pair_hears_of_itself_again_one_goes_on_and_the_journal_of_the_other_is_kept(self) -> None:
        primary, backup = self.pair()
        session = primary.client()
        session.send(created("q"))
        self.run_for(0.1)
        self.lose(backup)
        self.network.cut = True
        session.publish(reply=True)
        self.run_until(lambda: primary.record.sequence == backup.record.sequence == 2)
        self.run_until(lambda: backup.state == "active")
        self.network.cut = False
        self.assert_pair(backup, primary)
        self.assert_kept(primary)

    def test_brokers_that_find_each_other_by_discovery_meet_again_after_a_cut(self) -> None:
        primary = self.node("primary", 1, policy=ReplicationConfiguration(False)).start()
        backup = self.node("backup", 2, policy=ReplicationConfiguration(True, retry_replication_wait=200)).start()
        self.run_until(lambda: primary.state == "active" and primary.replica_state == "in sync")
        self.network.cut = True
        self.run_until(lambda: primary.replica_state == "" and backup.state == "active", 150)
        self.network.cut = False
        self.run_until(lambda: "passive" in (primary.state, backup.state))
        active, replica = sorted((primary, backup), key=lambda node: node.state)
        self.assert_pair(active, replica)
