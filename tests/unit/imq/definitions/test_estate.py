"""What of the data of another broker counts no more."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.definitions.estate import ended_since
from mqbroker.messaging.administration.registrar import Ended
from mqbroker.messaging.ports import AddressRecord, QueueRecord, Recovered
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition
from tests.support.broker import World
from tests.unit.imq.record.test_followed import followed


class EstateTests(SynchronousTestCase):
    """The other broker has followed the record up to 5, and this one up to 9."""

    def setUp(self) -> None:
        self.world = World()
        self.own, self.other = followed("g", 9, sub=7), followed("g", 5, sub=3, other=4)
        self.found = Recovered()

    def here(self, name: str, address: str = "a") -> None:
        self.world.messaging.administration.define_queue(QueueDefinition(name, address, MULTICAST))

    def there(self, number: int, name: str, address: str = "a", **attributes: bool) -> None:
        self.found.queues.append(QueueRecord(number, name, address, MULTICAST, None, {**attributes}))

    def ended(self) -> Ended:
        return ended_since(self.own, self.other, self.found, self.world.messaging.core)

    def test_a_queue_that_was_made_anew_is_another_one(self) -> None:
        for number, name in enumerate(("sub", "other"), 1):
            self.here(name)
            self.there(number, name)
        self.assertEqual(self.ended(), Ended({1}, set()))

    def test_a_queue_that_is_missing_was_deleted(self) -> None:
        self.there(1, "sub")
        self.assertEqual(self.ended(), Ended({1}, set()))

    def test_one_that_has_never_come_on_record_stays_with_its_address(self) -> None:
        """A wish may have been refused, or the broker may have died before the answer."""
        self.found.addresses.append(AddressRecord(1, "a", frozenset((MULTICAST,))))
        self.there(2, "unrecorded")
        self.assertEqual(self.ended(), Ended(set(), set()))

    def test_one_that_was_put_on_record_later_is_the_same_one(self) -> None:
        """Both brokers have it in their files, and the lost one has not heard that it is on record."""
        self.other = followed("g", 5)
        self.here("sub")
        self.there(1, "sub")
        self.assertEqual(self.ended(), Ended(set(), set()))

    def test_what_no_record_has_stays(self) -> None:
        self.there(1, "automatic", auto_created=True)
        self.there(2, "passing", auto_delete=True)
        self.assertEqual(self.ended(), Ended(set(), set()))

    def test_an_address_goes_with_the_last_of_its_queues(self) -> None:
        self.found.addresses += [AddressRecord(number, name, frozenset((MULTICAST,))) for number, name in enumerate("abc", 1)]
        self.there(4, "sub")
        self.there(5, "other", "b")
        self.there(6, "automatic", "b", auto_created=True)
        self.assertEqual(self.ended(), Ended({4, 5}, {"a"}))

    def test_dead_letters_stay(self) -> None:
        self.world.messaging.core.settings.set("orders", {"dead_letter_address": "dead"})
        self.other = followed("g", 5, dead=2)
        self.found.addresses += [AddressRecord(1, "dead", frozenset((ANYCAST,))), AddressRecord(3, "orders", frozenset((ANYCAST,)))]
        self.there(2, "dead", "dead")
        self.assertEqual(self.ended(), Ended(set(), set()))

    def test_nobody_can_say_so_of_another_record(self) -> None:
        self.there(1, "sub")
        nothing = followed(None, 0)
        for own, other in ((self.own, followed("h", 1)), (nothing, self.other), (self.own, nothing), (self.other, self.own)):
            self.own, self.other = own, other
            self.assertEqual(self.ended(), Ended())
