"""Where a client connects to, and with what topology it goes on."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.factories.locator import CONFIRMATION_SECONDS
from mqclient.wire.packets import (
    ClusterTopologyV4,
)
from tests.support.network import NODE_ID, ScriptedBroker, World, connector


class TopologyAfterReconnectTests(SynchronousTestCase):
    """What a client has missed while it was not connected."""

    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, ha=True, reconnect_attempts=-1, retry_interval=100)

    def announce(self, *others: str, event: int = 5) -> None:
        """What the broker tells a new connection, beside itself."""
        own = ClusterTopologyV4(False, NODE_ID, 5, primary=connector(), last=not others)
        self.broker.topology = [own]
        for node_id in others:
            packet = ClusterTopologyV4(False, node_id, event, primary=connector(61700), last=node_id == others[-1])
            self.broker.topology.append(packet)

    def reconnect(self) -> None:
        self.world.network.link.cut()
        self.world.advance(1)

    def known(self) -> list[str]:
        return [member.node_id for member in self.world.locator.topology]

    def test_a_member_of_which_nobody_tells_any_more_is_dropped(self) -> None:
        self.announce("a", "b")
        self.world.session()
        self.announce("a")
        self.reconnect()
        self.assertEqual(self.known(), [NODE_ID, "a", "b"])  # the broker may still be looking for it
        self.world.advance(CONFIRMATION_SECONDS)
        self.assertEqual(self.known(), [NODE_ID, "a"])

    def test_a_departure_of_which_the_broker_does_not_know_counts_no_more(self) -> None:
        self.announce("a")
        self.world.session()
        self.world.locator.topology.down("a", 100)
        self.reconnect()
        self.assertEqual(self.known(), [NODE_ID, "a"])

    def test_a_member_that_was_dropped_may_come_back_with_a_clock_that_is_behind(self) -> None:
        self.announce("a", event=100)
        self.world.session()
        self.announce()
        self.reconnect()
        self.world.advance(CONFIRMATION_SECONDS)
        self.assertEqual(self.known(), [NODE_ID])
        self.world.locator.topology_received(ClusterTopologyV4(False, "a", 50, primary=connector(61700)), connector())
        self.assertEqual(self.known(), [NODE_ID, "a"])

    def test_a_locator_that_is_closed_waits_for_nothing(self) -> None:
        self.announce("a")
        self.world.session()
        self.reconnect()
        self.world.finish(self.world.locator.close())
        self.assertEqual(self.world.clock.getDelayedCalls(), [])
