"""The parts of the rounds that need no brokers: shares, and what the brokers' logs say of the pair."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from tests.integration.ha.failures.home_member import LOSSES, UNNOTICED_NS, note_losses
from tests.integration.ha.failures.home_processes import ports_linked
from tests.integration.ha.failures.kinds import kind_of
from tests.integration.ha.failures.rounds import replica_in_sync, waits
from tests.integration.ha.failures.setups import OF_HOMES, ON_DATABASES, SETUPS, WITH_ZOOKEEPER, shares
from tests.integration.ha.failures.verdict import SUSPECTED
from tests.integration.kill.verdict import read_logs

ACTIVE = "AMQ221007: the server is active"
IN_SYNC = "AMQ221024: the replica at 127.0.0.1:5 is in sync"
GIVEN_UP = "AMQ222092: the replica at 127.0.0.1:5 is given up while it is in sync: it has closed the connection"
LINKED = "127.0.0.1:{port} (node-{port}) is linked"
LOST = "the link to node-{port} was lost: nothing was received for 2.0 s"
WAITS = "AMQ221109: mqbroker Backup Server [n] started; waiting for primary to fail"


class LogTests(unittest.TestCase):
    def test_the_last_word_about_the_replica_counts(self) -> None:
        self.assertFalse(replica_in_sync([ACTIVE]))
        self.assertTrue(replica_in_sync([ACTIVE, IN_SYNC]))
        self.assertFalse(replica_in_sync([ACTIVE, IN_SYNC, GIVEN_UP]))
        self.assertFalse(replica_in_sync([ACTIVE, IN_SYNC, ACTIVE]))

    def test_a_backup_waits_until_it_is_active(self) -> None:
        self.assertFalse(waits([]))
        self.assertTrue(waits([WAITS]))
        self.assertFalse(waits([WAITS, ACTIVE]))
        self.assertTrue(waits([WAITS, ACTIVE, WAITS]))

    def test_the_last_word_about_each_link_counts(self) -> None:
        lines = [LINKED.format(port=5), LINKED.format(port=7), LOST.format(port=5)]
        self.assertEqual(ports_linked("\n".join(lines)), {7})
        self.assertEqual(ports_linked("\n".join([*lines, LINKED.format(port=5), "node-7 has left the cluster"])), {5})
        self.assertEqual(ports_linked("the link to a stranger was lost"), set())


class LossTests(unittest.TestCase):
    def test_a_lost_link_is_marked_as_of_some_time_before(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mqbroker-losses-") as name:
            note_losses(Path(name), {"log_format": "the link to {node} was lost: {reason}"})
            note_losses(Path(name), {"log_format": "{name} ({node}) is linked"})
            note_losses(Path(name), {"log_format": None})
            first, second = read_logs([Path(name) / LOSSES])
        self.assertEqual((first.verb, second.verb, second.time - first.time), (SUSPECTED, SUSPECTED, UNNOTICED_NS))


class ShareTests(unittest.TestCase):
    def test_all_rounds_are_shared_out(self) -> None:
        for rounds in (0, 1, 2, 8, 300):
            self.assertEqual(sum(count for _, count in shares(rounds)), rounds)
        self.assertEqual([count for _, count in shares(8)], [2, 2, 2, 2])
        self.assertEqual([count for _, count in shares(9, (*SETUPS, WITH_ZOOKEEPER))], [1, 2, 2, 2, 2])
        self.assertEqual([count for _, count in shares(6, ON_DATABASES)], [1, 1, 2, 2])
        self.assertEqual([count for _, count in shares(4, OF_HOMES)], [2, 2])

    def test_each_failure_is_one(self) -> None:
        for setup in (*SETUPS, WITH_ZOOKEEPER, *ON_DATABASES, *OF_HOMES):
            for failure in setup.failures:
                self.assertTrue(callable(getattr(kind_of(setup), failure)), failure)
