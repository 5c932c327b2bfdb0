"""The life of a broker: its states, what each step leaves behind, and what a stop or a failure does in each of them."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqbroker.config.model.configuration import Configuration, QueueConfiguration
from mqbroker.ha.one_copy import OneCopy
from mqbroker.node.life import LISTEN_SECONDS, STOP_SECONDS, BrokerLife
from mqbroker.node.parts import StartError
from mqbroker.node.stores import make_store
from mqbroker.server.observation.metrics import render
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.disk.filesystem import FileSystem
from mqclient.urls import parse_transport_uri
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, SESSION_CHANNEL
from tests.support.broker import Peer
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import WriterInTurns
from tests.support.parts import KnownListeners, KnownPages, make_parts
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.cluster.support import CONNECTIONS


class GrantedLater(OneCopy):
    """An activation that a test grants."""

    role = "backup"
    state = "in line"

    def __init__(self) -> None:
        self.granted: Callable[[], object] | None = None
        self.candidate: Any = None
        self.ceased = 0

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> None:
        """The folder is the broker's own."""

    def seek(self, candidate: Any) -> None:
        self.candidate = candidate
        self.granted = candidate.granted

    def hand_over(self) -> None:
        """Nobody could go on."""

    def cease(self) -> None:
        self.ceased += 1
        self.granted = None

    def grant(self) -> None:
        assert self.granted is not None
        self.granted()


class LifeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.disk = SimulatedDisk(random.Random(1))
        self.failures: list[str] = []
        self.writers: list[WriterInTurns] = []
        self.pages: list[KnownPages] = []
        self.listeners: list[KnownListeners] = []
        self.configuration = Configuration(security_enabled=False, name="b")

    def life(self, **others: Any) -> BrokerLife:
        parts = make_parts(
            self.clock,
            self.disk,
            **{
                "make_writer": self._kept(self.writers, WriterInTurns),
                "make_pages": self._kept(self.pages, KnownPages),
                "make_listeners": self._kept(self.listeners, KnownListeners),
                **others,
            },
        )
        return BrokerLife(BrokerSettings(self.configuration, Path("/")), parts, self.failures.append, lambda: None)

    def _kept(self, kept: list[Any], make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any) -> Any:
            kept.append(make(*args))
            return kept[-1]

        return made

    def settle(self) -> None:
        for _ in range(10):
            for writer in self.writers:
                writer.run()
            self.clock.advance(0)

    def stopped(self, life: BrokerLife) -> None:
        done = life.stop()
        self.settle()
        self.assertTrue(done.called)
        self.assertEqual(life.state, "stopped")

    def sent_away_at_close(self, listeners: KnownListeners, peer: Peer) -> list[bool]:
        """Whether ``peer`` is disconnected, noted whenever the ports are to be closed."""
        found: list[bool] = []
        close = listeners.close
        self.patch(listeners, "close", lambda: (found.append(peer.transport.closed), close())[1])
        return found

    def files(self) -> list[str]:
        return sorted(self.disk.files())

    def make_queue(self, life: BrokerLife) -> None:
        queue = QueueConfiguration(name="q", address="q", routing_type=1, durable=True)
        life.active.messaging.core.turn.run(life.active.messaging.administration.create_queue, queue)
        self.settle()


class StartCase(LifeCase):
    def stopped_once(self) -> None:
        life = self.life()
        life.start()
        self.stopped(life)


class StartTests(StartCase):
    def test_nothing_keeps_an_activation_once_there_is_the_next(self) -> None:
        """Whoever has subscribed to a part of the first, or hangs on one, would hold all of it."""
        self.configuration.cluster_connections = CONNECTIONS
        self.configuration.connectors = {"self": parse_transport_uri("tcp://127.0.0.1:1", "self")}
        self.configuration.grouping_handler = GroupingHandlerConfiguration("handler", local=True)
        life = self.life(make_runtime=lambda: MemoryRuntime(self.clock))
        life.start()
        self.make_queue(life)
        first = [weakref.ref(each) for each in (life.active, life.active.server, life.active.messaging.core, life.active.others.clustering)]
        self.stopped(life)
        self.clock.advance(3600)  # the clock keeps calls that were taken back until they would be due
        life.start()
        self.listeners.clear()
        gc.collect()
        self.assertEqual([type(kept()).__name__ for kept in first if kept() is not None], [])

    def test_who_waits_for_the_stop_may_start_again_at_once(self) -> None:
        life = self.life()
        life.start()
        life.stop().addCallback(lambda _: life.start())
        self.settle()
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_an_activation_that_fails_frees_the_folder_and_takes_its_files_back(self) -> None:
        self.stopped_once()
        found = self.files()
        life = self.life(make_listeners=lambda server: KnownListeners(server, StartError("the port is taken")))
        error = self.assertRaises(StartError, life.start)
        self.assertEqual((str(error), life.state, self.files()), ("the port is taken", "failed", found))
        self.assertFalse(self.pages[-1].is_open)
        other = self.life()
        other.start()
        self.stopped(other)

    def test_a_stop_within_a_start_stops(self) -> None:
        lives: list[BrokerLife] = []
        ends: list[Deferred[None]] = []

        class Stopping(KnownListeners):
            def open(self) -> None:
                super().open()
                ends.append(lives[0].stop())

        lives.append(self.life(make_listeners=Stopping))
        lives[0].start()
        self.settle()
        self.assertEqual((lives[0].state, ends[0].called), ("stopped", True))

    def test_a_stop_within_a_start_that_fails_stops(self) -> None:
        lives: list[BrokerLife] = []
        ends: list[Deferred[None]] = []

        class Failing(KnownListeners):
            def open(self) -> None:
                ends.append(lives[0].stop())
                raise StartError("no")

        lives.append(self.life(make_listeners=Failing))
        self.assertRaises(StartError, lives[0].start)
        self.settle()
        self.assertEqual((lives[0].state, ends[0].called), ("stopped", True))


class PassiveCase(LifeCase):
    def setUp(self) -> None:
        super().setUp()
        self.activation = GrantedLater()


class PassiveTests(PassiveCase):
    def test_it_becomes_active_when_it_may(self) -> None:
        life = self.life(activation=self.activation)
        life.start()
        self.activation.grant()
        self.assertEqual((life.state, life.ready()), ("active", None))
        self.assertIn('artemis_active{broker="b"} 1\n', b"".join(render(life.figures())).decode())
        self.stopped(life)

    def test_an_activation_that_fails_later_is_told_and_leaves_nothing_behind(self) -> None:
        life = self.life(activation=self.activation, make_listeners=lambda server: KnownListeners(server, StartError("the port is taken")))
        life.start()
        self.activation.grant()
        self.assertEqual((life.state, self.failures), ("failed", ["the port is taken"]))
        self.assertFalse(self.pages[0].is_open)
        other = self.life()
        other.start()
        self.stopped(other)

    def test_a_stop_while_passive_frees_the_folder_and_asks_no_more(self) -> None:
        life = self.life(activation=self.activation)
        life.start()
        self.stopped(life)
        self.assertTrue(self.activation.ceased)
        self.assertFalse(self.pages[0].is_open)
        other = self.life()
        other.start()
        self.stopped(other)

    def test_a_grant_that_comes_too_late_does_nothing(self) -> None:
        life = self.life(activation=self.activation)
        life.start()
        granted = self.activation.granted
        assert granted is not None
        self.stopped(life)
        granted()
        self.assertEqual(life.state, "stopped")


class EndTests(LifeCase):
    def test_several_who_ask_for_the_stop_hear_of_its_end(self) -> None:
        life = self.life()
        life.start()
        ends = [life.stop(), life.stop()]
        self.assertEqual(life.state, "stopping")
        self.assertFalse(ends[0].called or ends[1].called)
        self.settle()
        self.assertTrue(ends[0].called and ends[1].called)

    def test_a_disk_that_does_not_answer_holds_up_a_stop_no_longer_than_that(self) -> None:
        life = self.life()
        life.start()
        self.make_queue(life)
        done = life.stop()
        self.clock.advance(STOP_SECONDS - 0.1)
        self.assertEqual((life.state, done.called), ("stopping", False))
        self.clock.advance(0.2)
        self.assertEqual((life.state, done.called), ("stopped", True))

    def test_a_stop_whose_disk_hangs_ends_with_an_error_that_names_the_folders(self) -> None:
        """Once it waited for the thread for ever."""
        life = self.life()
        life.start()
        with mock.patch.object(self.writers[-1], "close", lambda: False):
            done = life.stop()
            self.settle()
        self.assertEqual((life.state, done.called, len(self.failures)), ("stopped", True, 1))
        self.assertIn(str(self.configuration.journal_directory), self.failures[0])

    def test_a_store_that_fails_ends_the_activation_and_nothing_is_written_any_more(self) -> None:
        life = self.life()
        life.start()
        self.make_queue(life)
        self.disk.fail("write", OSError(28, "No space left on device"))
        batch = life.active.store.begin()
        batch.put_setting("kind", "key", "value")
        life.active.messaging.core.turn.run(life.active.store.commit, batch)
        self.settle()
        self.assertEqual(len(self.failures), 1)
        self.assertEqual((life.state, life.live()), ("failed", "the journal can no longer be written"))
        self.assertFalse(self.listeners[0].is_open)
        self.assertTrue(self.pages[0].is_open)
        content = self.disk.files()
        self.stopped(life)
        self.assertEqual(self.disk.files(), content)
        self.assertFalse(self.pages[0].is_open)

    def test_a_store_that_is_fenced_ends_the_activation_and_the_next_one_finds_what_was_durable(self) -> None:
        life = self.life()
        life.start()
        self.make_queue(life)
        content = self.disk.files()
        life.active.store.fence("epoch 2 has begun")
        self.settle()
        self.assertEqual((life.state, len(self.failures)), ("failed", 1))
        self.assertIn("epoch 2 has begun", self.failures[0])
        self.assertFalse(self.listeners[0].is_open)
        self.assertEqual(self.disk.files(), content)
        next_one = self.life()
        next_one.start()
        self.assertIn("q", next_one.active.messaging.core.queues)
        self.stopped(next_one)

    def test_a_store_that_is_fenced_while_the_broker_is_passive_ends_its_search(self) -> None:
        stores: list[Any] = []
        activation = GrantedLater()
        life = self.life(activation=activation, make_store=self._kept(stores, make_store))
        life.start()
        stores[0].fence("epoch 2 has begun")
        self.settle()
        self.assertEqual((life.state, activation.granted, len(self.failures)), ("failed", None, 1))
        self.stopped(life)

    def test_the_ports_are_closed_before_clients_are_sent_away(self) -> None:
        """Who connects again at once would be taken by a port that is about to close."""
        for end in (self.stopped, self.fenced):
            life = self.life()
            life.start()
            listeners = self.listeners[-1]
            peer = Peer(listeners)  # type: ignore[arg-type]
            sent_away = self.sent_away_at_close(listeners, peer)
            end(life)
            self.assertEqual((sent_away[0], peer.transport.closed), (False, True))

    def fenced(self, life: BrokerLife) -> None:
        life.active.store.fence("epoch 2 has begun")
        self.settle()

    def fail_disk(self, life: BrokerLife) -> None:
        self.disk.fail("write", OSError(5, "Input/output error"))
        batch = life.active.store.begin()
        batch.put_setting("kind", "key", "value")
        life.active.messaging.core.turn.run(life.active.store.commit, batch)

    def test_a_store_that_fails_while_clients_are_waited_for_ends_the_stop(self) -> None:
        self.configuration.graceful_shutdown_enabled = True
        life = self.life()
        life.start()
        life.active.server.has_clients = lambda: True  # type: ignore[method-assign]
        done = life.stop()
        self.settle()
        self.assertEqual((life.state, done.called), ("leaving", False))
        self.fail_disk(life)
        self.settle()
        self.assertEqual((life.state, done.called), ("stopped", True))
        life.start()
        self.assertEqual(life.state, "active")
        life.active.server.has_clients = lambda: False  # type: ignore[method-assign]
        self.stopped(life)

    def test_a_store_that_fails_while_it_writes_the_rest_ends_the_stop(self) -> None:
        life = self.life()
        life.start()
        self.fail_disk(life)
        done = life.stop()
        self.assertEqual(life.state, "stopping")
        self.settle()
        self.assertEqual((life.state, done.called, len(self.failures)), ("stopped", True, 1))
        life.start()
        self.clock.advance(2 * STOP_SECONDS)
        self.assertEqual(life.state, "active")
        self.stopped(life)

    def test_a_broker_that_has_failed_can_start_again(self) -> None:
        life = self.life()
        life.start()
        self.fail_disk(life)
        self.settle()
        life.start()
        self.assertEqual((life.state, life.live()), ("active", None))
        self.stopped(life)


class Voter(GrantedLater):
    """An activation that answers votes while it seeks."""

    def seek(self, candidate: Any) -> None:
        super().seek(candidate)
        candidate.take_brokers("node", lambda channel: channel.register_vote("Ballot", lambda connection, ballot: b"stored " + ballot))


class VotingTests(LifeCase):
    def setUp(self) -> None:
        super().setUp()
        self.voter = Voter()
        self.stores: list[Any] = []

    def passive(self, **others: Any) -> BrokerLife:
        life = self.life(activation=self.voter, make_store=self._kept(self.stores, make_store), **others)
        life.start()
        self.assertEqual(life.state, "passive")
        return life

    def member(self) -> Peer:
        peer = Peer(self.listeners[0])  # type: ignore[arg-type]
        peer.send(wire.ClusterConnect("u", "p"), CLUSTER_CHANNEL)
        return peer

    def test_a_passive_broker_can_answer_votes_until_it_is_active(self) -> None:
        life = self.passive()
        peer = self.member()
        peer.send(wire.QuorumVote("Ballot", b"1"), CLUSTER_CHANNEL)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.ClusterConnectReply(True), wire.QuorumVoteReply("Ballot", b"stored 1")])
        self.voter.grant()
        self.assertEqual((life.state, peer.transport.closed), ("active", True))
        self.stopped(life)

    def test_its_acceptors_stay_open_while_it_reads_the_journal_and_are_those_of_the_active_broker_then(self) -> None:
        life = self.passive()
        [store], [listeners], open_at = self.stores, self.listeners, []
        load = store.load
        self.patch(store, "load", lambda: (open_at.append(listeners.is_open), load())[1])
        waiting = listeners.server
        self.voter.grant()
        self.assertEqual((open_at, self.listeners, listeners.is_open), ([True], [listeners], True))
        self.assertIsNot(listeners.server, waiting)
        self.assertIs(listeners.server, life.active.server)
        self.stopped(life)
        self.assertFalse(listeners.is_open)

    def test_a_client_that_has_connected_before_hears_afterwards_that_it_is_to_connect_anew(self) -> None:
        life = self.passive()
        peer = Peer(self.listeners[0])  # type: ignore[arg-type]
        self.voter.grant()
        peer.send(wire.CheckForFailover("node"), SESSION_CHANNEL)
        self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(False)])
        self.stopped(life)
        self.assertTrue(peer.transport.closed)

    def test_its_ports_are_closed_before_clients_are_sent_away(self) -> None:
        life = self.passive()
        peer = Peer(self.listeners[0])  # type: ignore[arg-type]
        sent_away = self.sent_away_at_close(self.listeners[0], peer)
        self.stopped(life)
        self.assertEqual((sent_away, peer.transport.closed), ([False], True))

    def test_an_activation_that_fails_late_keeps_no_client_that_has_connected_before(self) -> None:
        life = self.passive()
        peer = Peer(self.listeners[0])  # type: ignore[arg-type]
        self.patch(self.voter, "serve", lambda *arguments: self.fail("broken"))
        self.assert_closed(life)
        self.assertTrue(peer.transport.closed)

    def assert_closed(self, life: BrokerLife) -> None:
        self.voter.grant()
        self.assertEqual((life.state, self.listeners[-1].is_open), ("failed", False))

    def test_a_journal_that_cannot_be_read_closes_them(self) -> None:
        life = self.passive()
        self.patch(self.stores[0], "load", lambda: self.fail("damaged"))
        self.assert_closed(life)

    def test_an_activation_that_fails_closes_them(self) -> None:
        life = self.passive()
        self.patch(self.listeners[0], "serve", lambda server: self.fail("broken"))
        self.assert_closed(life)


class TakenPortTests(PassiveCase):
    """Another program has the port of a broker that has waited, and seeks to be active."""

    def setUp(self) -> None:
        super().setUp()
        self.problem: StartError | None = StartError("the port is taken")
        self.tried = 0

    def seeking(self) -> BrokerLife:
        def make_listeners(server: Any) -> KnownListeners:
            self.tried += 1
            listeners = KnownListeners(server, self.problem)
            self.listeners.append(listeners)
            return listeners

        life = self.life(activation=self.activation, make_listeners=make_listeners)
        life.start()
        with capturedLogs() as captured:
            life.take_brokers("node", lambda channel: None)
            self.clock.advance(LISTEN_SECONDS)
            self.clock.advance(LISTEN_SECONDS)
        told = [text for text in map(formatEvent, captured) if text and "the port is taken" in text]
        self.assertEqual((self.tried, len(told), life.state), (3, 1, "passive"))
        return life

    def test_it_tries_again_and_remains_what_it_is(self) -> None:
        life = self.seeking()
        self.problem = None
        self.clock.advance(LISTEN_SECONDS)
        self.assertEqual((self.tried, self.listeners[-1].is_open), (4, True))
        self.clock.advance(10 * LISTEN_SECONDS)
        self.activation.grant()
        self.assertEqual((self.tried, life.state), (4, "active"))
        self.stopped(life)

    def test_it_is_active_when_the_port_is_free_then(self) -> None:
        life = self.seeking()
        self.problem = None
        self.activation.grant()
        self.clock.advance(10 * LISTEN_SECONDS)
        self.assertEqual((self.tried, life.state, self.failures), (4, "active", []))
        self.stopped(life)

    def test_it_fails_when_the_port_is_not_free_then(self) -> None:
        life = self.seeking()
        self.activation.grant()
        self.clock.advance(10 * LISTEN_SECONDS)
        self.assertEqual((self.tried, life.state, self.failures), (4, "failed", ["the port is taken"]))

    def test_it_tries_no_more_after_its_end(self) -> None:
        life = self.seeking()
        self.stopped(life)
        self.clock.advance(10 * LISTEN_SECONDS)
        self.assertEqual(self.tried, 3)

    def test_a_start_is_refused(self) -> None:
        """Who starts it hears of the port."""
        life = self.life(activation=Voter(), make_listeners=lambda server: KnownListeners(server, self.problem))
        life.start()
        self.settle()
        self.assertEqual((life.state, self.failures), ("failed", ["FencedError: the port is taken"]))


class SteppingBackTests(PassiveCase):
    """An active broker whose proof is lost ends at once, and seeks it anew."""

    def stepping_back(self) -> BrokerLife:
        life = self.life(activation=self.activation)
        life.start()
        self.activation.grant()
        self.make_queue(life)
        self.activation.candidate.start_again("node", lambda channel: None)
        return life

    def test_its_acceptors_stay_open_without_a_gap(self) -> None:
        life = self.stepping_back()
        [listeners] = self.listeners
        self.assertIsNot(listeners.server, life.active.server)
        while life.state != "passive":
            self.assertTrue(listeners.is_open)
            self.clock.advance(0.01)
        self.activation.grant()
        self.assertEqual((self.listeners, listeners.is_open), ([listeners], True))
        self.assertIs(listeners.server, life.active.server)
        self.stopped(life)
        self.assertFalse(listeners.is_open)

    def test_it_is_not_ready_and_has_not_failed(self) -> None:
        life = self.stepping_back()
        self.assertEqual((life.state, life.live()), ("becoming passive", None))
        self.assertEqual(life.ready(), "the broker is becoming passive (in line)")
        self.settle()
        self.assertEqual((life.state, life.live(), self.failures), ("passive", None, []))
        self.activation.grant()
        self.assertIn("q", life.active.messaging.core.queues)
        self.stopped(life)

    def test_a_stop_meanwhile_ends_the_search(self) -> None:
        life = self.stepping_back()
        ceased = self.activation.ceased
        self.stopped(life)
        self.assertEqual((life.state, self.activation.granted, self.activation.ceased), ("stopped", None, ceased + 1))
        self.assertFalse(self.listeners[0].is_open)

    def test_a_start_after_such_a_stop_is_the_only_one(self) -> None:
        life = self.stepping_back()
        life.stop().addCallback(lambda _: life.start())
        self.settle()
        self.assertEqual(life.state, "passive")
        self.stopped(life)

    def test_one_that_is_not_active_stays_as_it_is(self) -> None:
        life = self.life(activation=self.activation)
        life.start()
        self.activation.candidate.start_again("node", lambda channel: None)
        self.assertEqual(life.state, "passive")
        self.stopped(life)


class BeginningAgainTests(PassiveCase):
    """An active broker whose data are another one's ends at once, and begins anew when it may."""

    def beginning(self, ready: Deferred[None]) -> BrokerLife:
        life = self.life(activation=self.activation)
        life.start()
        self.activation.grant()
        self.activation.candidate.begin_again(ready)
        self.settle()
        return life

    def test_it_takes_no_clients_until_it_is_active_again(self) -> None:
        ready: Deferred[None] = Deferred()
        life = self.beginning(ready)
        self.assertEqual((life.state, self.listeners[0].is_open, self.failures), ("becoming passive", False, []))
        ready.callback(None)
        self.settle()
        self.assertEqual(life.state, "passive")
        self.activation.grant()
        self.assertEqual((life.state, self.listeners[1].is_open), ("active", True))
        self.stopped(life)

    def test_a_stop_meanwhile_is_the_end(self) -> None:
        ready: Deferred[None] = Deferred()
        life = self.beginning(ready)
        self.stopped(life)
        ready.callback(None)
        self.settle()
        self.assertEqual((life.state, len(self.listeners)), ("stopped", 1))

    def test_one_that_is_not_active_stays_as_it_is(self) -> None:
        life = self.life(activation=self.activation)
        life.start()
        ready: Deferred[None] = Deferred()
        ready.callback(None)
        self.activation.candidate.begin_again(ready)
        self.settle()
        self.assertEqual(life.state, "passive")
        self.stopped(life)
