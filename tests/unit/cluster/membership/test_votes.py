"""Votes on the cluster channel."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.votes import ASKED, FAILOVER_VOTE, OFFER_VOTE, OLD_FAILOVER_VOTE, Offer, connector_text
from mqclient.protocol.topology import TopologyMember
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL
from mqclient.wire.primitives import Decoder, Encoder, TransportConfiguration
from tests.support.broker import World
from tests.unit.cluster.support import Clustered, cluster_world, connector, joined, member
from tests.unit.mqclient.wire.vectors import VECTORS, load


def vote(asked: bool, node_id: str, text: str | None = None) -> bytes:
    encoder = Encoder()
    encoder.boolean(asked)
    encoder.string(node_id)
    encoder.nullable_string(text)
    return bytes(encoder.data)


def read_vote(data: bytes) -> tuple[bool, str, str | None]:
    decoder = Decoder(data, "vote")
    return decoder.boolean(), decoder.string(), decoder.nullable_string()


class VoteTests(SynchronousTestCase):
    def ask(self, cluster: Clustered, world: World, name: str, asked: bool, node_id: str) -> list[wire.Packet]:
        peer = joined(world)
        peer.send(wire.QuorumVote(name, vote(asked, node_id)), CLUSTER_CHANNEL)
        return peer.take(CLUSTER_CHANNEL)

    def test_about_nodes_known_and_unknown(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.up(member("b", 1, 61617))
        cluster.topology.up(member("passive", 1, None, 2))
        text = connector_text(connector(61617))
        for asked, node_id, expected in (
            (False, "b", (False, "b", text)),
            (True, "b", (True, "b", text)),
            (False, "c", (True, "c", None)),
            (True, "c", (False, "c", None)),
            (False, "passive", (True, "passive", None)),
        ):
            for name in (FAILOVER_VOTE, OLD_FAILOVER_VOTE):
                (answer,) = self.ask(cluster, world, name, asked, node_id)
                assert isinstance(answer, wire.QuorumVoteReply)
                self.assertEqual((answer.handler, read_vote(answer.vote)), (name, expected))

    def test_a_vote_without_a_handler_has_no_answer(self) -> None:
        world, cluster = cluster_world()
        self.assertEqual(self.ask(cluster, world, "AnotherVote", True, "b"), [])
        world.server.cluster_channel.register_vote("AnotherVote", lambda connection, data: b"yes")
        answers = self.ask(cluster, world, "AnotherVote", True, "b")
        self.assertEqual(answers, [wire.QuorumVoteReply("AnotherVote", b"yes")])

    def test_a_java_broker_that_wants_a_backup_hears_at_once_that_none_is_available(self) -> None:
        """It could not use one: the journals are not the same."""
        world, _ = cluster_world()
        asked = 0
        for recorded in load(VECTORS / "cluster-2.44.0" / "colocated-backup-request.json")["connections"]:
            found = {entry["name"]: bytes.fromhex(entry["hex"]) for entry in recorded["frames"]}
            if "QUORUM_VOTE" not in found and "BACKUP_REQUEST" not in found:
                continue
            peer = joined(world)
            if "QUORUM_VOTE" in found:
                asked += 1
                peer.feed(found["QUORUM_VOTE"])
                offer = wire.decode_packet(-3, found["QUORUM_VOTE_REPLY"][13:], 136)
                assert isinstance(offer, wire.QuorumVoteReply)
                decoder = Decoder(offer.vote, "vote")
                self.assertEqual((decoder.i32(), decoder.nullable_string() is None, decoder.boolean()), (0, False, True))
                (answer,) = peer.take(CLUSTER_CHANNEL)
                assert isinstance(answer, wire.QuorumVoteReply)
                decoder = Decoder(answer.vote, "vote")
                self.assertEqual((answer.handler, decoder.i32(), decoder.nullable_string()), (OFFER_VOTE, 0, world.server.node_id))
                self.assertFalse(decoder.boolean())
            if "BACKUP_REQUEST" in found:
                asked += 1
                peer.feed(found["BACKUP_REQUEST"])
                self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.BackupRequestResponse(False)])
        self.assertEqual(asked, 4)

    def test_offers_as_recorded(self) -> None:
        for recorded in load(VECTORS / "cluster-2.44.0" / "colocated-backup-request.json")["connections"]:
            found = {entry["name"]: bytes.fromhex(entry["hex"]) for entry in recorded["frames"]}
            if "QUORUM_VOTE" in found:
                question = wire.decode_packet(-2, found["QUORUM_VOTE"][13:], 136)
                answer = wire.decode_packet(-3, found["QUORUM_VOTE_REPLY"][13:], 136)
                assert isinstance(question, wire.QuorumVote) and isinstance(answer, wire.QuorumVoteReply)
                self.assertEqual(Offer.decode(question.vote), Offer(ASKED, None, False))
                offer = Offer.decode(answer.vote)
                self.assertEqual((offer.count, offer.available), (0, True))
                self.assertEqual((Offer(ASKED, None, False).encode(), offer.encode()), (question.vote, answer.vote))

    def test_a_damaged_vote_ends_the_connection(self) -> None:
        world, _ = cluster_world()
        peer = joined(world)
        peer.send(wire.QuorumVote(FAILOVER_VOTE, b"\xff\x00"), CLUSTER_CHANNEL)
        self.assertTrue(peer.transport.aborted)

    def test_a_connector_as_text(self) -> None:
        expected = (
            "TransportConfiguration(name=self, factory=org-apache-activemq-artemis-core-remoting-impl-netty-NettyConnectorFactory)"
            "?port=61616&host=127-0-0-1"
        )
        self.assertEqual(connector_text(connector(61616)), expected)
        hidden = TransportConfiguration("a.b", "f.g", (("keyStorePassword", "x"), ("useNio", True)))
        self.assertEqual(connector_text(hidden), "TransportConfiguration(name=a.b, factory=f-g)?keyStorePassword=****&useNio=true")

    def test_recorded_votes(self) -> None:
        """A broker that knows what the recorded one knew gives the same answers byte by byte."""
        compared = 0
        for name in ("quorum-vote-backup", "quorum-vote-primary"):
            for recorded in load(VECTORS / "cluster-2.44.0" / f"{name}.json")["connections"]:
                frames = [bytes.fromhex(entry["hex"]) for entry in recorded["frames"] if entry["name"].startswith("QUORUM_VOTE")]
                for asked, answer in zip(frames[::2], frames[1::2], strict=False):
                    self._compare(asked, answer)
                    compared += 1
        self.assertGreater(compared, 1)

    def _compare(self, asked: bytes, recorded: bytes) -> None:
        world, cluster = cluster_world()
        reply = wire.decode_packet(-3, recorded[13:], 136)
        assert isinstance(reply, wire.QuorumVoteReply)
        _, node_id, text = read_vote(reply.vote)
        if text is not None:
            name, _, parameters = text.removeprefix("TransportConfiguration(name=").partition(", ")
            values = tuple(
                (key, value.replace("-", "."))
                for key, _, value in (part.partition("=") for part in parameters.partition("?")[2].split("&"))
            )
            factory = parameters.partition(")")[0].removeprefix("factory=").replace("-", ".")
            cluster.topology.up(TopologyMember(node_id, 1, TransportConfiguration(name, factory, values)))
        peer = joined(world)
        peer.feed(asked)
        self.assertEqual(bytes(peer.transport.written).hex(), recorded.hex())
