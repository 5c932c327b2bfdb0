"""Parameters of connection URLs."""

from __future__ import annotations

from dataclasses import fields

from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.settings import FactorySettings
from tests.unit.mqclient.jms.test_factory import UrlCase

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
    "exactlyOnce": ("true", True),
    "exactlyOnceWindowSize": ("1000", 1000),
    "exactlyOnceIdCacheSize": ("20", 20),
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


class SettingTests(UrlCase):
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
