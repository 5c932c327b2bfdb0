"""Where a factory connects to, and where it goes when that is lost."""

from __future__ import annotations

from mqclient.errors import (
    NotConnectedError,
)
from mqclient.wire.packets import (
    CheckForFailover,
    CheckForFailoverReply,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionV2,
    DisconnectV3,
    ExceptionResponse,
    NullResponse,
)
from tests.support.network import NODE_ID, ScriptedBroker, World, connector
from tests.unit.mqclient.core.connection.test_reconnect import CHANNEL, FailoverTestCase


class WhereToTests(FailoverTestCase):
    """Several brokers."""

    def member(self, node_id: str, primary: int, backup: int | None = None, last: bool = True) -> ClusterTopologyV4:
        return ClusterTopologyV4(
            False,
            node_id,
            1,
            connector(primary, "announced"),
            None if backup is None else connector(backup, "announced-backup"),
            last,
            server_version=136,
        )

    def other(self, port: int) -> ScriptedBroker:
        broker = ScriptedBroker()
        broker._network = self.world.network
        self.world.network.brokers[str(port)] = broker
        return broker

    def test_backup_of_the_topology_takes_over(self) -> None:
        self.start(ha=True)
        backup = self.other(5000)
        self.broker.deliver(0, self.member(NODE_ID, 61616, 5000))
        del self.world.network.brokers["61616"]
        self.cut()
        self.assertEqual(self.world.network.tried, ["61616", "61616", "5000"])
        self.assertEqual([packet.node_id for packet in backup.got(CheckForFailover)], [NODE_ID])
        self.world.finish(self.session.queue_query("q"))

    def test_backup_that_is_not_active_yet_is_tried_again(self) -> None:
        self.start(ha=True)
        backup = self.other(5000)
        backup.answers[CheckForFailover] = lambda packet: CheckForFailoverReply(False)
        self.broker.deliver(0, self.member(NODE_ID, 61616, 5000))
        del self.world.network.brokers["61616"]
        self.cut()
        self.world.advance(0.35)
        self.assertEqual(self.world.network.tried.count("5000"), 4)
        backup.answers.clear()
        self.world.advance(0.1)
        self.world.finish(self.session.queue_query("q"))

    def test_other_members_only_with_failover_attempts(self) -> None:
        for failover_attempts, expected in ((0, ["61616", "61616"]), (1, ["61616", "61616", "7000"])):
            self.start(reconnect_attempts=1, failover_attempts=failover_attempts)
            self.other(7000)
            self.broker.deliver(0, self.member("another", 7000))
            del self.world.network.brokers["61616"]
            self.cut()
            self.world.advance(0.2)
            self.assertEqual(self.world.network.tried, expected)
            self.assertEqual(self.session.closed, failover_attempts == 0)

    def test_given_connectors_are_gone_through_from_the_lost_one_on(self) -> None:
        brokers = [ScriptedBroker() for _ in range(3)]
        settings = {"reconnect_attempts": 0, "failover_attempts": 2, "use_topology_for_load_balancing": False}
        world = World(*brokers, connection_load_balancing_policy_class_name="FirstElement", retry_interval=100, **settings)
        session = world.session(world.factory())
        lost = {port: world.network.brokers.pop(port) for port in ("61616", "61617", "61618")}
        world.network.link.cut()
        world.network.stir()
        self.assertEqual(world.network.tried, ["61616", "61617", "61618", "61616"])
        world.network.brokers["61616"] = lost["61616"]  # it was started again
        world.advance(0.15)
        self.assertEqual(world.network.tried[4:], ["61617", "61618", "61616"])
        world.finish(session.queue_query("q"))

    def test_redirect_is_followed_although_reconnecting_is_off(self) -> None:
        self.start(reconnect_attempts=0)
        target = self.other(9000)
        self.broker.deliver(0, DisconnectV3(NODE_ID, 0, "target", connector(9000)))
        self.world.network.stir()
        self.assertEqual(self.world.network.tried[-1], "9000")
        self.assertEqual(target.names().count("CREATESESSION"), 1)
        self.assertEqual(dict(self.factory.connector.parameters)["port"], "9000")

    def test_redirect_while_a_session_is_created(self) -> None:
        self.start(reconnect_attempts=0)
        self.world.finish(self.session.close())
        self.other(9000)

        def redirect(packet: CreateSession) -> ExceptionResponse:
            self.broker.send(self.world.network.link, 0, DisconnectV3(NODE_ID, 0, "target", connector(9000)))
            return ExceptionResponse(222, "elsewhere")

        self.broker.answers[CreateSessionV2] = redirect
        session = self.world.session(self.factory)
        self.world.finish(session.queue_query("q"))
        self.assertEqual(self.world.network.tried[-1], "9000")

    def test_new_factories_rotate_over_the_topology(self) -> None:
        self.start()
        self.other(7000)
        self.broker.topology = [self.member(NODE_ID, 61616, last=False), self.member("another", 7000)]
        self.broker.deliver(0, self.broker.topology[0])
        self.broker.deliver(0, self.broker.topology[1])
        ports = [dict(self.world.factory().connector.parameters)["port"] for _ in range(4)]
        self.assertEqual(sorted(ports), ["61616", "61616", "7000", "7000"])
        chosen = self.world.finish(self.world.locator.create_session_factory("another"))
        self.assertEqual(dict(chosen.connector.parameters)["port"], "7000")
        self.assertRaises(NotConnectedError, self.world.finish, self.world.locator.create_session_factory("nobody"))

    def test_answer_that_belongs_to_nobody_does_no_harm(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, NullResponse(-5))
        self.world.finish(self.session.queue_query("q"))
