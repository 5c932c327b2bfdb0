"""A replica meets brokers that are no active ones of its kind."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from mqbroker.ha.proof.copy_record import CONNECTOR_SIZE_MAX, COPY_ID_SIZE_MAX
from mqbroker.ha.replication.following import Following, Registration
from mqbroker.ha.replication.packets import VERSION, Answered, Changes, Complete, Hello, Question, Welcome, packet_frame, read_packet
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.core.api import LocatorSettings
from mqclient.errors import MQError
from mqclient.protocol.topology import Topology
from mqclient.wire.frames import HEADER_SIZE, PREAMBLE, REPLICATION_CHANNEL, FrameSplitter, frame
from mqclient.wire.packets import BackupRegistration, BackupRegistrationFailed, ClusterConnect, ClusterConnectReply
from mqclient.wire.primitives import TransportConfiguration
from tests.support.network import MemoryLink, ScriptedBroker, World, connector


class Owner:
    """The passive broker."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.begun: Deferred[Any] = Deferred()

    def begin_copy(self, welcome: Welcome) -> Deferred[Any]:
        self.told.append(f"begin {welcome.node_id}")
        return self.begun

    def make_folder(self, answer: Any, failed: Any) -> Any:
        self.folder_answers = answer
        return mock.Mock()

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        self.told.append(f"asked {handler}")
        return Deferred()

    def in_sync(self) -> None:
        self.told.append("in sync")

    def take_over(self) -> None:
        self.told.append("take over")

    def lost(self, reason: str) -> None:
        self.told.append("lost")


class Primary(ScriptedBroker):
    """Keeps what comes on the channel of replication."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Any] = []

    def received(self, link: Any, data: bytes) -> None:
        others = b""
        if data.startswith(PREAMBLE):
            others, data = data[: len(PREAMBLE)], data[len(PREAMBLE) :]
        for each in FrameSplitter().feed(data):
            if int.from_bytes(each[5:13], "big") == REPLICATION_CHANNEL:
                self.said.append(read_packet(int.from_bytes(each[4:5], "big", signed=True), each[HEADER_SIZE:]))
            else:
                others += each
        super().received(link, others)


class FollowingTests(TestCase):
    def setUp(self) -> None:
        self.broker = Primary()
        self.world = World(self.broker)
        self.owner = Owner()
        registration = Registration(ClusterCredentials("u", "p"), connector(2), False, "B", "", None)
        self.following = Following(
            self.world.runtime, LocatorSettings(call_timeout=2000), Topology(), connector(), registration, self.owner
        )

    def follow(self, product: str | None) -> Deferred[None]:
        self.broker.answers[ClusterConnect] = lambda packet: ClusterConnectReply(True, product, int(product is not None))
        self.broker.silent.add(BackupRegistration)
        running = Deferred.fromCoroutine(self.following.run())
        self.addCleanup(self.world.network.stir)
        self.addCleanup(self.following.end)
        self.world.network.stir()
        return running

    def say(self, packet: Any) -> None:
        """The broker sends a packet of replication."""
        self.world.network.link.to_client.append(packet if isinstance(packet, bytes) else packet_frame(packet))
        self.world.network.stir()

    def test_no_java_broker_hears_of_a_replica(self) -> None:
        self.failureResultOf(self.follow(None), MQError)
        self.assertEqual(self.broker.got(BackupRegistration), [])

    def test_a_broker_that_does_not_answer_is_given_up(self) -> None:
        running = self.follow("mqbroker")
        self.assertEqual(len(self.broker.got(BackupRegistration)), 1)
        self.world.advance(3)
        self.failureResultOf(running, MQError)
        self.assertEqual(self.owner.told, [])

    def test_a_refusal_is_kept(self) -> None:
        running = self.follow("mqbroker")
        self.broker.deliver(3, BackupRegistrationFailed(2))
        self.failureResultOf(running, MQError)
        self.assertEqual(self.following.refusal, BackupRegistrationFailed(2))

    def test_a_connection_that_is_lost_before_the_answer_ends_the_attempt(self) -> None:
        running = self.follow("mqbroker")
        self.world.network.link.cut()
        self.world.network.stir()
        self.failureResultOf(running, MQError)
        self.assertEqual((self.owner.told, self.following.refusal), ([], None))

    def test_an_end_before_the_answer_ends_the_attempt(self) -> None:
        running = self.follow("mqbroker")
        self.following.end()
        self.world.network.stir()
        self.failureResultOf(running, MQError)

    def test_an_end_before_the_connection_is_made_registers_nobody(self) -> None:
        self.broker.silent.add(ClusterConnect)
        running = self.follow("mqbroker")
        self.following.end()
        self.broker.deliver(3, ClusterConnectReply(True, "mqbroker", 1))
        self.world.network.stir()
        self.failureResultOf(running, MQError)
        self.assertEqual((self.broker.got(BackupRegistration), self.broker.said), ([], []))

    def test_what_has_no_meaning_ends_the_connection(self) -> None:
        welcome = Welcome(VERSION, "A", "node", connector(1), False)
        for packet in (
            Changes.TYPE,
            Complete(1),
            Hello(VERSION, "A", ""),
            Welcome(VERSION + 1, "A", "node", connector(1), False),
        ):
            self.setUp()
            running = self.follow("mqbroker")
            self.say(welcome)
            self.assertEqual(self.owner.told, ["begin node"])
            self.say(frame(packet, REPLICATION_CHANNEL, b"x") if isinstance(packet, int) else packet)
            self.assertEqual(self.owner.told, ["begin node", "lost"])
            self.successResultOf(running)

    def test_a_broker_that_cannot_be_noted_is_not_followed(self) -> None:
        far = TransportConfiguration("n", "f", (("host", "h" * CONNECTOR_SIZE_MAX),))
        for welcome in (
            Welcome(VERSION, "", "node", connector(1), False),
            Welcome(VERSION, "A" * (COPY_ID_SIZE_MAX + 1), "node", connector(1), False),
            Welcome(VERSION, "A", "", connector(1), False),
            Welcome(VERSION, "A", "node", far, False),
        ):
            self.setUp()
            running = self.follow("mqbroker")
            self.say(welcome)
            self.failureResultOf(running, MQError)
            self.assertEqual(self.owner.told, [])

    def test_a_replica_that_leaves_hears_no_more_changes_but_keeps_its_connection(self) -> None:
        running = self.follow("mqbroker")
        self.say(Welcome(VERSION, "A", "node", connector(1), False))
        self.following.leave_folder(lambda: None)
        for packet in (frame(Changes.TYPE, REPLICATION_CHANNEL, b"x"), packet_frame(Question(1, "h", b""))):
            self.say(packet)
        self.assertEqual(self.owner.told, ["begin node", "asked h"])
        self.following.end()
        self.world.network.stir()
        self.successResultOf(running)

    def test_the_answer_to_a_sync_does_not_wait_for_the_end_of_the_turn(self) -> None:
        hurried: list[bytes] = []
        with mock.patch.object(MemoryLink, "write_at_once", lambda link, data: hurried.append(data), create=True):
            self.follow("mqbroker").addErrback(lambda failure: None)
            self.say(Welcome(VERSION, "A", "node", connector(1), False))
            self.owner.begun.callback(None)
            self.world.network.stir()
            self.owner.folder_answers(7)
        self.assertEqual(hurried, [packet_frame(Answered(7))])

    def test_a_copy_that_cannot_begin_ends_the_connection(self) -> None:
        running = self.follow("mqbroker")
        self.say(Welcome(VERSION, "A", "node", connector(1), False))
        self.owner.begun.errback(ValueError("the disk is full"))
        self.world.network.stir()
        self.assertEqual(self.owner.told, ["begin node", "lost"])
        self.successResultOf(running)

    def test_the_registration_says_who_it_is(self) -> None:
        running = self.follow("mqbroker")
        [packet] = self.broker.got(BackupRegistration)
        self.assertEqual((packet.cluster_user, packet.wants_failback, packet.connector), ("u", False, connector(2)))
        self.assertEqual(self.broker.said, [Hello(VERSION, "B", "")])
        self.following.end()
        self.world.network.stir()
        self.failureResultOf(running, MQError)
