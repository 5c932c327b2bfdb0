"""A replicated pair of processes, and a third broker that votes: the active one is killed or stopped, and clients follow."""

from __future__ import annotations

from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.replicated_pair import FAIL_BACK, IN_SYNC, ReplicatedPairCase
from tests.unit.cli.runner import mqbroker


class ReplicationTests(FollowingClients, ReplicatedPairCase):
    def test_a_primary_is_killed_under_load_and_comes_back(self) -> None:
        self.options = FAIL_BACK
        self.start("voter")
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        self.lose_the_primary_under_load(primary, backup, self.start)

    def test_an_orderly_stop_of_a_pair_alone_lets_the_backup_go_on(self) -> None:
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        session = self.connect("primary").create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        primary.stop()
        backup.wait_for("AMQ221010")
        self.assertEqual(self.received("backup"), ["kept"])

    def test_a_primary_of_a_pair_alone_that_has_stood_still_follows_the_backup(self) -> None:
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        session = self.connect("primary").create_session()
        producer = session.create_producer(session.create_queue("q"))
        producer.send(session.create_text_message("before"))
        primary.hold_up()
        backup.wait_for("AMQ221010")
        primary.go_on()
        backup.wait_for(IN_SYNC, times=2)
        self.assertEqual(self.received("backup"), ["before"])

    def test_management_has_the_backup_in_sync_go_on_and_the_process_ends(self) -> None:
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        primary.wait_for(IN_SYNC)
        session = self.connect("primary").create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        requests = session.create_producer(session.create_queue("activemq.management"))
        request = session.create_text_message("[]")
        request.set_string_property("_AMQ_ResourceName", "broker")
        request.set_string_property("_AMQ_OperationName", "forceFailover")
        requests.send(request)
        self.assertEqual(primary.ended(), 0)
        backup.wait_for("AMQ221010")
        self.assertEqual(self.received("backup"), ["kept"])

    def test_what_a_copy_has_put_away_can_be_read(self) -> None:
        self.start("voter")
        primary = self.start("primary")
        backup = self.start("backup", IN_SYNC)
        session = self.connect("primary").create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("put away"))
        primary.kill()
        backup.wait_for("AMQ221010")
        self.start("primary", IN_SYNC).stop()
        folder = self.folder / "primary"
        options = [f"--{kind}={folder / kind / 'oldreplica.1'}" for kind in ("journal", "bindings", "paging", "large-messages")]
        done = mqbroker("data", "exp", *options, f"--output={folder / 'split.xml'}")
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual((folder / "split.xml").read_text().count("<message "), 1)
