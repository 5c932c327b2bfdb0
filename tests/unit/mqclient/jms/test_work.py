"""What sessions share: waiting for asynchronous sends, and how they end."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.blocking import Runner as BlockingRunner
from mqclient.core.api import ClientSession
from mqclient.core.runtime import Runtime
from mqclient.errors import NotConnectedError
from mqclient.jms import AcknowledgeMode, IllegalStateException, JMSException, Queue
from mqclient.jms.modes import session_flags
from mqclient.jms.settings import FactorySettings
from mqclient.jms.work import ConnectionWork, SessionWork, close_quietly
from tests.support.clock import ClientClock


class Runner:
    """The runner, the sender and the thread of listeners of the one session."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.failure: Exception | None = None
        self.inside = False

    def call(self, function: Any, *args: object) -> None:
        self.calls.append((function, *args))
        if self.failure is not None:
            raise self.failure

    def sender(self, session: object) -> Runner:
        return self

    def dispatcher(self, session: object) -> Runner:
        return self

    def settle(self) -> None:
        self.calls.append("settle")
        if self.failure is not None:
            raise self.failure

    def close(self, timeout: int) -> None:
        self.calls.append(("no more listeners", timeout))

    def in_thread(self) -> bool:
        return self.inside


class Core:
    commit, rollback = "commit", "rollback"


class Consumer:
    def __init__(self, calls: list[object]) -> None:
        self.calls = calls

    def acknowledge_owed(self) -> None:
        self.calls.append("acknowledge")

    def close(self) -> None:
        self.calls.append("close")


class WorkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runner = Runner()
        self.settings = FactorySettings(call_timeout=1, on_message_close_timeout=7)
        self.connection = ConnectionWork(cast(BlockingRunner, self.runner), cast(Runtime, ClientClock()), self.settings)

    def work(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> SessionWork:
        return SessionWork(self.connection, cast(ClientSession, Core()), mode, session_flags(mode, self.settings))

    def test_the_end_stops_listeners_then_settles_sends_then_acknowledges(self) -> None:
        work = self.work()
        work.listener_thread()
        work.consumers.add(Consumer(self.runner.calls))
        self.runner.failure = NotConnectedError("gone")
        work.end()
        self.assertEqual(self.runner.calls, [("no more listeners", 7), "settle", "acknowledge"])
        self.assertEqual((work.closed, work.consumers), (True, set()))
        self.assertRaises(IllegalStateException, work.check_open)

    def test_client_mode_alone_acknowledges_all(self) -> None:
        self.work().acknowledge()
        self.assertEqual(self.runner.calls, [])
        self.work(AcknowledgeMode.CLIENT_ACKNOWLEDGE).acknowledge()
        self.assertEqual(self.runner.calls, [("commit", False)])

    def test_completions_are_waited_for_but_not_in_a_listener(self) -> None:
        work = self.work()
        sent: Future[None] = Future()
        work.track(sent)
        work.listener_thread()
        self.runner.inside = True
        work.await_completions()  # would wait for itself
        self.runner.inside = False
        sent.set_result(None)
        work.await_completions()
        self.assertEqual(work._pending, set())

    def test_errors_of_the_core_client_are_jms_exceptions(self) -> None:
        self.runner.failure = NotConnectedError("gone")
        self.assertRaises(JMSException, self.work().rollback, True)

    def test_destinations_are_found_once_where_the_factory_asks_for_that(self) -> None:
        found: list[str] = []

        def find(name: str) -> Queue:
            found.append(name)
            return Queue(name)

        self.assertIsNot(self.connection.cached(Queue, "q", find), self.connection.cached(Queue, "q", find))
        self.settings.cache_destinations = True
        self.assertIs(self.connection.cached(Queue, "q", find), self.connection.cached(Queue, "q", find))
        self.assertEqual(len(found), 3)

    def test_messages_are_marked_with_the_client_id_or_else_with_an_id_of_the_connection(self) -> None:
        self.assertNotEqual(self.connection.connection_id, "")
        self.connection.client_id = "me"
        self.assertEqual(self.connection.connection_id, "me")


class QuietTests(SynchronousTestCase):
    def test_failures_of_the_network_are_not_told_and_others_are(self) -> None:
        for error in (NotConnectedError("gone"), JMSException("gone")):
            close_quietly(lambda error=error: self.failing(error))
        self.assertRaises(OSError, close_quietly, lambda: self.failing(OSError("the file")))

    def failing(self, error: Exception) -> None:
        raise error
