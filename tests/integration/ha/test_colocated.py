"""Processes that host the backups of each other."""

from __future__ import annotations

import socket

from tests.integration.brokers import Broker
from tests.integration.ha.colocated import HOSTED, HOSTED_NO_LONGER, A, B, C, ColocatedCase, D, ReplicatedCase, hosted_by

TEXTS = [f"m{number}" for number in range(50)]
MORE = [f"n{number}" for number in range(50)]
TAKEN_OVER = "AMQ221010"
ASKED_AGAIN = "they are asked again"


class Lives(ColocatedCase):
    """What both kinds of stores live through."""

    ready_again = 1
    """How often a host that was stopped in order and is back is ready for something until its hosted backup is."""
    first: Broker
    second: Broker

    def dies_and_comes_back(self) -> None:
        """A client follows to the hosted backup and back."""
        self.first, self.second = self.both()
        self.producer = self.connect(B).create_session().create_producer("queue://q")
        self.send_to(B, *TEXTS)
        self.second.kill()
        self.first.wait_for(TAKEN_OVER)
        self.assertEqual(self.received(hosted_by(A)), TEXTS)
        self.producer.send("late")
        self.second = self.start(B)
        self.assertEqual(self.received(B), ["late"])
        # The backup that has given way has ended, and another one is asked for.
        self.second.wait_for(HOSTED)
        self.first.wait_for(self.activating, times=2)
        # Each hosts the backup of the other one again.
        self.first.wait_for(HOSTED, times=2)
        self.first.wait_for(self.ready, times=2)
        self.second.wait_for(self.ready)

    def loses_its_host(self) -> None:
        """Both run, and each hosts the backup of the other one."""
        self.producer.send("early")
        asked_again = self.second.written.count(ASKED_AGAIN)
        self.first.stop()
        self.second.wait_for(HOSTED_NO_LONGER)
        self.second.wait_for(ASKED_AGAIN, times=asked_again + 1)
        self.first = self.start(A)
        self.second.wait_for(HOSTED, times=2)
        self.first.wait_for(self.ready, times=self.ready_again)

    def finds_its_port_taken(self) -> None:
        """Nobody but its host could start the backup again."""
        self.send_to(B, *MORE)
        with socket.socket() as program:
            program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            program.bind(("127.0.0.1", self.ports[hosted_by(A)]))
            program.listen()
            self.second.kill()
            self.first.wait_for("and is started again:")
        self.first.wait_for(TAKEN_OVER)
        self.assertEqual(self.received(hosted_by(A)), ["early", *MORE])

    def scales_down(self) -> None:
        first, second = self.both()
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for(f"{len(TEXTS)} messages of 1 queues")
        self.assertEqual(self.received(A), TEXTS)
        second = self.start(B)
        second.wait_for(HOSTED)
        self.send_to(B, "new")
        self.assertEqual(self.received(B), ["new"])


class SharedStoreTests(Lives):
    def test_the_backup_is_hosted_again_after_each_loss_of_a_broker_and_of_its_port_and_ends_in_order_with_its_host(self) -> None:
        self.dies_and_comes_back()
        self.loses_its_host()
        self.finds_its_port_taken()
        self.ends_with_its_host()

    def ends_with_its_host(self) -> None:
        """The hosted backup serves."""
        self.send_to(hosted_by(A), "last")
        stopped = self.first.written.count("AMQ221002")
        self.first.stop()
        self.first.wait_for("AMQ221002", times=stopped + 2)
        self.start(B)
        self.assertEqual(self.received(B), ["last"])


class FullTests(ColocatedCase):
    """One broker hosts nothing."""

    def colocated_of(self, name: str) -> str:
        return f"<max-backups>{0 if name == A else 1}</max-backups>"

    def test_nobody_hosts_more_than_max_backups(self) -> None:
        first, second = self.start_all(A, B)
        first.wait_for(HOSTED)
        second.wait_for(f"{ASKED_AGAIN}: no other mqbroker of the cluster offers it")
        self.assertNotIn(self.activating, first.wait_for("AMQ221007"))


class SharedStoreScaleDownTests(Lives):
    """A hosted backup gives everything to its host."""

    backup = "<scale-down/>"

    def test_messages_of_the_dead_broker_are_served_by_the_other_one(self) -> None:
        self.scales_down()


class ReplicationTests(ReplicatedCase, Lives):
    ready_again = 2  # its own backup has gone on meanwhile, and has given way to it

    def test_the_backup_is_hosted_again_after_each_loss_of_a_broker_and_of_its_port(self) -> None:
        self.dies_and_comes_back()
        self.loses_its_host()
        self.finds_its_port_taken()

    def test_the_newest_copy_is_hosted_again_after_its_host_has_died_and_after_management_has_stopped_it(self) -> None:
        """The copy that the host has may be the only one that has everything."""
        first, second = self.both()
        self.send_to(B, "early")
        second.kill()
        first.wait_for(TAKEN_OVER)
        self.send_to(hosted_by(A), *TEXTS)
        first.kill()
        first = self.start(A)
        first.wait_for(TAKEN_OVER)
        self.send_to(hosted_by(A), "late")
        self.fail_over(hosted_by(A))
        first.wait_for("AMQ221002")
        self.start(B)
        self.assertEqual(self.received(B), ["early", *TEXTS, "late"])


class FormerCopyTests(ReplicatedCase):
    """Each of two others can host the backup of the one that asks."""

    voters = (D,)
    asking = (B,)

    def test_a_former_copy_that_is_hosted_again_does_not_keep_the_primary_from_its_place(self) -> None:
        names = (A, C, B, D)
        brokers = dict(zip(names, self.start_all(*names), strict=True))
        second = brokers[B]
        told = second.wait_for(HOSTED)
        former, other = sorted((A, C), key=lambda name: f":{self.ports[name]} {HOSTED}" not in told)
        brokers[former].wait_for(self.ready)
        self.send_to(B, "early")
        brokers[former].kill()
        second.wait_for(HOSTED, times=2)
        brokers[other].wait_for(self.ready)
        self.send_to(B, *TEXTS)
        back = self.start(former)
        back.wait_for(self.activating)
        second.kill()
        brokers[other].wait_for(TAKEN_OVER)
        back.wait_for(self.ready)
        self.start(B)
        self.assertEqual(self.received(B), ["early", *TEXTS])


class OutageTests(ReplicatedCase):
    """Each of the two is the only voter of the other one."""

    names = (A, B)
    voters = ()

    def test_both_are_active_again_after_an_outage_of_all(self) -> None:
        """The copies meet, although neither host is active then."""
        first, second = self.both()
        self.send_to(A, "one")
        self.send_to(B, "two")
        first.kill()
        second.kill()
        first = self.start(A, "this broker may not be active yet")
        self.start(B)
        first.wait_for("AMQ221007")
        self.assertEqual([self.received(A), self.received(B)], [["one"], ["two"]])


class ExcludedTests(ReplicatedCase):
    """As in Artemis's example hosted backups are announced at the place of their host.  Each of the two is the only voter of the other."""

    names = (A, B)
    voters = ()
    excludes_own = True
    backup = "<retry-replication-wait>200</retry-replication-wait><scale-down/>"

    def test_after_an_orderly_stop_of_one_the_other_one_has_the_messages_of_both(self) -> None:
        """The host needs a vote of the backup that it hosts, which cannot scale down before."""
        first, second = self.both()
        self.send_to(A, *TEXTS)
        self.send_to(B, "one", "two")
        second.stop()
        first.wait_for("2 messages of 1 queues")
        self.assertCountEqual(self.received(A), [*TEXTS, "one", "two"])


class ReplicatedScaleDownTests(ReplicatedCase, Lives):
    """The hosted backup stays after that: only it knows that everything has gone."""

    backup = f"{ReplicatedCase.backup}<scale-down/>"

    def test_messages_of_the_dead_broker_are_served_by_the_other_one(self) -> None:
        self.scales_down()
