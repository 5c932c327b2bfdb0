"""Connection factories and JNDI names: what a URL or a properties file means."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient import blocking
from mqclient.core.api import TransportConfiguration
from mqclient.errors import IllegalStateError
from mqclient.jms.exceptions import IllegalArgumentException, IllegalStateException
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.settings import FactorySettings


class UrlCase(SynchronousTestCase):
    def warned(self, url: str) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ConnectionFactory(url)
        return [str(warning.message) for warning in caught]


class UrlTests(UrlCase):
    def test_connectors(self) -> None:
        one, two = ConnectionFactory("(tcp://a:1?name=n0&sslEnabled=true,tcp://b)?reconnectAttempts=3&trustAll=true").connectors
        self.assertEqual((one.name, dict(one.parameters)), ("n0", {"host": "a", "port": "1", "sslEnabled": "true", "trustAll": "true"}))
        self.assertEqual(dict(two.parameters), ({"host": "b", "port": "61616", "trustAll": "true"}))
        given = [TransportConfiguration("x", "factory", (("host", "h"),))]
        self.assertEqual(list(ConnectionFactory(given, ha=True).connectors), given)

    def test_in_vm_connections_are_not_pinged(self) -> None:
        settings = ConnectionFactory("vm://0").settings
        self.assertEqual((settings.connection_ttl, settings.client_failure_check_period), (-1, -1))

    def test_keywords_win_over_the_url(self) -> None:
        self.assertEqual(ConnectionFactory("tcp://h?callTimeout=1", call_timeout=2).settings.call_timeout, 2)
        with self.assertRaisesRegex(AttributeError, "call_timeout"):
            ConnectionFactory("tcp://h", call_timout=2)
        with self.assertRaises(AttributeError):
            ConnectionFactory("tcp://h").settings.reconnects = 1

    def test_masked_passwords(self) -> None:
        self.assertRaises(IllegalArgumentException, ConnectionFactory, "tcp://h?password=ENC(x)")
        self.assertEqual(ConnectionFactory("tcp://h?password=ENC(x)", password_codec=str.upper).settings.password, "X")
        stores = "keyStorePassword=ENC(x)&trustStorePassword=ENC(y)"
        [connector] = ConnectionFactory(f"(tcp://h?{stores})?sslEnabled=true", password_codec=str.upper).connectors
        self.assertEqual([dict(connector.parameters)[f"{name}StorePassword"] for name in ("key", "trust")], ["X", "Y"])
        self.assertRaises(IllegalArgumentException, ConnectionFactory, f"tcp://h?{stores}")

    def test_a_frozen_factory_cannot_be_set(self) -> None:
        settings = FactorySettings()
        settings.freeze()
        with self.assertRaises(IllegalStateException):
            settings.call_timeout = 1

    def test_passwords_are_not_shown(self) -> None:
        factory = ConnectionFactory("tcp://h:1?user=u&password=hidden")
        self.assertNotIn("hidden", repr(factory) + repr(factory.settings))


class Runner:
    """A runner with its locators, whose connections are all played by one object."""

    def __init__(self) -> None:
        self.usable = True
        self.locators: list[Locator] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def locator(self, *_: object) -> Locator:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.locators.append(Locator())
        return self.locators[-1]

    def call(self, function: Callable[..., Any], *args: object) -> Any:
        if not self.usable:
            raise IllegalStateError("the connection was opened before the process forked")
        return function(*args)


class Locator:
    runtime = None

    def __init__(self) -> None:
        self.did: list[str] = []

    def create_session_factory(self) -> list[str]:
        self.did.append("connect")
        return self.did

    def close(self) -> None:
        self.did.append("close")


class Played:
    """A connection; it writes down what happens to it."""

    def __init__(self, runner: object, runtime: object, did: list[str], *_: object) -> None:
        self.closed = False
        self._did = did

    def close(self) -> None:
        self.closed = True
        self._did.append("close the connection")


class MadeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runner = self.current = Runner()
        self.patch(blocking, "get_runner", lambda: self.current)
        self.factory = ConnectionFactory("tcp://h")

    def connect(self) -> None:
        self.factory._connect(cast(Any, Played), None, None)

    def test_connections_are_closed_as_such(self) -> None:
        """A listener that runs would lose its session, and its message would come again although it was handled."""
        self.connect()
        self.factory.close()
        self.factory.close()
        [locator] = self.runner.locators
        self.assertEqual(locator.did[:3], ["connect", "close the connection", "close"])

    def test_closed_connections_are_not_kept(self) -> None:
        for _ in range(3):
            self.connect()
            [connection] = self.factory._made[cast(Any, self.runner)].connections
            connection.close()

    def test_in_a_forked_process_it_connects_anew(self) -> None:
        self.connect()
        self.runner.usable, self.current = False, Runner()
        self.connect()
        self.factory.close()
        self.assertEqual(self.current.locators[0].did, ["connect", "close the connection", "close"])
        self.assertEqual(self.runner.locators[0].did, ["connect"])

    def test_two_threads_that_come_first_together(self) -> None:
        """The connections of a locator that nobody knows any more would be left open."""
        self.runner.meanwhile = self.connect
        self.connect()
        self.factory.close()
        self.assertEqual(self.runner.locators[0].did, ["connect"] * 2 + ["close the connection"] * 2 + ["close"])
