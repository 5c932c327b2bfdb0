"""Java brokers as voters: the questions of the peer, answered as members answer them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.votes import FAILOVER_VOTE, OLD_FAILOVER_VOTE, connector_text, failover_vote
from mqbroker.ha.proof.java_voters import JavaVotes
from mqclient.errors import MalformedPacketError
from mqclient.protocol.topology import Topology, TopologyMember
from mqclient.wire.primitives import TransportConfiguration

NETTY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
CONNECTOR = TransportConfiguration("self", NETTY, (("port", 61616), ("host", "127.0.0.1")))


class JavaVotesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.votes = JavaVotes("n", connector_text(CONNECTOR))

    def agrees(self, active: bool, primary: TransportConfiguration | None) -> bool:
        topology = Topology()
        if primary is not None:
            topology.up(TopologyMember("n", 1, primary))
        return self.votes.agrees(active, failover_vote(topology, self.votes.question(active)))

    def test_a_backup_may_take_over_when_no_primary_is_known(self) -> None:
        self.assertEqual((self.agrees(False, None), self.agrees(False, CONNECTOR)), (True, False))

    def test_an_active_broker_goes_on_when_it_is_the_one_that_is_known(self) -> None:
        other = TransportConfiguration("self", NETTY, (("port", 61617), ("host", "127.0.0.1")))
        self.assertEqual([self.agrees(True, each) for each in (CONNECTOR, other, None)], [True, False, False])

    def test_one_that_is_silent_is_asked_under_the_older_name_the_next_time(self) -> None:
        self.assertEqual(self.votes.handler("v"), FAILOVER_VOTE)
        self.votes.silent("v")
        self.assertEqual((self.votes.handler("v"), self.votes.handler("w")), (OLD_FAILOVER_VOTE, FAILOVER_VOTE))
        self.votes.silent("v")
        self.assertEqual(self.votes.handler("v"), FAILOVER_VOTE)

    def test_an_answer_that_cannot_be_read_is_refused(self) -> None:
        self.assertRaises(MalformedPacketError, self.votes.agrees, False, b"\xff")
