"""Processes that host the backups of each other."""

from __future__ import annotations

import socket

from tests.integration.ha.colocated import HOSTED, HOSTED_NO_LONGER, A, B, C, ColocatedCase, D, ReplicatedCase, hosted_by

TEXTS = [f"m{number}" for number in range(50)]
TAKEN_OVER = "AMQ221010"
ASKED_AGAIN = "they are asked again"


class Lives(ColocatedCase):
    """What both kinds of stores live through."""

    ready_again = 1
    """How often a host that was stopped in order and is back is ready for something until its hosted backup is."""

    def dies_and_comes_back(self) -> None:
        first, second = self.both()
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for(TAKEN_OVER)
        self.assertEqual(self.received(hosted_by(A)), TEXTS)
        self.send_to(hosted_by(A), "late")
        second = self.start(B)
        self.assertEqual(self.received(B), ["late"])
        # The backup that has given way has ended, and another one is asked for.
        second.wait_for(HOSTED)
        first.wait_for(self.activating, times=2)
        first.stop()
        second.stop()

    def loses_its_host(self) -> None:
        first, second = self.both()
        self.send_to(B, "early")
        first.stop()
        second.wait_for(HOSTED_NO_LONGER)
        second.wait_for(ASKED_AGAIN)
        first = self.start(A)
        second.wait_for(HOSTED, times=2)
        first.wait_for(self.ready, times=self.ready_again)
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for(TAKEN_OVER)
        self.assertEqual(self.received(hosted_by(A)), ["early", *TEXTS])

    def finds_its_port_taken(self) -> None:
        """Nobody but its host could start it again."""
        first, second = self.both()
        self.send_to(B, *TEXTS)
        with socket.socket() as program:
            program.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            program.bind(("127.0.0.1", self.ports[hosted_by(A)]))
            program.listen()
            second.kill()
            first.wait_for("and is started again:")
        first.wait_for(TAKEN_OVER)
        self.assertEqual(self.received(hosted_by(A)), TEXTS)

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
    def test_a_hosted_backup_whose_port_is_taken_is_started_again(self) -> None:
        self.finds_its_port_taken()

    def test_the_hosted_backup_serves_until_the_dead_broker_is_back(self) -> None:
        self.dies_and_comes_back()

    def test_a_host_that_is_gone_is_asked_again_when_it_is_back(self) -> None:
        self.loses_its_host()

    def test_a_hosted_backup_that_serves_ends_in_order_with_its_host(self) -> None:
        first, second = self.both()
        self.send_to(B, *TEXTS)
        second.kill()
        first.wait_for(TAKEN_OVER)
        first.stop()
        first.wait_for("AMQ221002", times=2)
        self.start(B)
        self.assertEqual(self.received(B), TEXTS)


class FullTests(ColocatedCase):
    """One broker hosts nothing."""

    def colocated_of(self, name: str) -> str:
        return f"<max-backups>{0 if name == A else 1}</max-backups>"

    def test_nobody_hosts_more_than_max_backups(self) -> None:
        first, second = self.start(A), self.start(B)
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

    def test_a_hosted_backup_whose_port_is_taken_is_started_again(self) -> None:
        self.finds_its_port_taken()

    def test_the_newest_copy_is_hosted_again_after_management_has_stopped_it(self) -> None:
        first, second = self.both()
        self.send_to(B, "early")
        second.kill()
        first.wait_for(TAKEN_OVER)
        self.send_to(hosted_by(A), *TEXTS)
        self.fail_over(hosted_by(A))
        first.wait_for("AMQ221002")
        self.start(B)
        self.assertEqual(self.received(B), ["early", *TEXTS])

    def test_the_hosted_backup_serves_until_the_dead_broker_is_back(self) -> None:
        self.dies_and_comes_back()

    def test_a_host_that_is_gone_is_asked_again_when_it_is_back(self) -> None:
        self.loses_its_host()

    def test_what_a_dead_host_has_hosted_is_hosted_again(self) -> None:
        """The copy that it has may be the only one that has everything."""
        first, second = self.both()
        self.send_to(B, "early")
        second.kill()
        first.wait_for(TAKEN_OVER)
        self.send_to(hosted_by(A), *TEXTS)
        first.kill()
        self.start(A).wait_for(TAKEN_OVER)
        self.assertEqual(self.received(hosted_by(A)), ["early", *TEXTS])


class FormerCopyTests(ReplicatedCase):
    """Each of two others can host the backup of the one that asks."""

    voters = (D,)
    asking = (B,)

    def test_a_former_copy_that_is_hosted_again_does_not_keep_the_primary_from_its_place(self) -> None:
        self.start(D)
        hosts = {name: self.start(name) for name in (A, C)}
        second = self.start(B)
        told = second.wait_for(HOSTED)
        former, other = sorted((A, C), key=lambda name: f":{self.ports[name]} {HOSTED}" not in told)
        hosts[former].wait_for(self.ready)
        self.send_to(B, "early")
        hosts[former].kill()
        second.wait_for(HOSTED, times=2)
        hosts[other].wait_for(self.ready)
        self.send_to(B, *TEXTS)
        back = self.start(former)
        back.wait_for(self.activating)
        second.kill()
        hosts[other].wait_for(TAKEN_OVER)
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
