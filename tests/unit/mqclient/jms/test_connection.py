"""Connections whose sessions are opened and closed by other threads meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.blocking import Runner as BlockingRunner
from mqclient.core.api import ClientSessionFactory
from mqclient.core.runtime import Runtime
from mqclient.errors import IllegalStateError, ObjectClosedError
from mqclient.jms.connection import Connection
from mqclient.jms.exceptions import IllegalStateException
from mqclient.jms.settings import FactorySettings
from tests.support.clock import ClientClock


class Core:
    """A session of the core client.  ``meanwhile`` is what another thread does while this one starts or stops."""

    def __init__(self) -> None:
        self.started = self.closed = False
        self.meanwhile: Callable[[], object] = lambda: None

    def start(self) -> None:
        self.started = True
        self.meanwhile()

    def stop(self) -> None:
        self.started = False
        self.meanwhile()

    def add_metadata(self, key: str, data: str) -> None: ...

    def add_failure_listener(self, listener: object) -> None: ...

    def add_failover_listener(self, listener: object) -> None: ...


class Runner:
    """The runner, and the factory of the core client."""

    closed = False
    usable = True

    def __init__(self) -> None:
        self.cores: list[Core] = []
        self.inside = False

    def in_reactor_thread(self) -> bool:
        return self.inside

    def check(self) -> None:
        if self.inside:
            raise IllegalStateError("a blocking call in the reactor's thread")

    def call(self, function: Any, *args: object, **kwargs: object) -> Any:
        return function(*args, **kwargs)

    post = call

    def sender(self, session: object) -> None: ...

    def create_session(self, *args: object, **kwargs: object) -> Core:
        self.cores.append(Core())
        return self.cores[-1]


class StartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runner = Runner()
        factory = cast(ClientSessionFactory, self.runner)
        runtime = cast(Runtime, ClientClock())
        self.connection = Connection(cast(BlockingRunner, self.runner), runtime, factory, FactorySettings(), (None, None))
        self.connection.create_session()

    def test_a_session_that_is_opened_during_the_start_is_started(self) -> None:
        """Its consumers would wait for ever."""
        self.runner.cores[-1].meanwhile = self.connection.create_session
        self.connection.start()
        self.assertEqual([core.started for core in self.runner.cores[1:]], [True, True])

    def test_one_that_is_opened_during_the_stop_is_not(self) -> None:
        self.connection.start()
        self.runner.cores[-1].meanwhile = self.connection.create_session
        self.connection.stop()
        self.assertEqual([core.started for core in self.runner.cores[1:]], [False, False])

    def end_meanwhile(self) -> None:
        """Another thread closes a session after the others were counted."""
        core = self.runner.cores[-1]

        def ended() -> None:
            raise ObjectClosedError("the session is closed")

        core.closed, core.start, core.stop = True, ended, ended  # type: ignore[method-assign]

    def test_a_session_that_has_ended_alone_does_not_keep_the_others_from_starting_and_stopping(self) -> None:
        self.end_meanwhile()
        self.connection.create_session()
        self.connection.start()
        self.assertTrue(self.runner.cores[-1].started)
        self.connection.stop()
        self.assertFalse(self.runner.cores[-1].started)

    def test_a_connection_that_has_ended_cannot_be_started(self) -> None:
        self.end_meanwhile()
        self.runner.closed = True
        self.assertRaises(IllegalStateException, self.connection.start)


class CloseTests(SynchronousTestCase):
    def test_in_the_thread_of_the_reactor_nothing_is_closed_and_that_is_said(self) -> None:
        """A close that only seems to have happened could not be made up for: the next one does nothing."""
        runner = Runner()
        factory, runtime = cast(ClientSessionFactory, runner), cast(Runtime, ClientClock())
        connection = Connection(cast(BlockingRunner, runner), runtime, factory, FactorySettings(), (None, None))
        session = connection.create_session()
        runner.inside = True
        for close in (session.close, connection.close):
            self.assertRaises(IllegalStateException, close)
        self.assertEqual((session.closed, connection.closed), (False, False))
