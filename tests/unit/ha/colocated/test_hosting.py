"""Which backups a broker hosts, and until when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.votes import ASKED, HOSTED, OFFER_VOTE, WANTED_VOTE, Offer
from mqbroker.config.model.cluster import ColocatedConfiguration, ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.ha.colocated.hosted_configuration import Hosted
from mqbroker.ha.colocated.hosting import AGAIN_SECONDS, AGAIN_SECONDS_MAX, LOOK_SECONDS, Hosting
from mqbroker.server.cluster_port import HostedFigures
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqclient.protocol.topology import TopologyMember
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL
from mqclient.wire.packets import BackupRequest, BackupRequestResponse
from tests.support.broker import Peer
from tests.unit.cluster.support import cluster_world, connector, joined, member
from tests.unit.ha.colocated.support import REPLICATED, ColocatedCase, PlayedProcess
from tests.unit.mqclient.wire.vectors import VECTORS, load

SHARED = SharedStoreConfiguration(True)
OTHER = "other"
WANTED = BackupRequest(0, None, None, None, None, OTHER)
FOLDERS = ("/d/journal", "/d/bindings", "/d/large", "/d/paging")


class HostCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world, self.cluster = cluster_world()
        self.cluster.topology.up(member(OTHER, 1))
        self.process = PlayedProcess()
        self.hosting = self.hosts()

    def hosts(self, backup: Any = REPLICATED, **options: Any) -> Hosting:
        hosting = Hosting(ColocatedConfiguration(backup, **options), self.process, self.world.clock)
        side: Any = None
        hosting.open()
        hosting.serve(self.world.server, self.cluster.topology, side)  # type: ignore[arg-type]
        return hosting

    def peer(self) -> Peer:
        """Another broker of this kind."""
        peer = self.world.peer()
        peer.send(wire.ClusterConnect("cu", "cp", PRODUCT, 1), CLUSTER_CHANNEL)
        peer.take(CLUSTER_CHANNEL)
        return peer

    def offer(self, peer: Peer | None = None, node_id: str = OTHER) -> Offer:
        peer = peer or self.peer()
        peer.send(wire.QuorumVote(OFFER_VOTE, Offer(ASKED, node_id, False).encode()), CLUSTER_CHANNEL)
        (answer,) = peer.take(CLUSTER_CHANNEL)
        assert isinstance(answer, wire.QuorumVoteReply)
        return Offer.decode(answer.vote)

    def ask(self, request: BackupRequest = WANTED, peer: Peer | None = None) -> bool:
        peer = peer or self.peer()
        peer.send(request, CLUSTER_CHANNEL)
        (answer,) = peer.take(CLUSTER_CHANNEL)
        assert isinstance(answer, BackupRequestResponse)
        return answer.backup_started


class OfferTests(HostCase):
    def test_what_is_offered(self) -> None:
        own = self.world.server.node_id
        self.assertEqual(self.offer(), Offer(0, own, True))
        self.assertTrue(self.ask())
        self.assertEqual(self.offer(node_id="third"), Offer(1, own, False))
        self.assertEqual(self.offer(), Offer(HOSTED, own, True))

    def test_a_java_broker_gets_nothing_and_hears_it_at_once(self) -> None:
        asked = 0
        for recorded in load(VECTORS / "cluster-2.44.0" / "colocated-backup-request.json")["connections"]:
            frames = {entry["name"]: bytes.fromhex(entry["hex"]) for entry in recorded["frames"]}
            peer = joined(self.world)
            if "QUORUM_VOTE" in frames:
                peer.feed(frames["QUORUM_VOTE"])
                (answer,) = peer.take(CLUSTER_CHANNEL)
                assert isinstance(answer, wire.QuorumVoteReply)
                self.assertEqual(Offer.decode(answer.vote), Offer(0, self.world.server.node_id, False))
                asked += 1
            if "BACKUP_REQUEST" in frames:
                peer.feed(frames["BACKUP_REQUEST"])
                self.assertEqual(peer.take(CLUSTER_CHANNEL), [BackupRequestResponse(False)])
                asked += 1
        self.assertEqual((asked, self.process.asked), (4, []))

    def test_brokers_of_this_kind_ask_as_recorded(self) -> None:
        for recorded in load(VECTORS / "cluster-2.44.0" / "colocated-backup-request.json")["connections"]:
            for entry in recorded["frames"]:
                if entry["name"] != "BACKUP_REQUEST":
                    continue
                request = wire.decode_packet(127, bytes.fromhex(entry["hex"])[13:], 136)
                assert isinstance(request, BackupRequest)
                self.cluster.topology.up(member(str(request.node_id), 1))
                peer = self.peer()
                peer.send(replace(request, backup_size=len(self.process.started)), CLUSTER_CHANNEL)
                taken = peer.take(CLUSTER_CHANNEL)
                self.assertEqual(taken, [BackupRequestResponse(len(self.process.started) == 1 and taken[0].backup_started)])
        self.assertEqual(len(self.process.started), 1)


class RequestTests(HostCase):
    def refused(self, request: BackupRequest, expected: str, peer: Peer | None = None) -> None:
        with capturedLogs() as captured:
            self.assertFalse(self.ask(request, peer))
        self.assertIn(expected, "\n".join(formatEvent(event) or "" for event in captured))
        self.assertEqual(self.process.started, [])

    def test_a_backup_is_started(self) -> None:
        self.assertTrue(self.ask())
        (started,) = self.process.started
        self.assertEqual(started.hosted, Hosted(1, OTHER, None))
        self.assertEqual(self.hosting.figures, [HostedFigures("colocated_backup_1", OTHER, "passive")])

    def test_with_a_shared_store_its_folders_are_used(self) -> None:
        self.hosting = self.hosts(SHARED)
        self.assertTrue(self.ask(BackupRequest(0, *FOLDERS, OTHER)))
        names = ("journal_directory", "bindings_directory", "large_messages_directory", "paging_directory")
        self.assertEqual(self.process.started[0].hosted.folders, dict(zip(names, FOLDERS, strict=True)))

    def test_what_is_refused(self) -> None:
        own = self.world.server.node_id
        self.refused(WANTED, "Java broker", joined(self.world))
        self.refused(replace(WANTED, backup_size=1), "it was told of 1 backups, there are 0, and max-backups is 1")
        self.refused(replace(WANTED, node_id=None), "does not say which node")
        self.refused(replace(WANTED, node_id=own), "does not say which node")
        self.refused(BackupRequest(0, *FOLDERS, OTHER), "one of the two has a shared store")
        self.hosting = self.hosts(SHARED)
        self.refused(WANTED, "one of the two has a shared store")
        self.refused(BackupRequest(0, "journal", *FOLDERS[1:], OTHER), "not absolute")
        self.refused(BackupRequest(0, FOLDERS[0], None, *FOLDERS[2:], OTHER), "not absolute")
        self.hosting = self.hosts(max_backups=0)
        self.refused(WANTED, "max-backups is 0")

    def test_the_group_of_both_is_the_same(self) -> None:
        self.cluster.topology.up(TopologyMember("fish", 1, connector(3), None, "fish"))
        for group, node_id, taken in (("fish", "fish", True), ("fish", OTHER, False), (None, "fish", False), ("fish", "unknown", False)):
            with self.subTest(group=group, node=node_id):
                self.hosting = self.hosts(ReplicationConfiguration(True, group))
                self.assertEqual(self.ask(replace(WANTED, node_id=node_id)), taken)

    def test_no_more_than_max_backups(self) -> None:
        self.hosting = self.hosts(max_backups=2)
        self.assertTrue(self.ask())
        self.assertFalse(self.ask(replace(WANTED, node_id="second")))  # the count has changed since the offer
        self.assertTrue(self.ask(replace(WANTED, node_id="second", backup_size=1)))
        self.assertFalse(self.ask(replace(WANTED, node_id="third", backup_size=2)))
        self.assertEqual(self.process.asked[1], ("second", None, [0, 1]))

    def test_a_backup_that_is_there_already_is_not_started_again(self) -> None:
        self.assertTrue(self.ask())
        self.assertTrue(self.ask(replace(WANTED, backup_size=HOSTED)))
        self.assertEqual(len(self.process.started), 1)

    def test_two_requests_at_a_time(self) -> None:
        self.process.held = held = Deferred()
        first, second = self.peer(), self.peer()
        first.send(WANTED, CLUSTER_CHANNEL)
        self.assertEqual(self.hosting.figures, [])
        self.assertFalse(self.ask(peer=second))
        self.assertFalse(self.ask(replace(WANTED, node_id="third"), second))
        held.callback(None)
        self.assertEqual(first.take(CLUSTER_CHANNEL), [BackupRequestResponse(True)])

    def test_a_place_that_another_backup_has_got_meanwhile(self) -> None:
        self.hosting = self.hosts(SHARED, max_backups=2)
        self.process.held = held = Deferred()
        first, second = self.peer(), self.peer()
        first.send(BackupRequest(0, *FOLDERS, OTHER), CLUSTER_CHANNEL)
        self.assertTrue(self.ask(BackupRequest(1, *FOLDERS, "second"), second))
        held.callback(None)
        self.assertEqual(first.take(CLUSTER_CHANNEL), [BackupRequestResponse(False)])
        self.assertTrue(self.ask(BackupRequest(1, *FOLDERS, OTHER), first))
        self.assertEqual([(each.node_id, each.name[-1]) for each in self.hosting.figures], [("second", "1"), (OTHER, "2")])

    def test_a_place_that_is_not_there_and_a_start_that_fails(self) -> None:
        self.process.refusal = "/d/journal is not the folder of this node"
        self.refused(WANTED, "is not the folder of this node")
        self.process.refusal, self.process.failure = "", "port 1 is taken"
        self.refused(WANTED, "port 1 is taken")
        self.assertEqual(self.offer().count, 0)
        self.process.failure = ""
        self.assertTrue(self.ask())

    def test_a_defect_is_a_refusal(self) -> None:
        def broken(*args: Any) -> Any:
            raise RuntimeError("broken")

        self.patch(self.process, "start", broken)
        self.refused(WANTED, "broken")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


class EndTests(HostCase):
    def test_a_backup_that_ends_tells_whoever_asked_for_it(self) -> None:
        peer = self.peer()
        self.assertTrue(self.ask(peer=peer))
        self.process.kept = False
        self.process.started[0].failed("the journal can no longer be written")
        self.assertFalse(peer.transport.closed)
        self.world.clock.advance(0)
        self.assertTrue(peer.transport.closed)
        self.assertEqual(self.offer(), Offer(0, self.world.server.node_id, True))
        self.world.clock.advance(AGAIN_SECONDS)
        self.assertEqual((self.hosting.figures, self.offer(node_id="third")), ([], Offer(0, self.world.server.node_id, True)))

    def test_as_long_as_it_ends_its_place_is_taken(self) -> None:
        self.assertTrue(self.ask())
        (broker,) = self.process.started
        broker.held = True
        broker.left("it has given way")
        broker.left("it has given way")
        self.world.clock.advance(0)
        self.assertEqual(len(broker.stopping), 1)
        self.assertEqual(self.offer(), Offer(1, self.world.server.node_id, False))
        self.assertFalse(self.ask(replace(WANTED, backup_size=1)))
        broker.stopped()
        self.assertTrue(self.ask())

    def test_all_end_with_the_host(self) -> None:
        self.hosting = self.hosts(max_backups=2)
        self.ask()
        self.ask(replace(WANTED, node_id="second", backup_size=1))
        for broker in self.process.started:
            broker.held = True
        self.process.started[0].left("it has given way")
        self.world.clock.advance(0)
        stopped = self.hosting.stop()
        for broker in self.process.started:
            self.assertNoResult(stopped)
            broker.stopped()
        self.successResultOf(stopped)
        self.assertEqual([len(broker.stopping) for broker in self.process.started], [1, 1])
        self.assertFalse(self.ask())

    def test_nothing_is_started_after_the_end(self) -> None:
        self.process.held = held = Deferred()
        peer = self.peer()
        peer.send(WANTED, CLUSTER_CHANNEL)
        self.successResultOf(self.hosting.stop())
        held.callback(None)
        self.assertEqual((peer.take(CLUSTER_CHANNEL), self.process.started), ([BackupRequestResponse(False)], []))
        self.hosting.open()
        self.assertTrue(self.ask())

    def test_nothing_begins_anew_while_all_end(self) -> None:
        """The own broker may become active then; it is stopped next."""
        self.ask()
        (broker,) = self.process.started
        broker.held = True
        stopped = self.hosting.stop()
        self.assertFalse(self.hosting.open())
        self.hosting.resume([Hosted(2, "second", None)])
        broker.stopped()
        self.successResultOf(stopped)
        self.hosting.resume([Hosted(2, "second", None)])
        self.assertEqual(len(self.process.started), 1)
        self.assertTrue(self.hosting.open())
        self.assertTrue(self.ask())

    def test_what_was_hosted_before_is_hosted_again(self) -> None:
        self.hosting.resume([Hosted(2, OTHER, None), Hosted(3, "third", None)])
        self.assertEqual([broker.hosted for broker in self.process.started], [Hosted(2, OTHER, None)])
        self.assertEqual(self.offer(), Offer(HOSTED, self.world.server.node_id, True))
        self.hosting.resume([Hosted(2, OTHER, None)])
        self.assertEqual(len(self.process.started), 1)


class ReturnTests(HostCase):
    """Nobody asks for the backup of a primary that has gone: the host starts it again by itself."""

    def ends(self, number: int, reason: str = "port 1 is taken") -> None:
        """The last broker that was started cannot go on."""
        self.assertEqual(len(self.process.started), number)
        self.process.started[-1].failed(reason)
        self.world.clock.advance(0)

    def told(self, captured: Any) -> list[str]:
        texts = [formatEvent(event) or "" for event in captured]
        return [text for text in texts if "is started again" in text]

    def test_a_backup_that_fails_is_started_again_in_its_place_after_longer_and_longer_pauses(self) -> None:
        self.ask()
        with capturedLogs() as captured:
            for number, pause in enumerate((1, 2, 4, 8, 16, 32, 60, 60), 1):
                self.ends(number)
                self.world.clock.advance(pause - 0.1)
                self.assertEqual(len(self.process.started), number)
                self.world.clock.advance(0.1)
        self.assertEqual({broker.hosted for broker in self.process.started}, {Hosted(1, OTHER, None)})
        self.assertEqual(self.told(captured), ["the hosted backup colocated_backup_1 cannot go on, and is started again: port 1 is taken"])
        self.assertEqual(self.hosting.figures, [HostedFigures("colocated_backup_1", OTHER, "passive")])

    def test_after_a_while_pauses_begin_anew(self) -> None:
        self.ask()
        with capturedLogs() as captured:
            for number in (1, 2):
                self.ends(number)
                self.world.clock.advance(AGAIN_SECONDS)
                self.world.clock.advance(AGAIN_SECONDS_MAX)
        self.assertEqual((len(self.process.started), len(self.told(captured))), (3, 2))

    def test_a_start_that_fails_is_tried_again(self) -> None:
        self.process.failure = "port 1 is taken"
        self.hosting.resume([Hosted(2, OTHER, None)])
        self.assertEqual(self.hosting.figures, [HostedFigures("colocated_backup_2", OTHER, "failed")])
        self.world.clock.advance(AGAIN_SECONDS)
        self.process.failure = ""
        self.world.clock.advance(AGAIN_SECONDS * 2)
        self.assertEqual([broker.hosted for broker in self.process.started], [Hosted(2, OTHER, None)])

    def test_its_place_stays_taken_but_its_primary_need_not_wait(self) -> None:
        self.ask()
        self.ends(1)
        own = self.world.server.node_id
        self.assertEqual((self.offer(node_id="third"), self.offer()), (Offer(1, own, False), Offer(0, own, True)))
        self.assertTrue(self.ask())
        self.assertEqual(self.process.asked[-1], (OTHER, None, [0]))
        self.world.clock.advance(AGAIN_SECONDS_MAX)
        self.assertEqual(len(self.process.started), 2)

    def test_a_copy_that_was_stopped_may_be_the_newest_one(self) -> None:
        """As after a stop by management while its primary is away."""
        self.ask()
        self.process.started[0].left("it has given way, or was stopped")
        self.world.clock.advance(0)
        self.assertEqual(self.hosting.figures, [HostedFigures("colocated_backup_1", OTHER, "ended")])
        self.world.clock.advance(AGAIN_SECONDS)
        self.assertEqual(len(self.process.started), 2)

    def test_a_shared_store_that_was_left_is_there_for_its_primary(self) -> None:
        self.hosting = self.hosts(SHARED)
        self.ask(BackupRequest(0, *FOLDERS, OTHER))
        self.process.started[0].left("it has given way, or was stopped")
        self.world.clock.advance(AGAIN_SECONDS_MAX)
        self.assertEqual((len(self.process.started), self.hosting.figures), (1, []))

    def test_the_end_of_the_host_is_that_of_all(self) -> None:
        self.ask()
        self.ends(1)
        self.successResultOf(self.hosting.stop())
        self.world.clock.advance(AGAIN_SECONDS_MAX)
        self.assertEqual((len(self.process.started), self.hosting.figures), (1, []))

    def test_a_host_that_ends_while_it_looks_at_a_copy_starts_nothing(self) -> None:
        self.ask()
        self.ends(1)
        looked: Deferred[bool] = Deferred()
        self.patch(self.process, "keeps", lambda hosted: looked)
        self.world.clock.advance(AGAIN_SECONDS)
        self.successResultOf(self.hosting.stop())
        looked.callback(True)
        self.assertEqual(len(self.process.started), 1)

    def test_a_defect_leaves_the_place(self) -> None:
        self.ask()
        self.ends(1)
        self.patch(self.process, "keeps", lambda hosted: fail(RuntimeError("broken")))
        self.world.clock.advance(AGAIN_SECONDS)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual((self.hosting.figures, self.offer(node_id="third").count), ([], 0))


class LookTests(ColocatedCase):
    """A primary that has lost its host may have another one."""

    def test_a_backup_that_its_primary_has_elsewhere_ends(self) -> None:
        primary, host = self.broker("primary", 1, 2), self.broker("host", 2, 1)
        wanted = [b"\x01", b"\x00"]
        channel: Any = primary.life.active.server.cluster_channel
        asked: list[bytes] = []
        channel.register_vote(WANTED_VOTE, lambda connection, question: asked.append(question) or wanted.pop(0))
        hosting, process = self.host(host)
        hosting.resume([Hosted(1, primary.life.active.server.node_id, None)])
        (broker,) = process.started
        self.run_for(LOOK_SECONDS + 1)
        self.assertEqual((len(asked), broker.state), (1, "passive"))
        broker.state = "active"  # it serves, and is its own primary
        self.run_for(LOOK_SECONDS)
        self.assertEqual((len(asked), broker.state), (1, "active"))
        broker.state = "passive"
        self.run_for(LOOK_SECONDS)
        self.assertEqual((len(asked), broker.state), (2, "stopped"))
        self.assertEqual((hosting.figures, len(process.started)), ([], 1))
        self.successResultOf(hosting.stop())

    def test_a_backup_that_fails_again_and_again_ends_too(self) -> None:
        primary, host = self.broker("primary", 1, 2), self.broker("host", 2, 1)
        channel: Any = primary.life.active.server.cluster_channel
        channel.register_vote(WANTED_VOTE, lambda connection, question: b"\x00")
        hosting, process = self.host(host)
        process.failure = "port 1 is taken"
        hosting.resume([Hosted(1, primary.life.active.server.node_id, None)])
        self.assertEqual(len(hosting.figures), 1)
        self.run_for(LOOK_SECONDS + 1)
        self.assertEqual(hosting.figures, [])
        self.successResultOf(hosting.stop())

    def test_a_primary_that_does_not_answer_keeps_its_backup(self) -> None:
        primary, host = self.broker("primary", 1, 2), self.broker("host", 2, 1)
        hosting, process = self.host(host)
        hosting.resume([Hosted(1, primary.life.active.server.node_id, None)])
        primary.kill()
        self.run_for(LOOK_SECONDS * 2)
        self.assertEqual(process.started[0].state, "passive")
        self.successResultOf(hosting.stop())
