"""Addresses as the bindings keep them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.ports import AddressRecord
from tests.unit.messaging.support import Bench


class AddressTests(SynchronousTestCase):
    def test_the_bindings_keep_the_name_the_routing_types_and_whether_it_goes_by_itself(self) -> None:
        administration = Bench().messaging.administration
        address = administration.create_address("a", frozenset((0, 1)), auto_created=True)
        self.assertEqual(address.record(), AddressRecord(address.address_id, "a", frozenset((0, 1)), True))

    def test_a_new_address_has_neither_queues_nor_messages(self) -> None:
        address = Bench().messaging.administration.create_address("a", frozenset((1,)))
        self.assertEqual((address.queues, address.routed_messages, address.unrouted_messages, address.paused), ([], 0, 0, False))
