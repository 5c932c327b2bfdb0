"""Queues of the configuration that are there already, from an earlier start."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration
from tests.unit.messaging.support import Bench, Collector


class DeployedQueueTests(SynchronousTestCase):
    def deploy(self, bench: Bench, **attributes: bool) -> list[str]:
        queue = QueueConfiguration(name="q", address="q", routing_type=1, configuration_managed=True, **attributes)
        problems: list[str] = []
        bench.messaging.deploy([AddressConfiguration("q", frozenset({1}), [queue])], warn=problems.append)
        return problems

    def test_a_durable_queue_stays_durable_as_long_as_it_is_there(self) -> None:
        """Its messages are stored: acknowledgements that were not would bring them back at every start."""
        bench = Bench()
        queue = bench.queue("q")
        bench.send(b"1")
        (problem,) = self.deploy(bench, durable=False)
        self.assertIn("queue q was created as durable", problem)
        consumer = Collector(bench, queue)
        bench.messaging.settlement.acknowledge(consumer.references)
        message_id = consumer.references[0].message.message_id
        self.assertEqual(bench.store.entries("ack"), [("ack", queue.queue_id, message_id)])

    def test_other_attributes_are_brought_up_to_date(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        self.assertEqual(self.deploy(bench, purge_on_no_consumers=True, durable=False)[1:], [])
        self.assertTrue(queue.definition.purge_on_no_consumers)
        self.assertEqual(self.deploy(bench, purge_on_no_consumers=False), [])
        self.assertFalse(queue.definition.purge_on_no_consumers)
