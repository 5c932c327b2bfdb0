"""Addresses and queues that are made, changed and deleted."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition
from mqclient.errors import (
    AddressDoesNotExistError,
    IllegalStateError,
    InvalidFilterExpressionError,
    InvalidTransientQueueUseError,
    QueueExistsError,
)
from tests.unit.messaging.support import Bench, Collector


class AdministrationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench({"closed": {"auto_create_addresses": False, "auto_create_queues": False}})
        self.administration = self.bench.messaging.administration

    def _auto(self, address: str, routing_type: int | None, queue: str | None = None) -> None:
        self.administration.auto_create_for_send(address, routing_type, queue, lambda *permission: None)

    def test_a_queue_name_is_unique_in_the_broker(self) -> None:
        self.bench.queue("q", "a")
        with self.assertRaises(QueueExistsError):
            self.bench.queue("q", "b")

    def test_sending_creates_what_the_routing_type_needs(self) -> None:
        self._auto("work", 1)
        self._auto("news", 0)
        self._auto("nothing", None)
        self.assertTrue(self.bench.core.queues["work"].definition.auto_created)
        self.assertEqual(set(self.bench.core.addresses), {"work", "news"})
        self.assertEqual(set(self.bench.core.queues), {"work"})

    def test_nothing_is_created_where_it_is_forbidden(self) -> None:
        with self.assertRaises(AddressDoesNotExistError):
            self._auto("closed", 1)

    def test_a_missing_permission_stops_auto_creation(self) -> None:
        def refuse(permission: str, address: str, queue: str | None) -> None:
            raise IllegalStateError(permission)

        with self.assertRaises(IllegalStateError):
            self.administration.auto_create_for_send("work", 1, None, refuse)
        self.assertEqual(self.bench.core.addresses, {})

    def test_a_shared_queue_must_be_the_same(self) -> None:
        first = QueueConfiguration(name="s", address="news", routing_type=0, filter_string="a = 1")
        queue = self.bench.messaging.definitions.create_shared_queue(first)
        self.assertIs(self.bench.messaging.definitions.create_shared_queue(first), queue)
        with self.assertRaises(InvalidTransientQueueUseError):
            self.bench.messaging.definitions.create_shared_queue(QueueConfiguration(name="s", address="other", filter_string="a = 1"))
        with self.assertRaises(InvalidTransientQueueUseError):
            self.bench.messaging.definitions.create_shared_queue(QueueConfiguration(name="s", address="news", filter_string="a = 2"))

    def test_a_queue_with_consumers_is_not_deleted(self) -> None:
        queue = self.bench.queue("q")
        consumer = Collector(self.bench, queue)
        with self.assertRaises(IllegalStateError):
            self.administration.delete_queue(queue)
        consumer.leave()
        self.administration.delete_queue(queue)
        self.assertEqual(self.bench.core.queues, {})

    def test_a_dropped_routing_type_must_have_no_queues(self) -> None:
        self.bench.queue("q", "a", 1)
        with self.assertRaises(IllegalStateError):
            self.administration.create_address("a", (0,))

    def test_an_address_may_change_hands(self) -> None:
        """An administrator defines what was created automatically, and gives it up again; both is kept."""
        self._auto("news", 0)
        address = self.bench.core.addresses["news"]
        before = len(self.bench.store.entries("address"))
        self.administration.claim_address(address, frozenset((0,)))
        self.assertFalse(address.auto_created)
        self.administration.claim_address(address, frozenset((0,)))
        self.administration.leave_address(address)
        self.assertTrue(address.auto_created)
        self.assertEqual(len(self.bench.store.entries("address")), before + 2)

    def test_a_queue_by_its_whole_definition(self) -> None:
        wanted = QueueDefinition("q", "a", 1, max_consumers=3, user="somebody")
        queue = self.administration.define_queue(wanted)
        self.assertEqual((queue.definition, queue.address.routing_types), (wanted, frozenset((1,))))
        self.assertEqual(self.bench.store.entries("queue"), [("queue", "q")])
        with self.assertRaises(InvalidFilterExpressionError):
            self.administration.define_queue(QueueDefinition("r", "a", 1, "a = "))
        self.assertNotIn("r", self.bench.core.queues)


class AutomaticSettingsTests(SynchronousTestCase):
    """Settings of addresses that are created because somebody uses them."""

    def setUp(self) -> None:
        automatic = {ANYCAST: {"max_size_messages": 3, "default_max_consumers": 2}, MULTICAST: {"max_size_messages": 4}}
        settings = {"#": {"max_size_messages": 9}, "special": {"max_size_messages": 1}}
        self.bench = Bench(settings, automatic_settings=automatic)
        self.administration = self.bench.messaging.administration

    def use(self, address: str, kind: int) -> Address:
        self.administration.auto_create_for_send(address, kind, None, lambda *permission: None)
        found: Address = self.bench.core.addresses[address]
        return found

    def limits(self, address: Address) -> tuple[int, int]:
        """By the address, and by its account."""
        return address.settings.max_size_messages, address.memory.settings.max_size_messages

    def test_each_kind_has_its_own(self) -> None:
        self.assertEqual(self.limits(self.use("work", ANYCAST)), (3, 3))
        self.assertEqual(self.limits(self.use("news", MULTICAST)), (4, 4))
        self.assertEqual(self.bench.core.queues["work"].definition.max_consumers, 2)
        self.assertEqual(self.bench.queue("reader", "news", MULTICAST).definition.max_consumers, -1)

    def test_what_is_more_specific_comes_first(self) -> None:
        self.assertEqual(self.limits(self.use("special", ANYCAST)), (1, 1))

    def test_others_do_not_have_them(self) -> None:
        own = self.bench.queue("own")
        address = self.administration.create_address("defined", (ANYCAST,))
        temporary = self.bench.queue("temporary", temporary=True, auto_created=True)
        for each in (own.address, address, temporary.address):
            self.assertEqual(self.limits(each), (9, 9))
        self.assertEqual((temporary.definition.max_consumers, own.definition.max_consumers), (-1, -1))

    def test_the_limit_of_a_client_that_knows_none_is_that_of_the_broker(self) -> None:
        for given, expected in ((-1, 2), (None, 2), (1, 1), (5, 5)):
            made = self.bench.queue(f"work {given}", auto_created=True, max_consumers=given)
            self.assertEqual(made.definition.max_consumers, expected)
        self.assertEqual(self.bench.queue("own", max_consumers=-1).definition.max_consumers, -1)

    def test_an_address_that_an_administrator_claims_is_his(self) -> None:
        address = self.use("news", MULTICAST)
        self.administration.claim_address(address, frozenset((MULTICAST,)))
        self.assertEqual(self.limits(address), (9, 9))
        self.administration.leave_address(address)
        self.assertEqual(self.limits(address), (4, 4))
        self.administration.update_address(address, frozenset((ANYCAST,)))
        self.assertEqual(self.limits(address), (3, 3))

    def test_they_stay_when_other_settings_change(self) -> None:
        address = self.use("work", ANYCAST)
        self.bench.core.settings.set("work", {"redelivery_delay": 5})
        self.bench.core.apply_settings()
        self.assertEqual((self.limits(address), address.settings.redelivery_delay), ((3, 3), 5))
        self.assertEqual(self.bench.core.settings_of("work").max_size_messages, 3)
