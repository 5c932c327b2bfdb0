"""The judge of message groups: closed groups may change hands, others may not."""

from __future__ import annotations

from tests.simulation import groups
from tests.unit.messaging.queues.test_groups import GroupTestCase

TWO = ["g of q is served by two consumers at a time"]


class GroupJudgeTests(GroupTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(groups.judged())
        self.start()
        self.first, self.second = self.consumer(), self.consumer()

    def problems(self) -> list[str]:
        return list(groups.group_problems(self.queue))

    def lose_the_owner(self) -> None:
        """A fault: the next message of the group goes to the other consumer."""
        self.queue.groups.reset()

    def test_one_consumer_holds_the_group(self) -> None:
        self.publish("a", "g")
        self.publish("b", "g")
        self.assertEqual(self.problems(), [])

    def test_a_closed_group_goes_on_elsewhere_before_the_acknowledgement(self) -> None:
        self.publish("a", "g")
        self.publish("b", "g", -1)
        self.publish("c", "g")
        self.assertEqual((self.got(self.first), self.got(self.second)), ("ab", "c"))
        self.assertEqual(self.problems(), [])

    def test_a_group_that_was_not_closed_stays(self) -> None:
        self.publish("a", "g")
        self.lose_the_owner()
        self.publish("b", "g")
        self.assertEqual((self.got(self.first), self.got(self.second)), ("a", "b"))
        self.assertEqual(self.problems(), TWO)

    def test_the_end_of_the_group_belongs_to_its_consumer_too(self) -> None:
        self.publish("a", "g")
        self.lose_the_owner()
        self.publish("b", "g", -1)
        self.assertEqual((self.got(self.first), self.got(self.second)), ("a", "b"))
        self.assertEqual(self.problems(), TWO)

    def test_only_the_group_that_was_closed_may_change_hands(self) -> None:
        self.publish("a", "g")
        self.publish("b", "g", -1)
        self.publish("c", "g")
        self.lose_the_owner()
        self.publish("d", "g")
        self.assertEqual((self.got(self.first), self.got(self.second)), ("abd", "c"))
        self.assertEqual(self.problems(), TWO)

    def test_a_closed_group_sets_its_whole_bucket_free(self) -> None:
        self.start(group_buckets=1)
        self.first, self.second = self.consumer(), self.consumer()
        self.publish("a", "g")
        self.publish("b", "h", -1)
        self.publish("c", "g")
        self.assertEqual((self.got(self.first), self.got(self.second)), ("ab", "c"))
        self.assertEqual(self.problems(), [])
        self.lose_the_owner()
        self.publish("d", "h")
        self.assertEqual(self.problems(), ["bucket 0 of q is served by two consumers at a time"])

    def test_messages_without_a_group_are_anybodys(self) -> None:
        self.publish("a", "h")
        self.publish("b")
        self.publish("c")
        self.assertEqual(self.problems(), [])
