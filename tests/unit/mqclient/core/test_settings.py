"""Settings that make no sense are refused where they are given."""

from __future__ import annotations

from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.settings import check_settings
from mqclient.jms import (
    AcknowledgeMode,
    ConnectionFactory,
    IllegalArgumentException,
)


class SettingTests(SynchronousTestCase):
    def refused(self, function: Any, *args: Any, **kwargs: Any) -> str:
        return str(self.assertRaises(IllegalArgumentException, function, *args, **kwargs))

    def test_values_of_the_wrong_type(self) -> None:
        for wrong, expected in (
            ({"reconnect_attempts": "many"}, "reconnect_attempts is 'many'; expected a whole number"),
            ({"reconnect_attempts": 1.5}, "expected a whole number"),
            ({"reconnect_attempts": True}, "expected a whole number"),
            ({"ha": "yes"}, "expected True or False"),
            ({"enable_shared_client_id": 1}, "expected True or False"),
            ({"retry_interval_multiplier": "2"}, "expected a number"),
            ({"client_id": 5}, "expected a text or None"),
            ({"connection_load_balancing_policy_class_name": None}, "expected a text"),
        ):
            with self.subTest(wrong=wrong):
                self.assertIn(expected, self.refused(ConnectionFactory, "tcp://h", **wrong))

    def test_values_out_of_range(self) -> None:
        self.assertIn("at least -1", self.refused(ConnectionFactory, "tcp://h", reconnect_attempts=-2))
        self.assertIn("at least 1", self.refused(ConnectionFactory, "tcp://h?callTimeout=0"))
        for name, setting in (("consumerWindowSize", "consumer_window_size"), ("minLargeMessageSize", "min_large_message_size")):
            self.assertIn(f"{setting} is 4294967296; it must be at most", self.refused(ConnectionFactory, f"tcp://h?{name}=4294967296"))
        settings = ConnectionFactory("tcp://h").settings
        self.assertIn("greater than 0", self.refused(setattr, settings, "retry_interval_multiplier", 0))
        self.assertIn("-1 (default) to 9", self.refused(setattr, settings, "compression_level", 10))
        settings.retry_interval_multiplier = 2
        self.assertEqual((settings.retry_interval_multiplier, settings.compression_level), (2, -1))

    def test_a_password_of_the_wrong_type_is_not_shown(self) -> None:
        self.assertNotIn("4711", self.refused(ConnectionFactory, "tcp://h", password=4711))

    def test_urls(self) -> None:
        for url in ("nonsense", "tcp://h:x", "tcp://h?callTimeout=soon", "tcp://h?enable1xPrefixes=perhaps", "udp://h:1?localBindPort=x"):
            with self.subTest(url=url):
                self.refused(ConnectionFactory, url)

    def test_they_are_value_errors_too(self) -> None:
        self.assertRaises(ValueError, ConnectionFactory, "nonsense")

    def test_the_mode_in_the_place_of_the_user(self) -> None:
        self.assertIn("session_mode=…", self.refused(ConnectionFactory("tcp://h").create_context, AcknowledgeMode.CLIENT_ACKNOWLEDGE))

    def test_the_defaults_and_the_core_pass(self) -> None:
        check_settings(LocatorSettings())
        self.assertRaises(ValueError, check_settings, LocatorSettings(reconnect_attempts=cast(Any, "many")))

    def test_the_mode_is_the_third_argument(self) -> None:
        modes: list[object] = []

        class Factory(ConnectionFactory):
            def create_connection(self, user: str | None = None, password: str | None = None) -> Any:
                return self

            def create_session(self, mode: object) -> object:
                modes.append(mode)
                return object()

        Factory("tcp://h").create_context("u", "p", AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        self.assertEqual(modes, [AcknowledgeMode.CLIENT_ACKNOWLEDGE])
