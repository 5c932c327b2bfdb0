"""Connecting: the handshake, the first session, and what ends it early."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.configuration import IN_VM_CONNECTOR, NETTY_CONNECTOR
from mqclient.core.connection.connection import describe
from mqclient.errors import (
    ConnectionTimedOutError,
    IncompatibleVersionsError,
    NotConnectedError,
    ObjectClosedError,
    SecurityError,
)
from mqclient.wire.packets import (
    CreateProducer,
    CreateSession,
    CreateSessionV2,
    ExceptionResponse,
    SessionSend,
    SubscribeTopologyV2,
)
from mqclient.wire.primitives import TransportConfiguration
from tests.support.network import ScriptedBroker, World, pending

CHANNEL = 10


class ConnectTests(SynchronousTestCase):
    def test_connectors_in_messages(self) -> None:
        self.assertEqual(describe(TransportConfiguration("x", NETTY_CONNECTOR, (("port", "7"), ("host", "h")))), "h:7")
        self.assertEqual(describe(TransportConfiguration("x", IN_VM_CONNECTOR, (("serverId", "7"),))), "vm://7")

    def test_handshake(self) -> None:
        broker = ScriptedBroker()
        world = World(broker, client_id="me")
        session = world.session()
        self.assertEqual(broker.names(), ["SUBSCRIBE_TOPOLOGY_V2", "CREATESESSION_V2"])
        [request] = broker.got(CreateSessionV2)
        self.assertEqual(
            (request.session_channel_id, request.version, request.username, request.window_size, request.client_id),
            (CHANNEL, 136, "user", -1, "me"),
        )
        self.assertEqual((session.version, session.factory.server_version), (136, 136))

    def test_version_goes_down_until_the_broker_agrees_with_a_new_channel_each_time(self) -> None:
        broker = ScriptedBroker(version=131)
        broker.topology[0].server_version = 136
        refused = ExceptionResponse(108, "no")
        broker.answers[CreateSessionV2] = lambda packet: refused if packet.version > 131 else None
        world = World(broker)
        call = world.locator.create_session_factory()
        factory = world.finish(call)
        session_call = factory.create_session("user", "password")
        world.network.stir()
        requests = broker.got(CreateSessionV2)
        self.assertEqual([(r.version, r.session_channel_id) for r in requests], [(136 - n, CHANNEL + n) for n in range(6)])
        session_call.addErrback(lambda _: None)
        world.finish(factory.close())

    def test_no_version_suits(self) -> None:
        broker = ScriptedBroker(version=128)
        broker.topology[0].server_version = 130
        broker.answers[CreateSession] = lambda packet: ExceptionResponse(108, "no")
        world = World(broker)
        factory = world.factory()
        error = self.assertRaises(IncompatibleVersionsError, world.session, factory)
        self.assertIn("129 to 136", str(error))
        self.assertFalse(factory.closed)

    def test_old_broker_gets_the_old_packet_and_layout(self) -> None:
        broker = ScriptedBroker(version=130)
        world = World(broker)
        session = world.session()
        self.assertEqual([type(packet) for packet in broker.got(CreateSession)], [CreateSession])
        producer = world.finish(session.create_producer("a"))
        world.finish(producer.send(session.create_message()))
        self.assertEqual(broker.got(CreateProducer), [])
        self.assertEqual([(p.requires_response, p.correlation_id, p.sender_id) for p in broker.got(SessionSend)], [(True, -2, -1)])

    def test_wrong_password_leaves_the_connection_usable(self) -> None:
        broker = ScriptedBroker()
        broker.answers[CreateSessionV2] = lambda packet: ExceptionResponse(105, "AMQ229031: no")
        world = World(broker)
        factory = world.factory()
        self.assertRaises(SecurityError, world.session, factory)
        broker.answers.clear()
        self.assertFalse(world.session(factory).closed)

    def test_broker_without_topology(self) -> None:
        broker = ScriptedBroker()
        broker.silent.add(SubscribeTopologyV2)
        world = World(broker, call_timeout=2000)
        call = world.locator.create_session_factory()
        world.advance(1.9)
        self.assertTrue(pending(call))
        world.advance(0.2)
        self.assertIn("AMQ219013", str(self.assertRaises(ConnectionTimedOutError, world.finish, call)))
        self.assertTrue(world.network.link.closed_by_client)

    def test_all_connectors_are_tried_in_each_round(self) -> None:
        world = World(ScriptedBroker(), ScriptedBroker(), initial_connect_attempts=3, retry_interval=100, retry_interval_multiplier=2.0)
        world.network.brokers.clear()
        call = world.locator.create_session_factory()
        self.assertEqual(world.network.tried, ["61616", "61617"])
        world.advance(0.11)
        self.assertEqual(len(world.network.tried), 4)
        world.advance(0.15)
        self.assertEqual(len(world.network.tried), 4)
        world.advance(0.1)
        self.assertEqual(len(world.network.tried), 6)
        self.assertRaises(NotConnectedError, world.finish, call)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_second_connector_serves_when_the_first_does_not(self) -> None:
        broker = ScriptedBroker()
        world = World(broker, broker)
        del world.network.brokers["61616"]
        factory = world.factory()
        self.assertEqual(dict(factory.connector.parameters)["port"], "61617")

    def test_closing_while_connecting(self) -> None:
        world = World(ScriptedBroker(), initial_connect_attempts=-1)
        world.network.brokers.clear()
        call = world.locator.create_session_factory()
        world.advance(10)
        self.assertTrue(pending(call))
        world.finish(world.locator.close())
        self.assertRaises(ObjectClosedError, world.finish, call)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_bad_settings_are_refused(self) -> None:
        for setting in ({"call_timeout": 0}, {"retry_interval_multiplier": 0.0}, {"compression_level": 10}):
            [name] = setting
            self.assertIn(name, str(self.assertRaises(ValueError, World, ScriptedBroker(), **setting)))
