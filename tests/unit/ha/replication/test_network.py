"""Questions of the proof to other brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import capturedLogs, formatEvent

from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.proof.java_voters import JavaVotes
from mqbroker.ha.proof.meeting import MEETING, Standing
from mqbroker.ha.proof.paxos import Ballot, Question, Round
from mqbroker.ha.proof.ports import Introduction, RefusedError, SilentError, UnreachableError
from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE, INTRODUCTION, encode_introduction, encode_question
from mqbroker.ha.replication.connectors import connector_text
from mqbroker.ha.replication.network import ProofNetwork
from mqbroker.ha.replication.process_voters import ProcessVoters
from mqbroker.node.presence import open_side
from mqbroker.server.transport.waiting import WaitingServer
from mqclient.errors import NotConnectedError
from mqclient.wire.primitives import TransportConfiguration
from tests.support.held_store import HeldStore
from tests.unit.cluster.bridge_support import connector
from tests.unit.ha.replication.support import Node, PairCase, ProcessClock, Runtime, alone


class NetworkTests(PairCase):
    def setUp(self) -> None:
        super().setUp()
        self.primary: Node = alone(self)
        runtime = Runtime(self.network, ProcessClock(self.clock))
        self.side = open_side(self.primary.configuration(), None, Path(), runtime)
        self.known: TransportConfiguration | None = connector(1)
        self.voters = ProcessVoters()

    def proof_network(self, over_link: Deferred[bytes] | None = None, side: Any = None) -> ProofNetwork:
        side = side or self.side
        return ProofNetwork(side, lambda connector, handler, question: over_link, self.voters.ask, lambda node_id: self.known)

    def ask(self, connector_text: str | None = None, over_link: Deferred[bytes] | None = None) -> Deferred[bytes]:
        network: Any = self.proof_network(over_link)
        question = self.primary.activation._own.seeker.standing.encode()
        if connector_text is None:
            answer = network.ask_voter("node", lambda java: (MEETING, question))
        else:
            answer = network.ask_copy(connector_text, MEETING, question)
        self.run_for(0.1)
        return answer  # type: ignore[no-any-return]

    def test_a_broker_is_asked_over_a_connection_of_its_own(self) -> None:
        for answer in (self.ask(connector_text(connector(1))), self.ask()):
            standing = Standing.decode(self.successResultOf(answer))
            self.assertEqual(standing.node_id, self.primary.record_node)
        self.run_for(1)
        self.assertEqual([link for link in self.network.links if link.open], [])

    def test_a_voter_says_of_which_kind_it_is_before_it_is_asked(self) -> None:
        votes: list[str] = []
        kinds: list[bool] = []
        network: Any = self.proof_network()
        self.assertEqual(self.met(network), Introduction(java=False, votes=True, paired=True))
        self.primary.speak_java(votes)
        answer = network.ask_voter("node", lambda java: kinds.append(java) or (FAILOVER_VOTE, JavaVotes("node", "").question(False)))
        self.run_for(0.1)
        self.assertTrue(self.successResultOf(answer))
        self.assertEqual(self.met(network), Introduction(java=True, votes=True, paired=False))
        self.assertEqual((kinds, votes), ([True], [FAILOVER_VOTE]))
        self.run_for(1)
        self.assertEqual([link for link in self.network.links if link.open], [])

    def test_a_voter_of_the_own_process_is_asked_without_a_connection(self) -> None:
        """Whatever the cluster says of its place."""
        self.known = connector(9)
        active = self.primary.life.active.server
        self.voters.join(active, {INTRODUCTION: lambda question: encode_introduction(active.node_id, True, True)})
        network = self.proof_network()
        self.assertEqual(self.met(network), Introduction(java=False, votes=True, paired=True))
        self.assertEqual(self.side.runtime.tried, [])  # type: ignore[attr-defined]

    def met(self, network: Any) -> Introduction:
        met = network.meet(self.primary.record_node)
        self.run_for(0.1)
        return self.successResultOf(met)  # type: ignore[no-any-return]

    def test_who_answers_for_another_node_is_not_that_voter(self) -> None:
        met = self.proof_network().meet("another")
        self.run_for(0.1)
        self.assertIn("answers for another", self.failureResultOf(met).getErrorMessage())

    def test_a_voter_that_does_not_say_of_which_kind_it_is_is_waited_for_a_little(self) -> None:
        self.primary.stand_still()
        met = self.proof_network().meet("node")
        self.run_for(1.9)
        self.assertNoResult(met)
        self.run_for(0.2)
        self.failureResultOf(met)

    def test_the_connection_of_the_pair_comes_first(self) -> None:
        self.assertEqual(self.successResultOf(self.ask(connector_text(connector(1)), succeed(b"x"))), b"x")
        self.assertEqual(self.side.runtime.tried, [])  # type: ignore[attr-defined]

    def test_a_lost_connection_of_the_pair_says_nothing_about_the_place(self) -> None:
        self.successResultOf(self.ask(connector_text(connector(1)), fail(UnreachableError("lost"))))
        self.failureResultOf(self.ask(connector_text(connector(9)), fail(UnreachableError("lost"))), UnreachableError)
        self.failureResultOf(self.ask(connector_text(connector(1)), fail(ValueError("no use"))), ValueError)

    def test_a_copy_whose_connection_is_lost_with_the_question_is_dialled_again(self) -> None:
        self.side.runtime.cut_next = [20, 20]  # type: ignore[attr-defined]
        answer = self.ask(connector_text(connector(1)))
        self.assertNoResult(answer)
        self.run_for(0.3)
        self.assertEqual(Standing.decode(self.successResultOf(answer)).node_id, self.primary.record_node)

    def test_a_copy_that_was_met_is_dialled_until_the_asker_gives_up(self) -> None:
        self.side.runtime.cut_next = [20, 20]  # type: ignore[attr-defined]
        self.network.listening["7"] = self.network.listening["1"]
        answer = self.ask(connector_text(connector(7)))
        del self.network.listening["7"]
        self.run_for(5)
        self.assertNoResult(answer)
        answer.cancel()
        self.failureResultOf(answer, SilentError)
        dialled = len(self.side.runtime.tried)  # type: ignore[attr-defined]
        self.run_for(1)
        self.assertEqual(len(self.side.runtime.tried), dialled)  # type: ignore[attr-defined]

    def test_nobody_answers(self) -> None:
        self.known = None
        for answer in (self.ask(connector_text(connector(9))), self.ask()):
            self.failureResultOf(answer, UnreachableError)

    def test_a_note_that_cannot_be_read_is_no_absence(self) -> None:
        self.failureResultOf(self.ask("no connector"), ValueError)

    def locked(self) -> None:
        """At port 1 there is a broker with another cluster password."""
        configuration = Configuration(cluster_user="cu", cluster_password="another")
        store: Any = HeldStore()
        server = WaitingServer(configuration, store, self.clock, lambda: "1")
        server.cluster_channel.register_vote(MEETING, lambda connection, question: b"x")
        self.network.listening["1"] = server

    def test_who_refuses_the_password_is_there_and_that_is_said_once(self) -> None:
        self.locked()
        with capturedLogs() as events:
            for _ in range(2):
                self.failureResultOf(self.ask(connector_text(connector(1))), RefusedError)
            members = Deferred.fromCoroutine(self.side.members([connector(1)]))
            self.run_for(0.1)
        self.assertEqual(list(self.successResultOf(members)), [])
        said = [formatEvent(event) for event in events if "cluster-password" in formatEvent(event)]
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], "AMQ229099: the broker at broker:1 refuses the cluster user and password .* give both the same")

    def secure(self) -> str:
        place = connector(1)
        return connector_text(TransportConfiguration(place.name, place.factory_class_name, (*place.parameters, ("sslEnabled", "true"))))

    def test_a_place_with_tls_is_knocked_at_first(self) -> None:
        self.successResultOf(self.ask(self.secure()))
        self.assertEqual(self.side.runtime.tried, ["1", "1"])  # type: ignore[attr-defined]
        del self.network.listening["1"]
        self.failureResultOf(self.ask(self.secure()), UnreachableError)
        self.assertEqual(self.side.runtime.tried, ["1"] * 3)  # type: ignore[attr-defined]

    def test_who_does_not_agree_on_tls_is_there(self) -> None:
        plain = self.side.runtime.connect

        def connect(place: TransportConfiguration, handler: Any, timeout: float) -> Any:
            if "sslEnabled" in dict(place.parameters):
                return fail(NotConnectedError("the certificate has expired"))
            return plain(place, handler, timeout)

        self.patch(self.side.runtime, "connect", connect)
        failure = self.failureResultOf(self.ask(self.secure()), RefusedError)
        self.assertIn("the certificate has expired", failure.getErrorMessage())

    def searching(self, known: int | None) -> Any:
        """The ways of a broker at port 9 whose cluster connection leads to ports 8, where nobody listens, and 1."""
        self.tries = runtime = Runtime(self.network, ProcessClock(self.clock))
        side = open_side(self.node("asker", 9, 8, 1).configuration(), None, Path(), runtime)
        self.addCleanup(side.close)
        self.known = None if known is None else connector(known)
        return self.proof_network(side=side)

    def test_a_voter_that_is_not_known_where_it_is_is_looked_for(self) -> None:
        node_id = self.primary.record_node
        question = self.primary.activation._own.seeker.standing.encode()
        for known in (None, 7):
            network = self.searching(known)
            first = network.ask_voter(node_id, lambda java: (MEETING, question))
            self.run_for(0.1)
            self.failureResultOf(first, UnreachableError)
            second = network.ask_voter(node_id, lambda java: (MEETING, question))
            self.run_for(0.1)
            self.assertEqual(Standing.decode(self.successResultOf(second)).node_id, node_id)
            self.run_for(1)
            self.assertEqual([link for link in self.tries.links if link.open], [])

    def test_a_voter_whose_former_place_another_one_has_is_looked_for(self) -> None:
        voter = self.node("voter", 3, 1).start()
        self.run_until(lambda: voter.state == "active")
        node_id = str(voter.record_node)
        networks = [self.searching(None) for _ in range(2)]
        for network in networks:
            self.failureResultOf(network.meet(node_id), UnreachableError)
        self.run_for(1)
        self.assertEqual([network._found.get(node_id) is None for network in networks], [False, False])
        voter.kill()
        stranger = self.node("stranger", 3, 1).start()
        voter.port = "4"
        voter.start()
        self.run_until(lambda: stranger.state == voter.state == "active")
        self.run_for(1)
        question = encode_question(Question(Round.PROMISE, "node", 1, Ballot(1, bytes(16))))
        asks = (networks[0].meet, lambda node_id: networks[1].ask_voter(node_id, lambda java: (ACTIVATION_VOTE, question)))
        for ask in asks:
            first = ask(node_id)
            self.run_for(0.5)
            self.failureResultOf(first)
            second = ask(node_id)
            self.run_for(0.5)
            self.successResultOf(second)

    def test_there_is_one_search_at_a_time_and_it_ends_with_the_network(self) -> None:
        self.network.listening["8"] = self.network.listening["1"]
        network = self.searching(None)
        for _ in range(3):
            self.failureResultOf(network.ask_voter("node", lambda java: (MEETING, b"")), UnreachableError)
        self.assertEqual(self.tries.tried, ["8"])
        network.close()
        self.run_for(10)
        self.assertEqual((self.tries.tried, [link for link in self.tries.links if link.open]), (["8"], []))

    def test_a_question_that_is_taken_back_leaves_nothing(self) -> None:
        self.network.cut = False
        network = self.proof_network()
        answer = network.ask_copy(connector_text(connector(1)), "nobody knows this", b"")
        self.run_for(1)
        self.assertNoResult(answer)
        answer.cancel()
        self.failureResultOf(answer)
        self.run_for(1)
        self.assertEqual([link for link in self.network.links if link.open], [])
