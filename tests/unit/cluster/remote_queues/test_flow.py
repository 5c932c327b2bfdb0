"""What a broker makes of the notifications of a member."""

from __future__ import annotations

from unittest import TestCase
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from mqbroker.cluster.remote_queues import flow as module
from mqbroker.cluster.remote_queues import ways as ways_module
from mqbroker.cluster.remote_queues.flow import Flow
from mqbroker.cluster.remote_queues.ways import binding_id
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.wire.properties import BYTE, INT, LONG, NULL, STRING
from tests.unit.cluster.flow_support import OTHER, OWN, PEER, Network, binding, complete, consumer, reset


def connect(flow: Flow) -> Flow:
    flow.begin()
    flow.handle(reset())
    return flow


class BindingTests(TestCase):
    def setUp(self) -> None:
        self.network = Network()
        self.flow = connect(self.network.flow())

    def test_a_queue_becomes_a_remote_binding(self) -> None:
        self.flow.handle(binding(filter_string="a = 1"))
        found = self.network.bound["q" + PEER]
        self.assertEqual((found.address, found.routing_name, found.remote_id, found.distance), ("q", "q", 7, 1))
        self.assertEqual(found.binding_id, binding_id("q" + PEER))
        self.assertEqual(found.filter.text if found.filter else None, "a = 1")
        self.assertEqual(self.network.core.told, ["+q 1"])

    def test_nothing_counts_before_the_reset(self) -> None:
        flow = self.network.flow(OTHER)
        flow.begin()
        flow.handle(binding(node_id=OTHER))
        self.assertEqual(self.network.bound, {})
        self.assertEqual(self.network.refused, [])

    def test_the_same_queue_twice_is_one_binding(self) -> None:
        self.flow.handle(binding())
        self.flow.handle(binding())
        self.assertEqual(self.network.core.told, ["+q 1"])

    def test_a_queue_made_anew_replaces_the_old_one(self) -> None:
        self.flow.handle(binding())
        self.flow.handle(binding(remote_id=8))
        self.assertEqual(self.network.bound["q" + PEER].remote_id, 8)
        self.assertEqual(self.network.core.told, ["+q 1", "-q 1", "+q 1"])

    def test_removed(self) -> None:
        self.flow.handle(binding())
        self.flow.handle(binding("BINDING_REMOVED"))
        self.assertEqual(self.network.bound, {})
        self.assertEqual(self.flow.bindings, {})

    def test_messages_on_their_way_to_a_queue_that_was_removed_do_not_wait_for_it(self) -> None:
        """They would hold up the link that brings them.  A queue whose broker has left may be back soon."""
        self.network = Network(max_hops=2)
        self.flow = connect(self.network.flow())
        for name, distance in (("removed", 0), ("left", 0), ("further", 1)):
            self.flow.handle(binding(queue=name, distance=distance))
        self.flow.handle(binding("BINDING_REMOVED", queue="removed"))
        self.flow.handle(binding("BINDING_REMOVED", queue="further"))
        self.flow.end()
        check = self.network.core.awaited.check
        check(binding_id("removed" + PEER))
        for name in ("left", "further", "unheard of"):
            self.assertRaises(Undecided, check, binding_id(name + PEER))

    def test_removing_what_is_unknown_is_reported(self) -> None:
        self.flow.handle(binding("BINDING_REMOVED"))
        self.assertEqual(len(self.network.refused), 1)
        self.flow.handle(binding())
        self.assertIn("q" + PEER, self.network.bound)

    def test_updated_filter(self) -> None:
        self.flow.handle(binding(filter_string="a = 1"))
        self.flow.handle(binding("BINDING_UPDATED", filter_string="a = 2"))
        found = self.network.bound["q" + PEER]
        self.assertEqual(found.filter.text if found.filter else None, "a = 2")
        self.assertEqual(self.network.sent[-1][0], "BINDING_UPDATED")
        self.assertEqual(self.network.sent[-1][1]["_AMQ_Distance"], (INT, 1))
        self.flow.handle(binding("BINDING_UPDATED"))
        self.assertIsNone(found.filter)

    def test_own_queues_that_come_around_are_left_alone(self) -> None:
        self.flow.handle(binding(node_id=OWN))
        self.flow.handle(consumer("CREATED", node_id=OWN))
        self.flow.handle(consumer("CLOSED", node_id=OWN))
        self.assertEqual((self.network.bound, self.network.refused, self.network.sent), ({}, [], []))

    def test_numbers_of_other_kinds(self) -> None:
        for kind, value in ((BYTE, 0), (LONG, 0), (STRING, "0")):
            self.flow.handle({**binding(queue=f"q{kind}"), "_AMQ_Distance": (kind, value)})
        self.assertEqual(len(self.network.bound), 3)

    def test_end_removes_everything(self) -> None:
        self.flow.handle(binding())
        self.flow.end()
        self.assertEqual(self.network.bound, {})
        self.flow.handle(binding())
        self.assertEqual(self.network.bound, {})


class ManyTests(TestCase):
    """A member with more queues than are removed in one turn."""

    def setUp(self) -> None:
        self.enterContext(patch.object(ways_module, "REMOVED_PER_TURN", 10))
        self.network = Network(max_hops=2)
        self.flow = connect(self.network.flow())
        for number in range(35):
            self.flow.handle(binding(queue=f"q{number}", remote_id=number))

    def left(self) -> list[int]:
        """Removed bindings after each turn, until nothing changes."""
        found = [35 - len(self.network.bound)]
        while self.network.core.clock.pending:
            self.network.core.clock.advance(0)
            found.append(35 - len(self.network.bound))
        return found

    def test_they_go_a_bounded_number_at_a_time_and_none_of_them_gets_messages(self) -> None:
        bound = list(self.network.bound.values())
        steps: list[int] = []
        with patch.object(self.network.core, "run", lambda function: (function(), steps.append(len(self.network.bound)))):
            self.flow.end()
            self.assertEqual(len(self.network.bound), 25)
            self.assertTrue(all(each.withdrawn and not each.connected for each in self.network.bound.values()))
            self.assertEqual(self.flow.bindings, {})
            self.left()
        self.assertEqual(steps, [15, 5, 0])
        self.assertEqual(self.network.core.told[35:], [f"-{each.queue_name} 1" for each in bound])

    def test_what_is_not_told_again_goes_in_the_same_way(self) -> None:
        self.flow.disconnected()
        connect(self.flow)
        self.flow.handle(binding(queue="q3", remote_id=3))
        self.flow.handle(complete())
        self.assertEqual(len(self.flow.bindings), 1)
        self.assertEqual(len(self.network.bound), 25)
        self.left()
        self.assertEqual(list(self.network.bound), ["q3" + PEER])

    def test_a_member_that_is_back_before_all_have_gone(self) -> None:
        self.flow.end()
        again = connect(self.network.flow())
        for number in range(35):
            again.handle(binding(queue=f"q{number}", remote_id=100 + number))
        self.left()
        self.assertEqual({each.remote_id for each in self.network.bound.values()}, set(range(100, 135)))
        self.assertEqual(self.network.bound, again.bindings)

    def test_a_member_that_leaves_again_before_all_have_gone(self) -> None:
        self.flow.end()
        again = connect(self.network.flow())
        for number in range(35):
            again.handle(binding(queue=f"q{number}", remote_id=100 + number))
        again.end()
        self.assertTrue(all(each.withdrawn for each in self.network.bound.values()))
        # None was bound again for the time until it is removed.
        self.assertEqual({each.remote_id for each in self.network.bound.values()}, set(range(110, 135)))
        self.left()
        self.assertEqual(self.network.bound, {})

    def test_another_way_is_taken_at_once(self) -> None:
        other = connect(self.network.flow(OTHER))
        other.handle(binding(queue="q30", distance=1, remote_id=50))
        self.flow.end()
        self.assertEqual(self.network.bound["q30" + PEER].remote_id, 50)
        self.left()
        self.assertEqual(list(self.network.bound), ["q30" + PEER])

    def test_nobody_is_told_of_the_rest_when_the_broker_stops(self) -> None:
        self.flow.end()
        self.network.ways.stop()
        told = len(self.network.core.told)
        self.left()
        self.assertEqual(len(self.network.core.told), told)


class LinkTests(TestCase):
    def setUp(self) -> None:
        self.network = Network()
        self.flow = connect(self.network.flow())
        self.flow.handle(binding())
        self.flow.handle(binding(queue="r"))
        self.flow.handle(consumer("CREATED"))

    def test_a_lost_link_keeps_disconnected_bindings(self) -> None:
        self.flow.disconnected()
        self.assertFalse(self.network.bound["q" + PEER].connected)
        self.assertEqual(self.network.bound["q" + PEER].consumer_count, 1)

    def test_a_lost_link_with_many_bindings_changes_routing_once(self) -> None:
        changes: list[int] = []
        for number in range(100):
            self.flow.handle(binding(queue=f"q{number}"))
        self.network.core.changed = lambda: changes.append(1)  # type: ignore[method-assign]
        self.network.core.remote_changed = lambda binding: changes.append(1)  # type: ignore[method-assign]
        self.flow.disconnected()
        self.assertEqual(len(changes), 1)

    def test_what_is_not_told_again_goes(self) -> None:
        self.flow.disconnected()
        connect(self.flow)
        self.assertEqual(self.network.bound["q" + PEER].consumer_count, 0)
        self.flow.handle(binding())
        self.assertIn("r" + PEER, self.network.bound)
        self.assertFalse(self.flow.complete)
        self.flow.handle(complete())
        self.assertTrue(self.flow.complete)
        self.assertTrue(self.network.bound["q" + PEER].connected)
        self.assertNotIn("r" + PEER, self.network.bound)

    def test_a_filter_that_changed_meanwhile_is_told_to_members_further_away(self) -> None:
        """Members further away hear of no new binding, since it is the same one."""
        self.flow.disconnected()
        connect(self.flow)
        self.network.sent.clear()
        self.flow.handle(binding(filter_string="a = 1"))
        self.flow.handle(binding(queue="r"))
        self.assertEqual(
            [(kind, headers["_AMQ_ClusterName"][1], headers["_AMQ_FilterString"][1]) for kind, headers in self.network.sent],
            [("BINDING_UPDATED", "q" + PEER, "a = 1")],
        )

    def test_late_messages_of_the_old_link_do_not_count(self) -> None:
        self.flow.disconnected()
        self.flow.handle(consumer("CREATED"))
        self.assertEqual(self.network.bound["q" + PEER].consumer_count, 1)


class ConsumerTests(TestCase):
    def setUp(self) -> None:
        self.network = Network(max_hops=2)
        self.flow = connect(self.network.flow())
        self.flow.handle(binding())

    def test_counted_and_told_on(self) -> None:
        self.flow.handle(consumer("CREATED", filter_string="a = 1"))
        self.flow.handle(consumer("CREATED", address="q::q"))
        self.assertEqual(self.network.bound["q" + PEER].consumer_count, 2)
        (first, headers), (_, second) = self.network.sent
        self.assertEqual(first, "CONSUMER_CREATED")
        self.assertEqual(
            headers,
            {
                "_AMQ_Address": (STRING, "q"),
                "_AMQ_ClusterName": (STRING, "q" + PEER),
                "_AMQ_RoutingName": (STRING, "q"),
                "_AMQ_Distance": (INT, 1),
                "_AMQ_ConsumerCount": (INT, 1),
                "_AMQ_FilterString": (STRING, "a = 1"),
            },
        )
        self.assertEqual(second["_AMQ_Address"], (STRING, "q::q"))
        self.assertEqual(self.network.appeared, ["q", "q"])

    def test_closed(self) -> None:
        self.flow.handle(consumer("CREATED"))
        self.flow.handle(consumer("CLOSED"))
        self.flow.handle(consumer("CLOSED"))
        self.assertEqual(self.network.bound["q" + PEER].consumer_count, 0)
        self.assertEqual(self.kinds(), ["CONSUMER_CREATED", "CONSUMER_CLOSED"])

    def kinds(self) -> list[str]:
        """What was told since the last call."""
        kinds = [kind for kind, _ in self.network.sent]
        self.network.sent.clear()
        return kinds

    def test_consumers_that_are_told_again_after_a_break_are_told_on_once(self) -> None:
        """Members further away would know more than there are, and send messages where nobody takes them."""
        consumers = [consumer("CREATED"), consumer("CREATED"), consumer("CREATED", filter_string="a = 1")]
        for each in consumers:
            self.flow.handle(each)
        self.assertEqual(len(self.kinds()), 3)
        self.flow.disconnected()
        connect(self.flow)
        for each in (binding(), *consumers, complete()):
            self.flow.handle(each)
        self.assertEqual(self.kinds(), [])
        self.flow.handle(consumer("CREATED"))
        self.flow.handle(consumer("CLOSED", filter_string="a = 1"))
        self.assertEqual(self.kinds(), ["CONSUMER_CREATED", "CONSUMER_CLOSED"])

    def test_consumers_that_went_meanwhile_are_told_to_be_gone(self) -> None:
        for text in (None, "a = 1", "a = 1", "a = 2"):
            self.flow.handle(consumer("CREATED", filter_string=text))
        self.kinds()
        self.flow.disconnected()
        connect(self.flow)
        for each in (binding(), consumer("CREATED", filter_string="a = 1"), complete()):
            self.flow.handle(each)
        gone = [headers.get("_AMQ_FilterString") for kind, headers in self.network.sent if kind == "CONSUMER_CLOSED"]
        self.assertEqual(sorted(map(str, gone)), sorted(map(str, [None, (STRING, "a = 1"), (STRING, "a = 2")])))
        self.assertEqual(len(self.network.sent), 3)

    def test_those_of_many_queues_go_in_turns(self) -> None:
        with patch.object(module, "TOLD_PER_TURN", 2):
            for number in range(5):
                self.flow.handle(binding(queue=f"q{number}"))
                self.flow.handle(consumer("CREATED", f"q{number}"))
            self.kinds()
            self.flow.disconnected()
            connect(self.flow)
            for number in range(5):
                self.flow.handle(binding(queue=f"q{number}"))
            self.flow.handle(complete())
            self.assertEqual(len(self.kinds()), 2)
            self.flow.handle(consumer("CREATED", "q4"))
            self.network.core.clock.advance(0)
            self.assertEqual(self.kinds(), ["CONSUMER_CLOSED"] * 2)

    def test_of_an_unknown_queue_is_reported(self) -> None:
        self.flow.handle(consumer("CREATED", "unknown"))
        self.assertIn("unknown", self.network.refused[0])
        self.assertEqual(self.network.sent, [])

    def test_sessions_are_told_on(self) -> None:
        self.flow.handle({"_AMQ_NotifType": (STRING, "SESSION_CREATED"), "_AMQ_Distance": (INT, 0), "_AMQ_Client_ID": (STRING, "me")})
        ((kind, headers),) = self.network.sent
        self.assertEqual(kind, "SESSION_CREATED")
        self.assertEqual((headers["_AMQ_Client_ID"], headers["_AMQ_Distance"]), ((STRING, "me"), (INT, 1)))
        self.assertEqual(headers["_AMQ_RemoteAddress"], (NULL, None))
        self.assertNotIn("_AMQ_Address", headers)


class HostileTests(TestCase):
    def setUp(self) -> None:
        self.network = Network()
        self.flow = connect(self.network.flow())

    def test_bad_messages_change_nothing_and_lose_nothing(self) -> None:
        bad = [
            {**binding(), "_AMQ_Distance": (STRING, "far")},
            {**binding(), "_AMQ_Binding_ID": (NULL, None)},
            {**binding(), "_AMQ_ClusterName": (STRING, "")},
            {**binding(), "_AMQ_ClusterName": (STRING, "x" * (module.NAME_LENGTH_MAX + 1))},
            {**binding(), "_AMQ_Address": (INT, 5)},
            binding(filter_string="a = = b"),
            binding(address="activemq.management"),
            binding(address="$.artemis.internal.sf.c.n"),
            {"_AMQ_NotifType": (STRING, "NONSENSE")},
            {},
        ]
        for properties in bad:
            self.flow.handle(properties)
        self.assertEqual(len(self.network.refused), len(bad))
        self.assertEqual(self.network.bound, {})
        self.flow.handle(binding())
        self.assertEqual(len(self.network.bound), 1)

    def test_too_far_away(self) -> None:
        self.flow.handle(binding(distance=1))
        self.flow.handle(binding(distance=-1))
        self.assertEqual(self.network.bound, {})

    def test_bounded(self) -> None:
        with patch.object(module, "BINDINGS_MAX", 2), patch.object(module, "CONSUMER_FILTERS_MAX", 1):
            for number in range(4):
                self.flow.handle(binding(queue=f"q{number}"))
            self.assertEqual(len(self.network.bound), 2)
            for text in ("a = 1", "a = 2"):
                self.flow.handle(consumer("CREATED", "q0", filter_string=text))
            self.assertEqual(self.network.bound["q0" + PEER].consumer_count, 1)
            self.flow.handle(consumer("CLOSED", "q0", filter_string="a = 1"))
            self.flow.handle(consumer("CREATED", "q0", filter_string="a = 2"))
            self.assertEqual(list(self.network.bound["q0" + PEER].consumer_filters), ["a = 2"])

    def test_what_is_gone_does_not_count(self) -> None:
        """Nobody tells of the consumers of a queue that is removed, and some tell of consumers that nobody knew."""
        with patch.object(module, "CONSUMER_FILTERS_MAX", 2):
            for number in range(5):
                self.flow.handle(binding(queue=f"q{number}"))
                self.flow.handle(consumer("CREATED", f"q{number}", filter_string="a = 1"))
                self.flow.handle(consumer("CREATED", f"q{number}", filter_string=" "))
                self.flow.handle(binding("BINDING_REMOVED", queue=f"q{number}"))
            self.assertEqual(self.network.refused, [])
            self.flow.handle(binding())
            for number in range(5):
                self.flow.handle(consumer("CREATED", filter_string=f"a = {number}"))
                self.flow.handle(consumer("CLOSED", filter_string="b = 1"))
            self.assertEqual(len(self.network.bound["q" + PEER].consumer_filters), 2)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["BINDING_ADDED", "BINDING_REMOVED", "BINDING_UPDATED", "CONSUMER_CREATED", "CONSUMER_CLOSED"]),
                st.sampled_from(["a", "b"]),
                st.sampled_from([None, "x = 1", "= bad"]),
                st.integers(1, 2),
                st.booleans(),
            ),
            max_size=30,
        )
    )
    def test_whatever_comes_what_is_bound_is_what_is_known(self, events: list[tuple[str, str, str | None, int, bool]]) -> None:
        network = Network()
        flow = connect(network.flow())
        for kind, queue, filter_string, remote_id, cut in events:
            if cut:
                flow.disconnected()
                connect(flow)
            flow.handle(binding(kind, queue, filter_string=filter_string, remote_id=remote_id))
            self.assertEqual(network.bound, flow.bindings)
            for bound in network.bound.values():
                self.assertGreaterEqual(bound.consumer_count, 0)
        flow.end()
        self.assertEqual(network.bound, {})
