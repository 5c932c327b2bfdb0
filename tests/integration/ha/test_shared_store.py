"""Two broker processes of one folder: one is killed or stopped, the other one goes on, and clients follow."""

from __future__ import annotations

from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.pair import BACKUP, PRIMARY, SharedPairCase


class SharedStoreTests(FollowingClients, SharedPairCase):
    def test_a_primary_is_killed_under_load_and_comes_back(self) -> None:
        self.lose_the_primary_under_load(self.primary, self.backup, self.start, "AMQ221109")

    def test_an_orderly_stop_leaves_the_backup_passive_and_the_primary_goes_on_later(self) -> None:
        session = self.connect().create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        self.primary.stop()
        self.start(PRIMARY)
        self.assertEqual(self.received(PRIMARY), ["kept"])
        self.assertNotIn("AMQ221010", self.backup.wait_for("AMQ221109"))

    def test_with_failover_on_shutdown_the_backup_goes_on(self) -> None:
        self.primary.stop()
        self.options = "<failover-on-shutdown>true</failover-on-shutdown>"
        primary = self.start(PRIMARY)
        session = self.connect().create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        primary.stop()
        self.backup.wait_for("AMQ221010")
        self.assertEqual(self.received(BACKUP), ["kept"])

    def test_both_tell_at_their_start_what_takes_long(self) -> None:
        for broker in (self.primary, self.backup):
            self.assertIn("connection-ttl: 60 s", broker.wait_for("see 'mqbroker check ha'"))

    def test_management_has_the_backup_go_on_and_its_process_ends(self) -> None:
        connection = self.connect()
        session = connection.create_session()
        session.create_producer(session.create_queue("q")).send(session.create_text_message("kept"))
        requests = session.create_producer(session.create_queue("activemq.management"))
        request = session.create_text_message("[]")
        request.set_string_property("_AMQ_ResourceName", "broker")
        request.set_string_property("_AMQ_OperationName", "forceFailover")
        requests.send(request)
        self.assertEqual(self.primary.ended(), 0)
        self.backup.wait_for("AMQ221010")
        self.assertEqual(self.received(BACKUP), ["kept"])

    def test_a_primary_that_wakes_up_after_it_has_lost_its_lock_ends(self) -> None:
        """The lock file is another one for whoever comes later, as after NFS has forgotten a lock."""
        session = self.connect().create_session()
        producer = session.create_producer(session.create_queue("q"))
        producer.send(session.create_text_message("before"))
        self.primary.hold_up()
        (self.folder / "data" / "journal" / "serverlock.1").unlink()
        self.backup.wait_for("AMQ221010")
        other = self.connect(BACKUP).create_session()
        other.create_producer(other.create_queue("q")).send(other.create_text_message("after"))
        self.primary.go_on()
        self.assertEqual(self.primary.ended(), 1)
        self.primary.wait_for("another broker has taken this folder")
        self.assertEqual(self.received(BACKUP), ["before", "after"])
