"""What an operator of a program reads in its log: connections that are lost and come back, sends that wait."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.factories.locator import Locator
from tests.support.network import ScriptedBroker, World, connector


class ConnectionTests(SynchronousTestCase):
    def start(self, **settings: Any) -> None:
        self.world = World(ScriptedBroker(), **settings)
        self.factory = self.world.factory()
        self.world.session(self.factory)

    def test_one_line_when_it_is_lost_and_one_when_it_is_back(self) -> None:
        self.start(reconnect_attempts=-1)
        brokers = self.world.network.brokers
        broker = brokers.pop("61616")
        self.world.network.link.cut("the cable")
        self.world.advance(10)
        [line] = self.world.runtime.warnings
        self.assertIn("the connection to broker:61616 was lost: the cable; the client connects again", line)
        brokers["61616"] = broker
        self.world.advance(10)
        self.assertEqual(self.world.runtime.warnings[1:], ["connected again, to broker:61616"])

    def test_one_line_when_it_is_lost_for_good(self) -> None:
        self.start()
        self.world.network.link.cut("the cable")
        [line] = self.world.runtime.warnings
        self.assertIn("the connection to broker:61616 was lost: the cable; its sessions are closed", line)

    def test_one_more_when_no_attempt_has_helped(self) -> None:
        self.start(reconnect_attempts=2)
        self.world.network.brokers.clear()
        self.world.network.link.cut("the cable")
        self.world.advance(10)
        self.assertEqual(len(self.world.runtime.warnings), 2)
        self.assertIn("its sessions are closed (nobody listens on 61616)", self.world.runtime.warnings[1])

    def test_nothing_when_it_is_closed(self) -> None:
        self.start(reconnect_attempts=-1)
        self.world.finish(self.world.locator.close())
        self.assertEqual(self.world.runtime.warnings, [])

    def test_nothing_by_the_client_where_the_owner_of_a_link_tells(self) -> None:
        self.start()
        self.world.locator = Locator(self.world.runtime, [connector()], follow=False)
        self.world.session()
        self.world.network.link.cut()
        self.assertEqual(self.world.runtime.warnings, [])
