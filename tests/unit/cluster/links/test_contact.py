"""The connection by which a broker gets into its cluster, and the scanner for those that nobody told of."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.contact import Contact
from mqclient.core.api import LocatorSettings
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.protocol.retry import RetryPlan
from mqclient.wire.primitives import TransportConfiguration
from tests.support.network import ScriptedBroker, World, connector


class ContactTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker)
        self.places = [connector(1), connector()]
        self.made: list[SessionFactory] = []
        self.contact = Contact(
            self.world.runtime,
            lambda: self.places,
            self.locator,
            RetryPlan(500, 2, 2000, -1),
            self.made.append,
        )

    def locator(self, places: Sequence[TransportConfiguration]) -> Locator:
        policy = "org.apache.activemq.artemis.api.core.client.loadbalance.FirstElementConnectionLoadBalancingPolicy"
        return Locator(self.world.runtime, places, LocatorSettings(connection_load_balancing_policy_class_name=policy))

    def start(self) -> None:
        self.contact.start()
        self.world.network.stir()

    def tearDown(self) -> None:
        self.contact.stop()
        self.world.network.stir()
        self.assertEqual(self.world.runtime.failures, [])

    def test_the_first_that_answers_serves(self) -> None:
        self.start()
        self.assertEqual(self.world.network.tried, ["1", "61616"])
        self.assertEqual(len(self.made), 1)
        self.assertEqual(self.contact.connector, connector())

    def test_tried_without_end_with_growing_pauses(self) -> None:
        self.places = [connector(1)]
        self.start()
        for seconds, tries in ((0.6, 2), (1.0, 3), (2.1, 4), (2.1, 5)):
            self.world.advance(seconds)
            self.assertEqual(len(self.world.network.tried), tries)
        self.assertEqual(self.made, [])
        self.assertIsNone(self.contact.connector)

    def test_made_again_after_a_loss(self) -> None:
        self.start()
        self.world.network.link.cut()
        self.assertIsNone(self.contact.connector)
        self.world.advance(0.6)
        self.assertEqual(len(self.made), 2)

    def test_a_failure_of_who_is_told_is_no_reason_to_stay_alone(self) -> None:
        failures = [RuntimeError("a defect")]

        def fail_once(factory: SessionFactory) -> None:
            self.made.append(factory)
            if failures:
                raise failures.pop()

        self.contact = Contact(self.world.runtime, lambda: self.places, self.locator, RetryPlan(500, 2, 2000, -1), fail_once)
        self.start()
        self.assertTrue(self.world.network.link.closed_by_client)
        self.world.advance(0.6)
        self.assertEqual(len(self.made), 2)
        self.assertEqual(self.contact.connector, connector())
        self.assertEqual([str(failure) for failure in self.world.runtime.failures], ["a defect"])
        self.world.runtime.failures.clear()

    def test_nowhere_to_go_until_something_is_found(self) -> None:
        self.places = []
        self.start()
        self.world.advance(0.1)
        self.assertEqual(self.world.network.tried, [])
        self.places = [connector()]
        self.contact.connectors_changed()
        self.world.network.stir()
        self.assertEqual(len(self.made), 1)

    def test_stopped_while_connected(self) -> None:
        self.start()
        self.contact.stop()
        self.world.network.stir()
        self.assertTrue(self.world.network.link.closed_by_client)
        self.world.advance(10)
        self.assertEqual(len(self.world.network.links), 1)

    def test_stopped_while_connecting(self) -> None:
        self.contact.start()
        self.contact.stop()
        self.world.network.stir()
        self.world.advance(10)
        self.assertEqual(self.made, [])
        self.assertTrue(self.world.network.link.closed_by_client)

    def test_stopped_while_it_waits(self) -> None:
        self.places = [connector(1)]
        self.start()
        self.contact.stop()
        self.world.advance(10)
        self.assertEqual(self.world.network.tried, ["1"])
