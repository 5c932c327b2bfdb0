"""What of a connection URL holds for queries, and what does not."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.errors import NotConnectedError
from mqspark.broker import connection
from mqspark.broker.broker import connect
from mqspark.errors import BrokerUnreachableError
from mqspark.options import Options, Use


class SettingsTests(SynchronousTestCase):
    def settings_for(self, parameters: str) -> LocatorSettings:
        found: list[LocatorSettings] = []

        def locator(runtime: Any, brokers: Any, settings: LocatorSettings) -> Any:
            found.append(settings)
            raise NotConnectedError("nobody is there")

        self.patch(connection, "Locator", locator)
        options = Options.parse({"url": f"tcp://127.0.0.1:1?{parameters}", "connectTimeout": "1"}, Use.JOB)
        self.assertRaises(BrokerUnreachableError, connect, options)
        return found[0]

    def test_nothing_is_acknowledged_before_it_is_delivered(self) -> None:
        """On a broker without readers messages that are not wanted come along, and are given back."""
        self.assertFalse(self.settings_for("preAcknowledge=true").pre_acknowledge)

    def test_reconnecting_is_the_business_of_the_query(self) -> None:
        found = self.settings_for("reconnectAttempts=-1&failoverAttempts=-1&initialConnectAttempts=-1&callTimeout=1234")
        self.assertEqual((found.reconnect_attempts, found.failover_attempts, found.initial_connect_attempts), (0, 0, 1))
        self.assertEqual(found.call_timeout, 1234)
