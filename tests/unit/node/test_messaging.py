"""The messaging core of a broker, put on what its store has kept and its configuration says."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Recovered
from mqbroker.node.messaging import messaging_of
from mqbroker.node.parts import StartError
from tests.support.clock import FakeClock
from tests.support.held_store import HeldStore


class MessagingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()

    def made(self, memory: int = -1, **options: Any) -> Messaging:
        store: Any = HeldStore()
        return messaging_of(Configuration(**options), store, Recovered(), self.clock, lambda: 0.5, memory_default=lambda: memory)

    def test_the_default_of_the_memory_holds_only_where_the_configuration_says_nothing(self) -> None:
        self.assertEqual(self.made(memory=500).core.options.global_max_size, 500)
        self.assertEqual(self.made(memory=500, global_max_size=70).core.options.global_max_size, 70)

    def test_what_the_configuration_names_is_there(self) -> None:
        queue = QueueConfiguration("q", address="a", routing_type=1)
        core = self.made(addresses=(AddressConfiguration("a", routing_types=(1,), queues=(queue,)),)).core
        self.assertEqual((list(core.addresses), list(core.queues)), (["a"], ["q"]))

    def test_a_divert_that_cannot_be_stops_the_start_and_leaves_no_timer(self) -> None:
        divert = DivertConfiguration("d", "a", ("b",), transformer=TransformerConfiguration("no.such.module:Thing"))
        error = self.assertRaises(StartError, self.made, diverts=(divert,))
        self.assertIn("divert d", str(error))
        self.assertEqual(self.clock.pending, 0)
