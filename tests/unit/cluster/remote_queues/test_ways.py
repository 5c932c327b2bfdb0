"""The ways to the queues of a member."""

from __future__ import annotations

from unittest import TestCase

from tests.unit.cluster.flow_support import OTHER, PEER, Network, binding, consumer
from tests.unit.cluster.remote_queues.test_flow import connect


class WaysTests(TestCase):
    """The same queue known by two members."""

    def setUp(self) -> None:
        self.network = Network(max_hops=3)
        self.far = connect(self.network.flow(OTHER))
        self.near = connect(self.network.flow(PEER))

    def hops(self) -> int:
        return self.network.bound["q" + PEER].distance

    def test_the_shorter_way_is_used_whichever_comes_first(self) -> None:
        self.far.handle(binding(distance=1, remote_id=50))
        self.assertEqual(self.hops(), 2)
        self.near.handle(binding())
        self.assertEqual(self.hops(), 1)
        self.assertEqual(self.network.core.told, ["+q 2", "-q 2", "+q 1"])
        self.assertEqual(self.network.refused, [])

    def test_messages_take_the_other_way_while_one_is_cut(self) -> None:
        self.near.handle(binding())
        self.far.handle(binding(distance=1, remote_id=50))
        self.far.handle(consumer("CREATED", distance=1))
        self.assertEqual(self.hops(), 1)
        self.near.disconnected()
        self.assertEqual(self.hops(), 2)
        self.assertEqual([each.consumer_count for each in self.network.switched], [1])
        connect(self.near)
        self.near.handle(binding())
        self.assertEqual(self.hops(), 1)

    def test_only_consumers_of_the_way_in_use_are_told_on(self) -> None:
        self.near.handle(binding())
        self.far.handle(binding(distance=1, remote_id=50))
        self.far.handle(consumer("CREATED", distance=1))
        self.assertEqual(self.network.sent, [])
        self.near.handle(consumer("CREATED"))
        self.assertEqual(len(self.network.sent), 1)

    def test_the_id_stays_the_same(self) -> None:
        self.near.handle(binding())
        before = self.network.bound["q" + PEER].binding_id
        self.far.handle(binding(distance=1, remote_id=50))
        self.near.end()
        self.assertEqual(self.network.bound["q" + PEER].binding_id, before)
        self.assertEqual(self.network.bound["q" + PEER].remote_id, 50)
