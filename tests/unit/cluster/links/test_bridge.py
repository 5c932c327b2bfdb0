"""The life of a bridge: connect, retry, lose the link, stop, pause, resume."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import BridgeConfiguration
from mqclient.errors import ClusterSecurityError, DisconnectedError, NotConnectedError, SessionCreationRejectedError
from mqclient.protocol.topology import Topology, TopologyMember
from mqclient.wire.packets import DisconnectV3
from tests.support.broker import World
from tests.unit.cluster.bridge_support import Pair, bridge_settings, connector


def settings(**values: object) -> BridgeConfiguration:
    return bridge_settings(**{"retry_interval": 1000, "max_retry_interval": 1000, **values})  # type: ignore[arg-type]


class ConnectTests(SynchronousTestCase):
    def test_messages_go_from_queue_to_queue_in_order(self) -> None:
        pair = Pair()
        pair.publish(b"1", b"2")
        pair.start()
        pair.publish(b"3")
        pair.stir()
        self.assertEqual(pair.arrived(), [b"1", b"2", b"3"])
        self.assertEqual(pair.a.queue("q").message_count, 0)
        self.assertEqual(pair.events.told, ["connected", "started"])
        self.assertEqual((pair.forwarder.messages_acknowledged, pair.forwarder.pending, pair.forwarder.pending_bytes), (3, 0, 0))
        self.assertEqual((pair.bridge.state, pair.runtime.failures), ("started", []))

    def test_a_target_that_is_not_there_is_tried_again_after_the_interval(self) -> None:
        pair = Pair(settings(retry_interval=1000, retry_interval_multiplier=2.0, max_retry_interval=3000))
        pair.runtime.targets.clear()
        pair.start()
        self.assertEqual((pair.bridge.state, len(pair.runtime.tried)), ("waiting", 1))
        tried_at = []
        for _ in range(20):
            pair.clock.advance(0.5)
            pair.stir()
            if len(pair.runtime.tried) > len(tried_at) + 1:
                tried_at.append(pair.clock.seconds)
        # 2 s after the first failure (interval x multiplier), then never more than the greatest interval
        self.assertEqual(tried_at, [2.0, 5.0, 8.0])
        self.assertEqual(pair.events.told, ["attempt failed"] * 4)

    def test_a_target_that_was_heard_of_is_tried_in_the_next_turn(self) -> None:
        pair = Pair()
        targets = dict(pair.runtime.targets)
        pair.runtime.targets.clear()
        pair.start()
        pair.runtime.targets.update(targets)
        pair.bridge.try_now()
        self.assertEqual(pair.runtime.tried, ["1"])
        pair.stir()
        self.assertEqual((pair.clock.seconds, pair.bridge.state, pair.runtime.tried), (0, "started", ["1", "1"]))
        pair.advance(10)
        self.assertEqual(pair.runtime.tried, ["1", "1"])

    def test_a_wait_is_shortened_once_in_the_interval(self) -> None:
        pair = Pair(settings(retry_interval=1000))
        pair.runtime.targets.clear()
        pair.start()
        tried = []
        for _ in range(9):
            pair.bridge.try_now()
            pair.advance(0.25, 0.25)
            tried.append(len(pair.runtime.tried))
        # After each attempt at its time another one, and not more.
        self.assertEqual(tried, [2, 2, 2, 3, 4, 4, 4, 5, 6])

    def test_a_target_that_was_heard_of_changes_nothing_but_a_wait(self) -> None:
        pair = Pair(settings(reconnect_attempts=0))
        pair.bridge.try_now()
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.runtime.tried), ("stopped", []))
        pair.bridge.start()
        self.assertEqual(pair.bridge.state, "connecting")
        pair.bridge.try_now()
        pair.stir()
        pair.bridge.try_now()
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.runtime.tried), ("started", ["1"]))
        pair.runtime.targets.clear()
        pair.link.cut()
        pair.advance(1)
        pair.bridge.try_now()
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.runtime.tried), ("failed", ["1", "1"]))

    def test_the_first_attempts_are_counted_by_their_own_setting(self) -> None:
        pair = Pair(settings(initial_connect_attempts=2))
        pair.runtime.targets.clear()
        pair.start()
        pair.advance(10)
        self.assertEqual(pair.runtime.tried, ["1"] * 3)
        self.assertEqual((pair.bridge.state, pair.events.told[-1]), ("failed", "gave up"))

    def test_a_bridge_that_gave_up_can_be_started_again(self) -> None:
        pair = Pair(settings(initial_connect_attempts=0))
        targets = dict(pair.runtime.targets)
        pair.runtime.targets.clear()
        pair.start()
        self.assertEqual(pair.bridge.state, "failed")
        pair.runtime.targets.update(targets)
        pair.start()
        self.assertEqual(pair.bridge.state, "started")

    def test_a_bridge_that_gave_up_has_all_its_attempts_again(self) -> None:
        pair = Pair(settings(initial_connect_attempts=2, retry_interval_multiplier=2.0, max_retry_interval=60_000))
        pair.runtime.targets.clear()
        pair.start()
        pair.advance(10)
        self.assertEqual((pair.bridge.state, len(pair.runtime.tried)), ("failed", 3))
        pair.start()
        pair.advance(10)
        self.assertEqual((pair.bridge.state, len(pair.runtime.tried)), ("failed", 6))

    def test_a_target_that_is_still_starting_is_not_counted(self) -> None:
        pair = Pair(settings(initial_connect_attempts=0))
        pair.events.refuse = SessionCreationRejectedError("starting")
        pair.start()
        pair.advance(5)
        self.assertEqual(pair.bridge.state, "waiting")
        pair.events.refuse = None
        pair.advance(1)
        self.assertEqual(pair.bridge.state, "started")

    def test_who_uses_the_bridge_may_refuse_the_connection(self) -> None:
        pair = Pair(settings(initial_connect_attempts=0))
        pair.events.refuse = ClusterSecurityError("no")
        pair.start()
        self.assertEqual((pair.bridge.state, pair.link.open), ("failed", False))

    def test_without_connectors_it_waits(self) -> None:
        pair = Pair(ports=())
        pair.start()
        self.assertEqual(pair.bridge.state, "waiting")
        self.assertIsInstance(pair.events.reasons[0], NotConnectedError)

    def test_connectors_are_tried_in_order(self) -> None:
        pair = Pair(ports=(7, 8, 1))
        pair.start()
        self.assertEqual(pair.runtime.tried, ["7", "8", "1"])
        self.assertEqual(pair.bridge.state, "started")


class LossTests(SynchronousTestCase):
    def test_what_was_not_acknowledged_goes_again_in_order(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1", b"2", b"3")
        pair.clock.advance(0)
        pair.clock.advance(0)
        self.assertEqual(pair.forwarder.pending, 3)
        pair.link.cut()
        self.assertEqual((pair.waiting(), pair.forwarder.pending), ([b"1", b"2", b"3"], 0))
        self.assertEqual([reference.delivery_count for reference in pair.a.queue("q").references], [0, 0, 0])
        self.assertEqual((pair.bridge.state, pair.events.told[-1]), ("waiting", "lost"))
        pair.advance(1)
        self.assertEqual((pair.arrived(), pair.bridge.state), ([b"1", b"2", b"3"], "started"))

    def test_a_loss_is_told_with_what_the_target_said(self) -> None:
        pair = Pair()
        pair.start()
        pair.link.cut()
        pair.advance(1)
        pair.b.server.turn.run(pair.link.connection.disconnect, DisconnectV3("other", 2, "third"))
        self.assertEqual([entry if entry is None else entry.target_node_id for entry in pair.events.disconnects], [None, "third"])
        self.assertEqual([type(reason) for reason in pair.events.reasons], [NotConnectedError, DisconnectedError])

    def test_the_first_try_after_a_loss_comes_after_the_plain_interval(self) -> None:
        pair = Pair(settings(retry_interval=1000, retry_interval_multiplier=3.0, max_retry_interval=60_000))
        pair.start()
        targets = dict(pair.runtime.targets)
        pair.runtime.targets.clear()
        pair.link.cut()
        times = []
        while len(times) < 3:
            known = len(pair.runtime.tried)
            pair.advance(0.5)
            if len(pair.runtime.tried) > known:
                times.append(pair.clock.seconds)
        self.assertEqual(times, [1.0, 4.0, 13.0])
        pair.runtime.targets.update(targets)
        pair.advance(27)
        self.assertEqual(pair.bridge.state, "started")
        pair.link.cut()
        pair.advance(1)
        self.assertEqual(pair.bridge.state, "started")

    def test_reconnect_attempts_end(self) -> None:
        pair = Pair(settings(reconnect_attempts=1))
        pair.start()
        pair.runtime.targets.clear()
        pair.link.cut()
        pair.advance(5)
        self.assertEqual(pair.runtime.tried, ["1"] * 3)
        self.assertEqual((pair.bridge.state, pair.events.told[-1]), ("failed", "gave up"))

    def test_first_the_lost_broker_is_tried_then_all(self) -> None:
        pair = Pair(settings(reconnect_attempts_same_node=2), ports=(7, 1))
        pair.start()
        del pair.runtime.tried[:]
        pair.runtime.targets.clear()
        pair.link.cut()
        pair.advance(3)
        self.assertEqual(pair.runtime.tried, ["1", "1", "7", "1"])

    def test_with_ha_the_backup_of_the_lost_broker_is_tried_too(self) -> None:
        for ha, expected in ((True, ["1", "9"]), (False, ["1"])):
            topology = Topology()
            topology.up(TopologyMember("node", 1, connector(1), connector(9)))
            pair = Pair(settings(ha=ha), topology=topology, ports=(1, 7))
            pair.start()
            del pair.runtime.tried[:]
            pair.runtime.targets.clear()
            pair.link.cut()
            pair.advance(1)
            self.assertEqual(pair.runtime.tried, expected)

    def test_a_backup_that_came_after_the_link_is_tried_too(self) -> None:
        for gone in (False, True):
            topology = Topology()
            topology.up(TopologyMember("node", 1, connector(1)))
            pair = Pair(settings(ha=True, reconnect_attempts_same_node=-1), topology=topology)
            pair.start()
            topology.up(TopologyMember("node", 2, connector(1), connector(9)))
            del pair.runtime.tried[:]
            pair.runtime.targets.clear()
            if gone:
                pair.events.at_lost = lambda known=topology: known.down("node", 3)
            pair.link.cut()
            pair.advance(1)
            self.assertEqual(pair.runtime.tried, ["1", "9"])

    def test_the_same_broker_is_tried_without_end_where_that_is_asked_for(self) -> None:
        pair = Pair(settings(reconnect_attempts_same_node=-1), ports=(1, 7))
        pair.start()
        pair.runtime.targets.clear()
        pair.link.cut()
        pair.advance(20)
        self.assertEqual(set(pair.runtime.tried), {"1"})

    def test_a_target_that_scales_down_is_followed_to_where_its_messages_went(self) -> None:
        for follows, reason, expected in ((True, 2, ["9"]), (False, 2, ["1"]), (True, 4, ["1"])):
            topology = Topology()
            topology.up(TopologyMember("third", 1, connector(9)))
            pair = Pair(topology=topology, follows=follows)
            pair.start()
            del pair.runtime.tried[:]
            pair.runtime.targets = {"9": World(clock=pair.clock)}
            pair.b.server.turn.run(pair.link.connection.disconnect, DisconnectV3("node", reason, "third"))
            pair.advance(1)
            self.assertEqual(pair.runtime.tried, expected)
            self.assertEqual(pair.bridge.state, "started" if expected == ["9"] else "waiting")

    def test_a_target_that_went_to_a_node_that_is_not_known_is_tried_again_itself(self) -> None:
        pair = Pair(follows=True)
        pair.start()
        pair.b.server.turn.run(pair.link.connection.disconnect, DisconnectV3("node", 2, "third"))
        pair.advance(1)
        self.assertEqual((pair.runtime.tried, pair.bridge.state), (["1", "1"], "started"))

    def test_who_is_told_of_a_loss_may_stop_the_bridge(self) -> None:
        pair = Pair()
        pair.start()
        pair.events.at_lost = pair.bridge.stop
        pair.link.cut()
        self.assertEqual(pair.bridge.state, "stopped")
        pair.advance(5)
        self.assertEqual((pair.bridge.state, pair.runtime.tried), ("stopped", ["1"]))

    def test_a_silent_target_is_given_up(self) -> None:
        pair = Pair(settings(connection_ttl=10_000, check_period=2_000))
        pair.start()
        pair.link.silent = True
        pair.advance(15)
        self.assertEqual(pair.events.told[-3:], ["lost", "connected", "started"])


class StopTests(SynchronousTestCase):
    def test_stopping_waits_for_acknowledgements(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1")
        pair.clock.advance(0)
        stopped = pair.bridge.stop()
        self.assertNoResult(stopped)
        self.assertEqual(pair.bridge.state, "stopping")
        pair.stir()
        self.successResultOf(stopped)
        self.assertEqual((pair.bridge.state, pair.arrived(), pair.waiting()), ("stopped", [b"1"], []))
        self.assertFalse(pair.link.open)

    def test_what_comes_while_it_stops_stays(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1")
        pair.clock.advance(0)
        stopped = pair.bridge.stop()
        pair.publish(b"2")
        pair.stir()
        self.successResultOf(stopped)
        self.assertEqual((pair.arrived(), pair.waiting()), ([b"1"], [b"2"]))

    def test_stopping_ends_also_without_acknowledgements(self) -> None:
        pair = Pair(settings(connection_ttl=-1, check_period=-1))
        pair.start()
        pair.link.silent = True
        pair.publish(b"1")
        pair.stir()
        stopped = pair.bridge.stop()
        pair.advance(59)
        self.assertNoResult(stopped)
        pair.advance(2)
        self.successResultOf(stopped)
        self.assertEqual(pair.waiting(), [b"1"])
        pair.advance(31)
        self.assertFalse(pair.link.open)

    def test_who_does_not_want_to_wait_any_longer_cancels_the_stop(self) -> None:
        pair = Pair()
        pair.start()
        pair.link.silent = True
        pair.publish(b"1")
        pair.stir()
        stopped = pair.bridge.stop()
        stopped.cancel()
        self.successResultOf(stopped)
        self.assertEqual((pair.bridge.state, pair.waiting()), ("stopped", [b"1"]))
        self.assertFalse(pair.link.open)

    def test_a_link_lost_while_it_stops_ends_the_wait(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1")
        pair.clock.advance(0)
        stopped = pair.bridge.stop()
        pair.link.cut()
        self.successResultOf(stopped)
        self.assertEqual((pair.bridge.state, pair.waiting()), ("stopped", [b"1"]))
        pair.advance(5)
        self.assertEqual(len(pair.runtime.tried), 1)

    def test_stop_in_every_other_state(self) -> None:
        pair = Pair()
        self.successResultOf(pair.bridge.stop())
        pair.runtime.targets.clear()
        pair.start()
        self.assertEqual(pair.bridge.state, "waiting")
        self.successResultOf(pair.bridge.stop())
        pair.advance(5)
        self.assertEqual(pair.runtime.tried, ["1"])
        pair.runtime.targets["1"] = pair.b
        pair.bridge.start()  # the target has not answered yet
        self.assertEqual(pair.bridge.state, "connecting")
        self.successResultOf(pair.bridge.stop())
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.link.open, pair.events.told), ("stopped", False, ["attempt failed"]))

    def test_a_start_while_it_stops_is_kept(self) -> None:
        pair = Pair()
        pair.start()
        pair.publish(b"1")
        pair.clock.advance(0)
        pair.bridge.stop()
        pair.bridge.start()
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.arrived()), ("started", [b"1"]))

    def test_a_queue_that_is_deleted_ends_the_forwarding(self) -> None:
        pair = Pair()
        pair.start()
        queue = pair.a.queue("q")
        self.assertEqual(queue.consumer_count, 1)
        pair.a.messaging.administration.delete_queue(queue, remove_consumers=True)
        self.assertEqual((pair.deleted, queue.consumer_count), (["q"], 0))


class PauseTests(SynchronousTestCase):
    def test_a_paused_bridge_takes_nothing_and_keeps_its_link(self) -> None:
        pair = Pair()
        pair.start()
        pair.bridge.pause()
        pair.publish(b"1")
        pair.advance(5)
        self.assertEqual((pair.bridge.state, pair.waiting(), pair.link.open), ("paused", [b"1"], True))
        pair.bridge.resume()
        pair.stir()
        self.assertEqual((pair.bridge.state, pair.arrived()), ("started", [b"1"]))

    def test_it_stays_paused_over_a_lost_link(self) -> None:
        pair = Pair()
        pair.start()
        pair.bridge.pause()
        pair.link.cut()
        pair.publish(b"1")
        pair.advance(2)
        self.assertEqual((pair.bridge.state, pair.waiting()), ("paused", [b"1"]))

    def test_paused_before_it_is_connected(self) -> None:
        pair = Pair()
        pair.bridge.pause()
        pair.publish(b"1")
        pair.start()
        self.assertEqual((pair.bridge.state, pair.waiting()), ("paused", [b"1"]))
        self.successResultOf(pair.bridge.stop())
        pair.bridge.resume()
        pair.start()
        self.assertEqual((pair.bridge.state, pair.arrived()), ("started", [b"1"]))
