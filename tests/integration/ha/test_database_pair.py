"""Two broker processes of one database: one is killed, stopped or held up, the other one goes on, and clients follow."""

from __future__ import annotations

import re

from tests.integration.ha.database_pair import NEVER_MS, DatabasePairCase, PostgresqlPairCase
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.pair import BACKUP, PRIMARY


class KillTests(FollowingClients, PostgresqlPairCase):
    """A primary on SQLite is killed by the rounds of failures."""

    def test_a_primary_is_killed_under_load_and_comes_back(self) -> None:
        self.lose_the_primary_under_load(self.primary, self.backup, self.start, "AMQ221109")

    def test_a_primary_that_wakes_up_after_its_lease_has_ended_acknowledges_nothing_and_ends(self) -> None:
        def hold_up() -> None:
            self.primary.hold_up()
            self.backup.wait_for("AMQ221010")
            self.primary.go_on()
            self.assertEqual(self.primary.ended(), 1)

        self.lose_nothing(BACKUP, hold_up)
        told = re.compile(
            "have another owner|the lease of this broker has ended, or another broker has it|another broker has taken the data"
        )
        self.assertRegex(self.primary.written, told)


class OrderlyTests(FollowingClients, DatabasePairCase):
    """A lease that was not given back would last for longer than anybody waits here."""

    expiration_ms = NEVER_MS

    def test_an_orderly_stop_frees_the_lease_at_once_and_the_policy_says_for_whom(self) -> None:
        self.send_to(PRIMARY, "first")
        self.primary.stop()
        self.options = "<failover-on-shutdown>true</failover-on-shutdown>"
        primary = self.start(PRIMARY)
        self.assertNotIn("AMQ221010", self.backup.written)
        self.send_to(PRIMARY, "second")
        primary.stop()
        self.backup.wait_for("AMQ221010")
        self.assertEqual(self.received(BACKUP), ["first", "second"])
