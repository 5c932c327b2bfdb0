"""Sessions of kazoo's client, with a client that does as it is told; a real ZooKeeper answers in ``tests/interop/ha``."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, NoNodeError, RolledBackError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from twisted.trial.unittest import SynchronousTestCase

from mqbroker import zookeeper
from mqbroker.ha.locks.contract import UnavailableError
from mqbroker.ha.locks.zookeeper import session as port
from mqbroker.ha.locks.zookeeper.properties import ZooKeeperProperties
from mqbroker.zookeeper import KazooSession

WAIT_SECONDS = 20.0


class FakeClient:
    """The parts of ``KazooClient`` that a session uses."""

    connected = True
    client_id = (7, b"")
    timeout_ms = 30
    answer: Any = None
    """Of every request; an exception is raised."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.asked: list[tuple[Any, ...]] = []
        self.listeners: list[Any] = []
        self.ended: list[str] = []

    def start_async(self) -> threading.Event:
        event = threading.Event()
        if self.connected:
            event.set()
        return event

    def add_listener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def say(self, state: str) -> None:
        for listener in self.listeners:
            listener(state)

    def stop(self) -> None:
        self.ended.append("stop")

    def close(self) -> None:
        self.ended.append("close")

    def transaction(self) -> FakeClient:
        return self

    def __getattr__(self, name: str) -> Any:
        def ask(*arguments: Any, **options: Any) -> Any:
            self.asked.append((name.removesuffix("_async"), *arguments, *options))
            return SimpleNamespace(get=self.get)

        return ask

    def get(self, timeout: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class SessionCase(SynchronousTestCase):
    properties = {"connect-string": "a:1,b:2", "session-ms": "18000", "connection-ms": "10"}

    def setUp(self) -> None:
        self.clients: list[FakeClient] = []
        self.lost: list[str] = []
        self.is_lost = threading.Event()

    def make_client(self, **options: Any) -> FakeClient:
        self.clients.append(FakeClient(**options))
        return self.clients[-1]

    def told(self, reason: str) -> None:
        self.lost.append(reason)
        self.is_lost.set()

    def opened(self, **properties: str) -> KazooSession:
        found = self.properties | {name.replace("_", "-"): value for name, value in properties.items()}
        session = KazooSession(ZooKeeperProperties.parse(found), self.told, self.make_client)
        self.addCleanup(session.close)
        return session


class ConnectionTests(SessionCase):
    def test_what_the_client_is_told(self) -> None:
        session = self.opened(connect_string="[::1]:5,b")
        [client] = self.clients
        self.assertEqual((client.options["hosts"], client.options["timeout"]), ("[::1]:5,b:2181", 18.0))
        self.assertEqual((session.session_id, session.timeout_ms, session.is_over), (7, 30, False))

    def test_nobody_answers(self) -> None:
        self.patch(FakeClient, "connected", False)
        error = self.assertRaises(UnavailableError, self.opened)
        self.assertEqual(str(error), "no server of a:1,b:2 answers within 10 ms, or its answer was lost at once")
        self.assertEqual(self.clients[0].ended, ["stop", "close"])

    def test_a_session_that_expires_is_lost_once(self) -> None:
        session = self.opened()
        self.clients[0].say(KazooState.LOST)
        self.clients[0].say(KazooState.LOST)
        self.assertEqual(self.lost, ["its session has expired"])
        self.assertTrue(session.is_over)
        self.assertRaises(UnavailableError, session.sync, "/a")

    def test_an_interruption_of_a_third_of_the_session_is_its_loss(self) -> None:
        self.opened()
        self.clients[0].say(KazooState.SUSPENDED)
        self.clients[0].say(KazooState.SUSPENDED)
        self.assertTrue(self.is_lost.wait(WAIT_SECONDS))
        self.clients[0].say(KazooState.LOST)
        self.assertEqual(self.lost, ["no server has answered for 0.0099 s"])

    def test_a_shorter_interruption_is_none(self) -> None:
        self.patch(FakeClient, "timeout_ms", 1 << 30)
        session = self.opened()
        self.clients[0].say(KazooState.SUSPENDED)
        self.clients[0].say(KazooState.CONNECTED)
        self.assertIsNone(session._interrupted)
        self.assertFalse(session.is_over)

    def test_without_a_share_only_the_ensemble_ends_a_session(self) -> None:
        session = self.opened(session_percent="0")
        self.clients[0].say(KazooState.SUSPENDED)
        self.assertIsNone(session._interrupted)

    def test_a_connection_that_is_lost_at_once(self) -> None:
        self.patch(FakeClient, "client_id", None)
        self.assertRaises(UnavailableError, self.opened)
        self.assertEqual((self.clients[0].ended, self.lost), (["stop", "close"], []))

    def test_a_session_that_ends_while_it_begins(self) -> None:
        begin = FakeClient.start_async

        def begin_and_end(client: FakeClient) -> threading.Event:
            client.say(KazooState.LOST)
            return begin(client)

        self.patch(FakeClient, "start_async", begin_and_end)
        self.assertRaises(UnavailableError, self.opened)

    def test_an_end_that_was_asked_for_is_no_loss(self) -> None:
        session = self.opened()
        session.close()
        self.clients[0].say(KazooState.LOST)
        self.clients[0].say(KazooState.SUSPENDED)
        self.assertEqual(self.lost, [])
        self.assertEqual(self.clients[0].ended, ["stop", "close"])

    def test_a_client_that_cannot_be_stopped_is_told(self) -> None:
        session = self.opened()

        def fail(client: FakeClient) -> None:
            raise RuntimeError("the writer is still open")

        self.patch(FakeClient, "stop", fail)
        session.close()
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_client_that_hangs_is_not_waited_for(self) -> None:
        session = self.opened()
        stuck = threading.Event()
        self.addCleanup(stuck.set)
        self.patch(FakeClient, "stop", lambda client: stuck.wait())
        self.patch(zookeeper, "CLOSE_SECONDS", 0.01)
        session.close()


class RequestTests(SessionCase):
    def setUp(self) -> None:
        super().setUp()
        self.session = self.opened()
        [self.client] = self.clients

    def test_requests(self) -> None:
        self.client.answer = ["x"]
        self.assertEqual(self.session.children("/a"), ["x"])
        self.client.answer = SimpleNamespace(ephemeralOwner=9)
        self.assertEqual(self.session.owner("/a"), 9)
        self.client.answer = None
        self.assertIsNone(self.session.owner("/a"))
        self.client.answer = (b"x", SimpleNamespace(version=3))
        self.assertEqual(self.session.read("/a"), (b"x", 3))
        self.session.create("/a")
        self.session.create_contender("/a/b-", b"mark")
        self.assertEqual(self.client.asked[-1], ("create", "/a/b-", b"mark", "ephemeral", "sequence"))
        self.session.sync("/a")
        self.client.answer = NoNodeError()
        self.session.delete("/a")

    def test_errors(self) -> None:
        for error, expected in (
            (NoNodeError(), port.NoNodeError),
            (NodeExistsError(), port.NodeExistsError),
            (BadVersionError(), port.VersionError),
            (ConnectionLoss(), UnavailableError),
            (KazooTimeoutError(), UnavailableError),
            (OSError("no socket"), UnavailableError),
        ):
            self.client.answer = error
            self.assertRaises(expected, self.session.create, "/a")

    def test_a_write_looks_at_the_contender_in_the_same_step(self) -> None:
        self.client.answer = [True, SimpleNamespace()]
        self.session.write("/n", b"1", None, "/l")
        self.session.write("/n", b"2", 4, "/l")
        steps = [("check", "/l", -1), ("create", "/n", b"1"), ("commit",), ("check", "/l", -1), ("set_data", "/n", b"2", 4), ("commit",)]
        self.assertEqual(self.client.asked, steps)

    def test_a_write_that_is_refused(self) -> None:
        for results, expected in (
            ([NoNodeError(), RolledBackError()], port.NoNodeError),
            ([RolledBackError(), BadVersionError()], port.VersionError),
            ([RolledBackError(), NodeExistsError()], port.NodeExistsError),
        ):
            self.client.answer = results
            self.assertRaises(expected, self.session.write, "/n", b"1", 1, "/l")
