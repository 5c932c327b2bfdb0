"""What happens when the connection fails: reconnecting, reattaching, recreating, and what callers are told."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import FailoverEvent, LocatorSettings, TransportConfiguration
from mqclient.core.connection.reconnect import Attempts
from mqclient.errors import (
    ConnectionTimedOutError,
    MQError,
    NotConnectedError,
    ObjectClosedError,
    UnblockedError,
)
from mqclient.protocol.topology import Topology, TopologyMember
from mqclient.wire.packets import (
    Acknowledge,
    AddMetadataV2,
    CheckForFailover,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionV2,
    ExceptionResponse,
    FlowToken,
    ForceConsumerDelivery,
    ProducerRequestCredits,
    QueueQuery,
    QueueQueryResponseV3,
    ReattachSession,
    SessionClose,
    SessionSend,
)
from tests.support.network import NODE_ID, ScriptedBroker, World, message, pending

CHANNEL = 10


class Listener:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def before_reconnect(self, error: MQError) -> None:
        self.told.append(("before", type(error)))

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        self.told.append(("failed", type(error), failed_over))

    def event(self, event: FailoverEvent) -> None:
        self.told.append(event)


class FailoverTestCase(SynchronousTestCase):
    def start(self, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **{"reconnect_attempts": -1, "retry_interval": 100, "max_retry_interval": 1000, **settings})
        self.factory = self.world.factory()
        self.listener = Listener()
        self.factory.add_failure_listener(self.listener)
        self.factory.add_failover_listener(self.listener.event)
        self.session = self.world.session(self.factory)

    def cut(self) -> None:
        """The connection fails, the broker stays reachable: everything goes on at once."""
        self.world.network.link.cut()
        self.world.network.stir()

    def away(self) -> None:
        """The connection fails, and there is no broker."""
        self.world.network.brokers.clear()
        self.cut()

    def back(self) -> None:
        self.world.network.brokers["61616"] = self.broker
        self.world.advance(1.1)


class ReconnectTests(FailoverTestCase):
    def test_without_reconnect_everything_ends(self) -> None:
        self.start(reconnect_attempts=0)
        self.broker.silent |= {QueueQuery}
        consumer = self.world.finish(self.session.create_consumer("q"))
        receive, call, behind = consumer.receive(), self.session.queue_query("q"), self.session.queue_query("q")
        self.cut()
        self.assertIn("cut", str(self.assertRaises(ObjectClosedError, self.world.finish, receive)))
        self.assertRaises(UnblockedError, self.world.finish, call)
        self.assertRaises(NotConnectedError, self.world.finish, behind)
        self.assertIn("cut", str(self.assertRaises(ObjectClosedError, self.world.finish, self.session.commit())))
        self.assertTrue(self.session.closed and self.factory.closed and consumer.closed)
        self.assertEqual(
            self.listener.told,
            [
                FailoverEvent.FAILURE_DETECTED,
                ("before", NotConnectedError),
                FailoverEvent.FAILOVER_FAILED,
                ("failed", NotConnectedError, False),
            ],
        )
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
        self.world.finish(self.factory.close())

    def test_interval_grows_to_its_limit_and_attempts_end(self) -> None:
        self.start(reconnect_attempts=5, retry_interval=100, retry_interval_multiplier=3.0, max_retry_interval=500)
        self.away()
        times = []
        count = len(self.world.network.tried)
        for _ in range(250):
            self.world.advance(0.01, step=0.01)
            if len(self.world.network.tried) > count:
                count = len(self.world.network.tried)
                times.append(round(self.world.clock.seconds(), 1))
        self.assertEqual(times, [0.1, 0.4, 0.9, 1.4])
        self.assertEqual(self.listener.told[-2:], [FailoverEvent.FAILOVER_FAILED, ("failed", NotConnectedError, False)])
        self.assertTrue(self.session.closed)
        self.assertRaises(ObjectClosedError, self.world.finish, self.session.start())

    def test_recreation_sends_what_the_java_client_sends(self) -> None:
        self.start(consumer_window_size=1000, call_failover_timeout=-1)
        self.broker.queue_info = {"auto_created": True}
        self.world.finish(self.session.add_metadata("key", "value"))
        self.world.finish(self.session.create_consumer("q", "n > 1"))
        self.world.finish(self.session.create_producer("a"))
        self.world.finish(self.session.start())
        name = self.session.name
        self.away()
        self.back()
        self.assertEqual(
            self.broker.names(),
            [
                "CHECK_FOR_FAILOVER",
                "SUBSCRIBE_TOPOLOGY_V2",
                "REATTACH_SESSION",
                "CREATESESSION",
                "CREATE_QUEUE_V2",
                "SESS_CREATECONSUMER",
                "SESS_FLOWTOKEN",
                "SESS_START",
                "SESS_ADD_METADATA2",
                "SESS_PRODUCER_REQUEST_CREDITS",
            ],
        )
        self.assertEqual([(p.name, p.last_confirmed_command_id) for p in self.broker.got(ReattachSession)], [(name, -1)])
        [request] = self.broker.got(CreateSession)
        self.assertNotEqual(request.name, name)
        self.assertEqual((request.session_channel_id, request.TYPE, request.password), (CHANNEL, 30, "password"))
        self.assertEqual([packet.node_id for packet in self.broker.got(CheckForFailover)], [NODE_ID])
        self.assertEqual([packet.credits for packet in self.broker.got(FlowToken)], [500])
        self.assertEqual([packet.credits for packet in self.broker.got(ProducerRequestCredits)], [65536])
        self.assertFalse(self.broker.got(AddMetadataV2)[0].requires_confirmation)
        self.assertEqual(self.listener.told[-2:], [FailoverEvent.FAILOVER_COMPLETED, ("failed", NotConnectedError, True)])

    def test_second_session_gets_the_next_channel_after_a_reconnect(self) -> None:
        self.start()
        self.cut()
        self.assertEqual(self.world.session(self.factory).channel_id, CHANNEL + 1)

    def test_pending_call_is_unblocked_and_new_calls_wait(self) -> None:
        self.start()
        self.broker.silent.add(SessionSend)
        producer = self.world.finish(self.session.create_producer("a"))
        sent = producer.send(self.session.create_message())
        self.world.network.stir()
        self.away()
        waiting = producer.send(self.session.create_message())
        query = self.session.queue_query("q")
        self.world.advance(5)
        self.assertTrue(pending(waiting) and pending(query))
        self.broker.silent.clear()
        self.back()
        self.assertRaises(UnblockedError, self.world.finish, sent)
        self.world.finish(waiting)
        self.world.finish(query)

    def test_calls_wait_for_the_failover_only_so_long(self) -> None:
        self.start(call_failover_timeout=2000)
        self.broker.silent.add(QueueQuery)
        sent = self.session.queue_query("q")
        self.world.network.stir()
        self.away()
        waiting = self.session.queue_query("q")
        self.world.advance(2.1)
        self.assertRaises(UnblockedError, self.world.finish, sent)
        self.assertIn("callFailoverTimeout", str(self.assertRaises(ConnectionTimedOutError, self.world.finish, waiting)))
        self.assertFalse(self.session.closed)

    def test_receiving_goes_on(self) -> None:
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, message(1))
        self.broker.deliver(CHANNEL, message(2))
        held = self.world.finish(consumer.receive())
        self.cut()
        receive = consumer.receive()
        self.world.network.stir()
        self.assertTrue(pending(receive), "what the broker took back must not be given out")
        self.broker.deliver(CHANNEL, message(3, delivery_count=2))
        self.assertEqual(self.world.finish(receive).message_id, 3)
        self.world.finish(held.individual_acknowledge())
        self.assertEqual(self.broker.got(Acknowledge), [])

    def test_message_taken_before_the_failure_does_not_acknowledge_its_redelivery(self) -> None:
        self.start(ack_batch_size=0)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, message(1))
        before = self.world.finish(consumer.receive())
        self.cut()
        self.broker.deliver(CHANNEL, message(1, delivery_count=2))
        after = self.world.finish(consumer.receive())
        self.world.finish(before.acknowledge())
        self.assertEqual(self.broker.got(Acknowledge), [])
        self.world.finish(after.acknowledge())
        self.assertEqual([packet.message_id for packet in self.broker.got(Acknowledge)], [1])

    def test_acknowledgement_made_while_the_connection_is_away_is_forgotten(self) -> None:
        """The session that the broker makes anew knows nothing of the message: the acknowledgement would spoil a transaction."""
        self.start(ack_batch_size=0)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, message(1))
        received = self.world.finish(consumer.receive())
        self.away()
        self.world.finish(received.acknowledge())
        self.back()
        self.world.finish(self.session.queue_query("q"))
        self.assertEqual(self.broker.got(Acknowledge), [])

    def test_session_that_is_being_closed_is_not_created_anew(self) -> None:
        self.start()
        self.broker.silent.add(SessionClose)
        close = self.session.close()
        self.world.network.stir()
        self.cut()
        self.world.finish(close)
        self.assertEqual(self.broker.got(CreateSession), [])
        self.assertFalse(self.factory.closed)

    def test_cancelled_call_that_waited_is_not_sent(self) -> None:
        self.start()
        self.away()
        call: Any = self.session.channel.call(QueueQuery("q"), QueueQueryResponseV3)
        call.addErrback(lambda _: None)
        call.cancel()
        self.back()
        self.assertEqual(self.broker.got(QueueQuery), [])

    def test_forced_delivery_is_asked_for_again(self) -> None:
        self.start()
        self.broker.silent.add(ForceConsumerDelivery)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receive = consumer.receive_immediate()
        self.world.network.stir()
        self.broker.silent.clear()
        self.cut()
        self.assertIsNone(self.world.finish(receive))

    def test_connection_lost_again_while_sessions_are_restored(self) -> None:
        self.start()
        self.broker.silent.add(ReattachSession)
        self.cut()
        self.broker.silent.clear()
        self.cut()
        self.world.advance(0.2)
        self.assertEqual(self.listener.told[-1], ("failed", NotConnectedError, True))
        self.world.finish(self.session.queue_query("q"))

    def test_session_creation_rejected_is_tried_again(self) -> None:
        self.start()
        refusals = iter([ExceptionResponse(112, "not started"), ExceptionResponse(112, "not started")])
        self.broker.answers[CreateSession] = lambda packet: next(refusals, None) or self.broker._answers(packet)[0]
        self.cut()
        self.world.advance(0.1, step=0.01)
        self.assertEqual(len(self.broker.got(CreateSession)), 3)
        self.world.finish(self.session.queue_query("q"))

    def test_session_that_the_broker_refuses_does_not_hold_up_the_others(self) -> None:
        self.start()
        other = self.world.session(self.factory)
        self.broker.answers[CreateSession] = lambda packet: (
            ExceptionResponse(105, "no") if packet.session_channel_id == CHANNEL else self.broker._answers(packet)[0]
        )
        self.cut()
        self.assertTrue(self.session.closed)
        self.world.finish(other.queue_query("q"))

    def test_creating_a_session_survives_a_failure(self) -> None:
        self.start()
        self.broker.silent.add(CreateSessionV2)
        create = self.factory.create_session()
        self.world.network.stir()
        self.broker.silent.clear()
        self.cut()
        self.assertFalse(self.world.finish(create).closed)

    def test_closing_while_reconnecting(self) -> None:
        self.start()
        self.away()
        call = self.session.queue_query("q")
        self.world.finish(self.session.close())
        self.assertRaises(ObjectClosedError, self.world.finish, call)
        self.world.finish(self.factory.close())
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_failing_listener_does_no_harm(self) -> None:
        self.start()

        def broken(event: FailoverEvent) -> None:
            raise RuntimeError("the application's")

        self.factory.add_failover_listener(broken)
        self.cut()
        self.assertEqual(len(self.world.runtime.failures), 2)
        self.world.finish(self.session.queue_query("q"))


class CandidateTests(SynchronousTestCase):
    """The places of a round, for a client that is connected to the first of three that its application names."""

    def candidates(self, backup: TransportConfiguration | None = None, **settings: Any) -> list[str]:
        places = [TransportConfiguration(name, "netty", (("host", name), ("port", "61616"))) for name in ("a", "b", "c")]
        attempts = Attempts(LocatorSettings(reconnect_attempts=-1, **settings), lambda: places[:1], lambda: places, Topology())
        attempts.topology_received(ClusterTopologyV4(False, NODE_ID, 1, primary=places[0], backup=backup, last=True), places[0])
        attempts.succeeded(places[0])
        attempts.begin_reconnect()
        return [each.name for each in attempts.candidates()]

    def test_a_node_is_looked_for_at_the_places_that_it_was_announced_at(self) -> None:
        self.assertEqual(self.candidates(), ["a"])

    def test_with_exactly_once_a_node_may_be_at_any_place_that_the_application_names(self) -> None:
        # Its backup may have taken over before anybody announced it; a place is asked for the node before anything is sent there.
        self.assertEqual(self.candidates(exactly_once=True), ["a", "b", "c"])

    def test_with_ha_it_is_looked_for_at_every_place_when_no_backup_was_announced(self) -> None:
        """Its backup may be active now, at one of these places, and the lost broker listens no more."""
        self.assertEqual(self.candidates(ha=True), ["a", "b", "c"])
        backup = TransportConfiguration("d", "netty", (("host", "d"), ("port", "61616")))
        self.assertEqual(self.candidates(backup, ha=True), ["a", "d"])


class NamedConnectorTests(SynchronousTestCase):
    """A client whose connectors have the names of the brokers' own ones (Artemis manual, "Use client connectors to fail over")."""

    def test_they_stand_for_the_announced_ones_to_the_backup_and_back(self) -> None:
        def connector(name: str, port: str, *options: tuple[str, str]) -> TransportConfiguration:
            return TransportConfiguration(name, "netty", (("host", "localhost"), ("port", port), *options))

        announced = [connector("node-0", "1"), connector("node-1", "2")]
        own = [connector("node-0", "1", ("sslEnabled", "true")), connector("node-1", "2", ("sslEnabled", "true"))]
        attempts = Attempts(LocatorSettings(ha=True, reconnect_attempts=-1), lambda: own, lambda: own, Topology())

        def lose(active: int) -> list[TransportConfiguration]:
            primary, backup = announced[active], announced[1 - active]
            attempts.begins()
            attempts.topology_received(ClusterTopologyV4(False, NODE_ID, 1, primary=primary, backup=backup, last=True), own[active])
            attempts.succeeded(own[active])
            attempts.settled()
            attempts.begin_reconnect()
            return attempts.candidates()

        self.assertEqual(lose(0), [own[0], own[1], announced[1]])
        self.assertEqual(lose(1), [own[1], own[0], announced[0]])


class NodeTests(SynchronousTestCase):
    """The node that a client asks for at each place, when its own one has been taken over."""

    def setUp(self) -> None:
        self.lost, self.taker = (TransportConfiguration(name, "netty", (("host", name), ("port", "61616"))) for name in ("a", "b"))
        self.topology = Topology()
        self.attempts = Attempts(
            LocatorSettings(reconnect_attempts=-1), lambda: [self.lost], lambda: [self.lost, self.taker], self.topology
        )
        self.events = 0

    def hear(self, node_id: str, at: TransportConfiguration, connector: TransportConfiguration) -> None:
        self.events += 1
        packet = ClusterTopologyV4(False, node_id, self.events, primary=at, last=True)
        self.topology.up(TopologyMember(node_id, self.events, at))
        self.attempts.topology_received(packet, connector)

    def lose(self) -> None:
        """The connection to ``lost``, which has announced the taker, too."""
        self.attempts.begins()
        self.hear(NODE_ID, self.lost, self.lost)
        self.hear("the taker", self.taker, self.lost)
        self.attempts.succeeded(self.lost)
        self.assertEqual(self.attempts.node_id, NODE_ID)
        self.attempts.begin_reconnect()

    def test_a_taker_is_the_node_that_it_says_to_be(self) -> None:
        """It was known under its own node id before; with that one it would not say any more that it is the lost node."""
        self.lose()
        self.attempts.begins()
        self.hear(NODE_ID, self.taker, self.taker)
        self.attempts.succeeded(self.taker)
        self.assertEqual(self.attempts.node_id, NODE_ID)

    def test_the_nodes_that_a_broker_has_announced_at_its_own_place(self) -> None:
        """The words of others about that place, such as that the lost node is there, do not count."""
        self.lose()
        self.attempts.begins()
        self.assertEqual(self.attempts.nodes_there(), [])
        self.topology.up(TopologyMember(NODE_ID, 10, self.lost))
        self.hear("another node", self.lost, self.lost)
        self.hear("the taker", self.taker, self.lost)
        self.attempts.succeeded(self.lost)
        self.assertEqual(self.attempts.nodes_there(), ["another node"])

    def test_another_node_at_the_place_of_the_lost_one_is_not_asked_for(self) -> None:
        """A broker that was taken over is back as another node: the work of this client is not there."""
        self.lose()
        self.attempts.begins()
        self.hear(NODE_ID, self.taker, self.taker)
        self.hear("the lost broker's next one", self.lost, self.taker)
        self.assertEqual(self.attempts.node_id, NODE_ID)
        self.attempts.succeeded(self.taker)
        self.assertEqual(self.attempts.node_id, NODE_ID)

    def test_nor_when_the_taker_has_gone_before_the_sessions_were_there(self) -> None:
        self.lose()
        self.attempts.begins()
        self.hear(NODE_ID, self.taker, self.taker)
        self.attempts.succeeded(self.taker)
        self.attempts.failed()
        self.attempts.begins()
        self.hear("the taker's next one", self.taker, self.lost)
        self.assertEqual(self.attempts.node_id, NODE_ID)

    def test_once_there_is_a_connection_its_announcements_count(self) -> None:
        self.lose()
        self.attempts.begins()
        self.attempts.succeeded(self.lost)
        self.hear("another node", self.lost, self.lost)
        self.assertEqual(self.attempts.node_id, "another node")
