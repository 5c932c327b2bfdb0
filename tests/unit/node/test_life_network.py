"""The network check in the life of a broker: it stops in order while no place answers, and comes back by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed

from mqbroker.node.life import BrokerLife
from mqbroker.node.parts import StartError
from mqbroker.server.observation.metrics import render
from tests.support.parts import KnownListeners
from tests.unit.node.test_life import GrantedLater, LifeCase

NOBODY = "nobody answers"


class KnownNetwork:
    """A network whose answers a test gives."""

    def __init__(self) -> None:
        self.running = False
        self.isolated: Callable[[str], object]
        self.reachable: Callable[[], object]
        self.answers: bool | None = True
        """None: later."""
        self.looks: list[Deferred[bool]] = []

    def start(self, isolated: Callable[[str], object], reachable: Callable[[], object]) -> None:
        self.running, self.isolated, self.reachable = True, isolated, reachable

    def stop(self) -> None:
        self.running = False

    def look(self) -> Deferred[bool]:
        if self.answers is not None:
            return succeed(self.answers)
        self.looks.append(Deferred())
        return self.looks[-1]


class Backup(GrantedLater):
    held_back = 0

    def hold_back(self) -> None:
        self.held_back += 1


class NetworkCase(LifeCase):
    def setUp(self) -> None:
        super().setUp()
        self.network = KnownNetwork()
        self.activation = Backup()

    def started(self, **others: Any) -> BrokerLife:
        life = self.life(network=self.network, **others)
        life.start()
        return life

    def cut(self) -> None:
        self.network.isolated(NOBODY)
        self.settle()

    def restore(self) -> None:
        self.network.reachable()
        self.settle()


class NetworkTests(NetworkCase):
    def test_it_stops_in_order_and_comes_back_with_its_messages(self) -> None:
        life = self.started()
        self.make_queue(life)
        self.cut()
        self.assertEqual(life.state, "stopped")
        self.assertFalse(self.listeners[-1].is_open)
        self.restore()
        self.assertEqual((life.state, life.ready(), list(life.active.messaging.core.queues)), ("active", None, ["q"]))
        self.stopped(life)

    def test_health_and_metrics_stay_and_say_why(self) -> None:
        life = self.started()
        self.cut()
        self.assertEqual((life.live(), life.ready()), (None, f"the broker is stopped ({NOBODY})"))
        self.assertTrue(self.pages[-1].is_open)
        shown = b"".join(render(life.figures())).decode()
        self.assertIn('state="isolated"', shown)
        self.assertIn('artemis_active{broker="b"} 0\n', shown)
        self.stopped(life)
        self.assertFalse(self.pages[-1].is_open)
        self.assertEqual(life.ready(), "the broker is stopped")

    def test_an_answer_while_it_stops_has_it_come_back_after_that(self) -> None:
        life = self.started()
        self.make_queue(life)
        self.network.isolated(NOBODY)
        self.assertEqual(life.state, "stopping")
        self.network.reachable()
        self.settle()
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_silence_again_before_it_is_back_keeps_it_stopped(self) -> None:
        life = self.started()
        self.make_queue(life)
        self.network.isolated(NOBODY)
        self.network.reachable()
        self.network.isolated(NOBODY)
        self.settle()
        self.assertEqual(life.state, "stopped")
        self.restore()
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_a_broker_that_was_stopped_does_not_come_back(self) -> None:
        life = self.started()
        self.cut()
        self.stopped(life)
        self.assertFalse(self.network.running)
        self.assertEqual(self.failures, [])

    def test_a_stop_while_it_stops_ends_it(self) -> None:
        life = self.started()
        self.make_queue(life)
        self.network.isolated(NOBODY)
        self.stopped(life)
        self.assertFalse(self.network.running or self.pages[-1].is_open)

    def test_one_that_was_giving_way_waits_for_an_answer_too(self) -> None:
        life = self.started()
        self.make_queue(life)
        life.give_way(again=True)
        self.cut()
        self.assertEqual(life.state, "stopped")
        self.restore()
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_a_store_that_fails_ends_the_check(self) -> None:
        life = self.started()
        self.make_queue(life)
        self.disk.fail("write", OSError(28, "No space left on device"))
        batch = life.active.store.begin()
        batch.put_setting("kind", "key", "value")
        life.active.messaging.core.turn.run(life.active.store.commit, batch)
        self.settle()
        self.assertEqual(life.state, "failed")
        self.assertFalse(self.network.running)

    def test_a_start_that_fails_ends_the_check(self) -> None:
        life = self.life(network=self.network, make_listeners=lambda server: KnownListeners(server, StartError("the port is taken")))
        self.assertRaises(StartError, life.start)
        self.assertFalse(self.network.running)


class ActivationTests(NetworkCase):
    def test_nobody_else_is_asked_to_go_on(self) -> None:
        life = self.started(activation=self.activation)
        self.activation.grant()
        self.cut()
        self.assertEqual((life.state, self.activation.held_back), ("stopped", 1))
        self.restore()
        self.assertEqual(life.state, "passive")
        self.activation.grant()
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_a_stop_for_another_reason_asks_as_ever(self) -> None:
        life = self.started(activation=self.activation)
        self.activation.grant()
        self.stopped(life)
        self.assertEqual(self.activation.held_back, 0)

    def test_no_answer_vetoes_an_activation(self) -> None:
        life = self.started(activation=self.activation)
        self.network.answers = False
        self.activation.grant()
        self.settle()
        self.assertEqual(life.state, "passive")
        self.cut()
        self.assertEqual((life.state, self.activation.held_back), ("stopped", 0))
        self.network.answers = True
        self.restore()
        self.assertEqual(life.state, "passive")
        self.activation.grant()
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_an_answer_is_no_proof(self) -> None:
        life = self.started(activation=self.activation)
        self.restore()
        self.assertEqual(life.state, "passive")
        self.stopped(life)

    def test_it_is_passive_while_it_asks(self) -> None:
        self.network.answers = None
        life = self.started()
        self.assertEqual((life.state, life.ready()), ("passive", "the broker is passive (it asks the places of the network check)"))
        self.network.looks[0].callback(True)
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_an_answer_for_an_earlier_start_activates_nothing(self) -> None:
        self.network.answers = None
        life = self.started(activation=self.activation)
        self.activation.grant()
        self.stopped(life)
        life.start()
        self.network.looks[0].callback(True)
        self.assertEqual(life.state, "passive")
        self.stopped(life)
