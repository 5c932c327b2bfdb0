"""What is asked and created on the broker before a destination is used."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import ClientSession, QueueConfiguration
from mqclient.errors import QueueExistsError
from mqclient.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from mqclient.jms.exceptions import IllegalStateException, InvalidDestinationException
from mqclient.jms.lookup import PREPARED_MAX, Lookup

ANYCAST, MULTICAST = 1, 0


class FakeBroker:
    """A session that answers queries from tables and notes what is created."""

    def __init__(self) -> None:
        self.addresses: dict[str, Any] = {}
        self.queues: dict[str, Any] = {}
        self.done: list[Any] = []
        self.auto_queues = self.auto_addresses = True
        self.race = False

    def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
        coroutine = function(*args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("the fake never waits")

    async def address_query(self, name: str) -> Any:
        self.done.append(("address?", name))
        known = self.addresses.get(name)
        return SimpleNamespace(
            exists=known is not None,
            queue_names=() if known is None else known["queues"],
            supports_anycast=known is not None and ANYCAST in known["types"],
            supports_multicast=known is not None and MULTICAST in known["types"],
            auto_create_queues=self.auto_queues,
            auto_create_addresses=self.auto_addresses,
            default_max_consumers=7,
            default_purge_on_no_consumers=True,
        )

    async def queue_query(self, name: str) -> Any:
        self.done.append(("queue?", name))
        known = self.queues.get(name.rpartition("::")[2])
        if known is None:
            return SimpleNamespace(exists=False, routing_type=0, auto_create_queues=self.auto_queues)
        return SimpleNamespace(**{"exists": True, "consumer_count": 0, "filter_string": None, "configuration_managed": None, **known})

    async def create_address(self, name: str, routing_types: list[int], auto_created: bool) -> None:
        self.done.append(("address", name, routing_types, auto_created))

    async def create_queue(self, wanted: QueueConfiguration) -> None:
        self.done.append(("queue", wanted))
        if self.race:
            raise QueueExistsError("another client was faster")

    async def create_shared_queue(self, wanted: QueueConfiguration) -> None:
        self.done.append(("shared", wanted))

    async def delete_queue(self, name: str) -> None:
        self.done.append(("delete", name))


class LookupCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = FakeBroker()
        self.lookup = Lookup(self.broker.run, cast(ClientSession, self.broker))

    def have(self, name: str, *types: int, queues: tuple[str, ...] = ()) -> None:
        self.broker.addresses[name] = {"types": types, "queues": queues}

    def created(self) -> list[QueueConfiguration]:
        return [entry[1] for entry in self.broker.done if entry[0] in ("queue", "shared")]


class SendTests(LookupCase):
    def test_a_new_queue(self) -> None:
        """The order and the arguments are those of the Java client."""
        self.lookup.prepare_send(Queue("q"))
        wanted = QueueConfiguration(
            name="q", address="q", routing_type=ANYCAST, auto_created=True, max_consumers=7, purge_on_no_consumers=True
        )
        self.assertEqual(self.broker.done, [("address?", "q"), ("address", "q", [ANYCAST], True), ("queue?", "q"), ("queue", wanted)])
        self.lookup.prepare_send(Queue("q"))
        self.assertEqual(len(self.broker.done), 4)

    def test_a_queue_that_is_there(self) -> None:
        self.have("q", ANYCAST, queues=("q",))
        self.broker.queues["q"] = {"routing_type": ANYCAST}
        self.lookup.prepare_send(Queue("q"))
        self.assertEqual(self.broker.done, [("address?", "q"), ("queue?", "q")])

    def test_another_client_is_faster(self) -> None:
        self.broker.race = True
        self.lookup.prepare_send(Queue("q"))

    def test_a_new_topic(self) -> None:
        self.lookup.prepare_send(Topic("t"))
        self.assertEqual(self.broker.done, [("address?", "t"), ("address", "t", [MULTICAST], True)])

    def test_refusals(self) -> None:
        self.have("topic", MULTICAST)
        self.have("queue", ANYCAST)
        refused: list[tuple[bool, bool, Destination]] = [
            (True, True, Queue("topic")),
            (True, True, Topic("queue")),
            (False, True, Queue("new")),
            (True, False, Queue("new")),
            (True, False, Topic("new")),
            (False, True, Queue("queue")),
            (True, True, TemporaryQueue("gone")),
            (True, True, TemporaryTopic("gone")),
        ]
        for queues, addresses, destination in refused:
            self.broker.auto_queues, self.broker.auto_addresses = queues, addresses
            with self.assertRaises(InvalidDestinationException, msg=str(destination)):
                self.lookup.prepare_send(destination)
        self.assertEqual(self.created(), [])

    def test_a_destination_of_unknown_kind_is_not_asked_for(self) -> None:
        self.lookup.prepare_send(Destination("somewhere"))
        self.assertEqual(self.broker.done, [])

    def test_what_is_remembered_is_bounded(self) -> None:
        for number in range(PREPARED_MAX + 1):
            self.lookup.prepare_send(Topic(f"t{number}"))
        self.assertLessEqual(len(self.lookup._prepared), PREPARED_MAX)


class ConsumerTests(LookupCase):
    def test_a_new_queue_is_created_without_its_address(self) -> None:
        self.assertEqual(self.lookup.prepare_queue_consumer(Queue("q?max-consumers=2")), "q")
        self.assertEqual([kind for kind, *_ in self.broker.done], ["address?", "queue"])
        self.assertEqual((self.created()[0].max_consumers, self.created()[0].auto_created), (2, True))

    def test_a_queue_that_is_there(self) -> None:
        self.have("q", ANYCAST, queues=("q",))
        self.broker.queues["q"] = {"routing_type": ANYCAST}
        self.lookup.prepare_queue_consumer(Queue("q"))
        self.assertEqual(self.created(), [])

    def test_a_queue_of_a_topic(self) -> None:
        self.have("t", MULTICAST, queues=("t", "sub"))
        self.broker.queues["t"] = self.broker.queues["sub"] = {"routing_type": MULTICAST}
        self.assertRaises(InvalidDestinationException, self.lookup.prepare_queue_consumer, Queue("t"))
        self.assertEqual(self.lookup.prepare_queue_consumer(Queue("t::sub")), "sub")

    def test_a_missing_queue(self) -> None:
        self.broker.auto_queues = False
        self.assertRaises(InvalidDestinationException, self.lookup.prepare_queue_consumer, Queue("q"))
        self.assertRaises(InvalidDestinationException, self.lookup.prepare_browser, Queue("q"))
        self.assertRaises(InvalidDestinationException, self.lookup.prepare_queue_consumer, TemporaryQueue("gone"))


class SubscriptionTests(LookupCase):
    def existing(self, **fields: Any) -> None:
        self.broker.queues["c.s"] = {"address": "t", "routing_type": MULTICAST, **fields}

    def test_a_new_durable_subscription(self) -> None:
        self.lookup.durable_subscription(Topic("t"), "c.s", "a = 1")
        self.assertEqual(
            self.created(),
            [
                QueueConfiguration(
                    name="c.s",
                    address="t",
                    routing_type=MULTICAST,
                    filter_string="a = 1",
                    max_consumers=-1,
                    purge_on_no_consumers=False,
                )
            ],
        )

    def test_resuming(self) -> None:
        self.existing(filter_string="")
        self.lookup.durable_subscription(Topic("t"), "c.s", None)
        self.assertEqual(self.created(), [])

    def test_in_use(self) -> None:
        self.existing(consumer_count=1)
        self.assertRaises(IllegalStateException, self.lookup.durable_subscription, Topic("t"), "c.s", None)

    def test_another_selector_or_topic_makes_it_anew(self) -> None:
        self.existing()
        for topic, filter in [("t", "a = 1"), ("other", None)]:
            self.broker.done.clear()
            self.lookup.durable_subscription(Topic(topic), "c.s", filter)
            self.assertEqual([kind for kind, *_ in self.broker.done], ["queue?", "delete", "queue"])

    def test_what_the_configuration_manages_stays(self) -> None:
        self.existing(configuration_managed=True)
        self.lookup.durable_subscription(Topic("t"), "c.s", "a = 1")
        self.assertEqual(self.broker.done, [("queue?", "c.s")])

    def test_shared(self) -> None:
        self.lookup.shared_subscription(Topic("t"), "c.s", None, durable=False)
        self.assertEqual([kind for kind, *_ in self.broker.done], ["address?", "queue?", "shared"])
        self.existing()
        self.broker.done.clear()
        self.lookup.shared_subscription(Topic("t"), "c.s", None, durable=True)
        self.assertEqual(self.created(), [])
        self.lookup.shared_subscription(Topic("t"), "c.s", "a = 1", durable=True)
        self.assertEqual(self.created()[0].filter_string, "a = 1")
        self.broker.auto_addresses = False
        with self.assertRaises(InvalidDestinationException):
            self.lookup.shared_subscription(Topic("t"), "c.s", None, durable=True)
