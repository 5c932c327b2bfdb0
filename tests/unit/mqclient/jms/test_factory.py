"""Connection factories and JNDI names: what a URL or a properties file means."""

from __future__ import annotations

import warnings
from dataclasses import fields

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import TransportConfiguration
from mqclient.jms.exceptions import IllegalArgumentException, IllegalStateException
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.settings import FactorySettings

PARAMETERS = {
    "ha": ("true", True),
    "useTopologyForLoadBalancing": ("false", False),
    "connectionLoadBalancingPolicyClassName": (
        "org.apache.activemq.artemis.api.core.client.loadbalance.RandomConnectionLoadBalancingPolicy",
    )
    * 2,
    "callTimeout": ("1", 1),
    "callFailoverTimeout": ("-1", -1),
    "clientFailureCheckPeriod": ("2", 2),
    "connectionTTL": ("3", 3),
    "retryInterval": ("4", 4),
    "retryIntervalMultiplier": ("1.5", 1.5),
    "maxRetryInterval": ("5", 5),
    "reconnectAttempts": ("-1", -1),
    "initialConnectAttempts": ("6", 6),
    "failoverAttempts": ("7", 7),
    "confirmationWindowSize": ("8", 8),
    "consumerWindowSize": ("0", 0),
    "consumerMaxRate": ("9", 9),
    "producerMaxRate": ("10", 10),
    "producerWindowSize": ("11", 11),
    "blockOnDurableSend": ("false", False),
    "blockOnNonDurableSend": ("true", True),
    "blockOnAcknowledge": ("true", True),
    "preAcknowledge": ("true", True),
    "ackBatchSize": ("12", 12),
    "transactionBatchSize": ("13", 13),
    "dupsOKBatchSize": ("14", 14),
    "autoGroup": ("true", True),
    "groupID": ("g", "g"),
    "minLargeMessageSize": ("200", 200),
    "compressLargeMessage": ("true", True),
    "compressionLevel": ("9", 9),
    "onMessageCloseTimeout": ("15", 15),
    "cacheDestinations": ("true", True),
    "enable1xPrefixes": ("true", True),
    "enableSharedClientID": ("true", True),
    "user": ("u", "u"),
    "password": ("p%26", "p&"),
    "clientID": ("c", "c"),
    "refreshTimeout": ("16", 16),
    "discoveryInitialWaitTimeout": ("17", 17),
}
INERT = (
    "cacheLargeMessagesClient",
    "initialMessagePacketSize",
    "useGlobalPools",
    "threadPoolMaxSize",
    "scheduledThreadPoolMaxSize",
    "flowControlThreadPoolMaxSize",
    "ignoreJTA",
    "incomingInterceptorList",
    "outgoingInterceptorList",
    "protocolManagerFactoryStr",
    "deserializationDenyList",
    "deserializationAllowList",
    "passwordCodec",
    "type",
    "stoppingTimeout",
)


class UrlTests(SynchronousTestCase):
    def warned(self, url: str) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ConnectionFactory(url)
        return [str(warning.message) for warning in caught]

    def test_every_parameter(self) -> None:
        names = {entry.metadata["url"]: entry.name for entry in fields(FactorySettings) if "url" in entry.metadata}
        self.assertEqual(set(PARAMETERS), set(names))
        query = "&".join(f"{name}={text}" for name, (text, _) in PARAMETERS.items())
        factory = ConnectionFactory(f"tcp://h:1?{query}")
        self.assertEqual(
            {name: getattr(factory.settings, names[name]) for name in names}, {name: value for name, (_, value) in PARAMETERS.items()}
        )

    def test_parameters_without_effect_are_accepted(self) -> None:
        for name in INERT:
            for sentence in self.warned(f"tcp://h:1?{name}=1"):
                self.assertRegex(sentence, f"{name} has no effect: .+")

    def test_unknown_parameters_warn_and_name_the_nearest(self) -> None:
        for given, nearest in [("connectionTtl", "connectionTTL"), ("clientId", "clientID"), ("reconectAttempts", "reconnectAttempts")]:
            (text,) = self.warned(f"tcp://h:1?{given}=1")
            self.assertRegex(text, f"{given} .*{nearest}")

    def test_bad_values_name_parameter_and_kind(self) -> None:
        for given, expected in [("callTimeout=soon", "number"), ("ha=maybe", "true"), ("cacheDestinations=x", "true")]:
            name, _, value = given.partition("=")
            with self.assertRaisesRegex(ValueError, f"{name}='?{value}'?: expected .*{expected}"):
                ConnectionFactory(f"tcp://h:1?{given}")

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

    def test_a_frozen_factory_cannot_be_set(self) -> None:
        settings = FactorySettings()
        settings.freeze()
        with self.assertRaises(IllegalStateException):
            settings.call_timeout = 1

    def test_passwords_are_not_shown(self) -> None:
        factory = ConnectionFactory("tcp://h:1?user=u&password=hidden")
        self.assertNotIn("hidden", repr(factory) + repr(factory.settings))
