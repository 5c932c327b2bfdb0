"""Queues that the configuration names, at a start on what is there already."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration
from tests.unit.messaging.support import Bench


class DeployTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.told: list[str] = []

    def deploy(self, *queues: QueueConfiguration, name: str = "a", types: tuple[int, ...] = (1,)) -> list[str]:
        address = AddressConfiguration(name, routing_types=types, queues=queues)
        problems: list[str] = []
        self.bench.messaging.deploy([address], self.told.append, problems.append)
        return problems

    def configured(self, **attributes: Any) -> QueueConfiguration:
        return QueueConfiguration("q", address="a", routing_type=1, configuration_managed=True, **attributes)

    def test_what_is_missing_is_made_and_told(self) -> None:
        self.assertEqual(self.deploy(self.configured()), [])
        self.assertEqual(
            self.told,
            [
                "AMQ221080: Deploying address a supporting [ANYCAST]",
                "AMQ221003: Deploying ANYCAST queue q on address a",
            ],
        )

    def test_a_queue_that_is_there_gets_what_may_change(self) -> None:
        self.deploy(self.configured())
        self.assertEqual(self.deploy(self.configured(max_consumers=3, filter_string="b = 1")), [])
        queue = self.bench.core.queues["q"]
        self.assertEqual((queue.definition.max_consumers, queue.filter.text), (3, "b = 1"))

    def test_what_cannot_change_stays_and_is_told(self) -> None:
        self.deploy(self.configured())
        problems = self.deploy(self.configured(durable=False, non_destructive=True, last_value=True))
        self.assertEqual(len(problems), 3)
        self.assertIn("was created as durable", problems[0])
        definition = self.bench.core.queues["q"].definition
        self.assertEqual((definition.durable, definition.non_destructive, definition.last_value), (True, False, False))

    def test_a_queue_on_another_address_is_left_alone_and_told(self) -> None:
        self.bench.queue("q", "other")
        (problem,) = self.deploy(self.configured())
        self.assertIn("queue q exists on address other", problem)

    def test_an_address_keeps_the_routing_types_that_its_queues_need(self) -> None:
        self.bench.queue("m", "a", routing_type=0)
        self.deploy()
        self.assertEqual(self.bench.core.addresses["a"].routing_types, {0, 1})


class StopTests(SynchronousTestCase):
    def test_nothing_goes_on_after_the_end(self) -> None:
        bench = Bench(disk_space=list, max_disk_usage=90)
        bench.messaging.start()
        self.assertGreater(bench.clock.pending, 0)
        bench.messaging.stop()
        self.assertEqual(bench.clock.pending, 0)
