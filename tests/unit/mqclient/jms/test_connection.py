"""Connections whose sessions are opened by other threads meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.blocking import Runner as BlockingRunner
from mqclient.core.api import ClientSessionFactory
from mqclient.core.runtime import Runtime
from mqclient.jms.connection import Connection
from mqclient.jms.settings import FactorySettings
from tests.support.clock import ClientClock


class Core:
    """A session of the core client.  ``meanwhile`` is what another thread does while this one starts or stops."""

    def __init__(self) -> None:
        self.started = False
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

    def __init__(self) -> None:
        self.cores: list[Core] = []

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
