"""Connection factories and JNDI names: what a URL or a properties file means."""

from __future__ import annotations

import warnings
from dataclasses import fields
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import TransportConfiguration
from mqclient.jms.destinations import Queue, Topic
from mqclient.jms.exceptions import IllegalArgumentException, IllegalStateException, JMSException
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.modes import AcknowledgeMode, session_flags
from mqclient.jms.settings import FactorySettings
from mqclient.jms.xa import XAConnectionFactory
from mqclient.jndi import InitialContext, NamingException

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


class ModeTests(SynchronousTestCase):
    def test_the_flags_of_every_mode(self) -> None:
        settings = FactorySettings(ack_batch_size=1, transaction_batch_size=2, dups_ok_batch_size=3)
        for mode, flags in [
            (AcknowledgeMode.SESSION_TRANSACTED, (False, False, False, 2)),
            (AcknowledgeMode.AUTO_ACKNOWLEDGE, (True, True, False, 0)),
            (AcknowledgeMode.CLIENT_ACKNOWLEDGE, (True, False, False, 1)),
            (AcknowledgeMode.DUPS_OK_ACKNOWLEDGE, (True, True, False, 3)),
            (AcknowledgeMode.PRE_ACKNOWLEDGE, (True, False, True, 2)),
            (AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE, (True, False, False, 1)),
        ]:
            self.assertEqual(session_flags(mode, settings), flags)
        self.assertRaises(JMSException, session_flags, 55, settings)

    def test_settings_change_them(self) -> None:
        settings = FactorySettings(pre_acknowledge=True, block_on_acknowledge=True, transaction_batch_size=2)
        self.assertEqual(session_flags(AcknowledgeMode.CLIENT_ACKNOWLEDGE, settings), (True, False, True, 2))
        self.assertFalse(session_flags(AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE, settings).pre_acknowledge)


class JndiTests(SynchronousTestCase):
    def test_a_properties_file(self) -> None:
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "jndi.properties").write_text(
            "java.naming.factory.initial = org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory\n"
            "connectionFactory.orders=(tcp://a:61616,tcp://b:61616)?ha=true\n"
            "queue.jobs/new=jobs.incoming?max-consumers=1\ntopic.news=news\nother.key=ignored\n"
        )
        for source in (folder, folder / "jndi.properties", str(folder)):
            context = InitialContext(source)
            self.assertEqual(sorted(context), ["jobs/new", "news", "orders"])
            self.assertTrue(context.connection_factory("orders").settings.ha)
            self.assertEqual((context.queue("jobs/new"), context.topic("news")), (Queue("jobs.incoming"), Topic("news")))
            self.assertIs(context.lookup("orders"), context["orders"])
        self.assertRaises(OSError, InitialContext, folder / "missing.properties")

    def test_the_provider_url(self) -> None:
        self.assertEqual(len(InitialContext({"java.naming.provider.url": "tcp://h:1"})), 6)
        one = InitialContext({"java.naming.provider.url": "tcp://h:1?type=XA_CF"})
        self.assertEqual(list(one), ["XAConnectionFactory"])
        self.assertEqual(InitialContext({"java.naming.provider.url": "tcp://h:1"}).connection_factory().settings.ha, False)

    def test_distributed_transactions(self) -> None:
        context = InitialContext({"java.naming.provider.url": "tcp://h:1", "connectionFactory.x": "tcp://h:1?type=xa_cf&ha=true"})
        kinds = {name: type(bound) for name, bound in context.items()}
        self.assertEqual({kind for name, kind in kinds.items() if "XA" in name or name == "x"}, {XAConnectionFactory})
        self.assertEqual({kind for name, kind in kinds.items() if "XA" not in name and name != "x"}, {ConnectionFactory})
        self.assertTrue(context.xa_connection_factory("x").settings.ha)
        self.assertIs(context.xa_connection_factory(), context.lookup("XAQueueConnectionFactory"))
        self.assertRaises(NamingException, context.xa_connection_factory, "ConnectionFactory")
        for kind in ("QUEUE_XA_CF", "TOPIC_XA_CF"):
            made = InitialContext({"connection.y": f"tcp://h:1?type={kind}"}).lookup("y")
            self.assertIsInstance(made, XAConnectionFactory)
        self.assertRaisesRegex(ValueError, "connectionFactory.z.*XCF.*XA_CF", InitialContext, {"connectionFactory.z": "tcp://h?type=XCF"})

    def test_dynamic_names(self) -> None:
        context = InitialContext({})
        self.assertEqual((context.lookup("dynamicQueues/a/b"), context.lookup("dynamicTopics/t")), (Queue("a/b"), Topic("t")))
        self.assertIs(context["dynamicQueues/a/b"], context["dynamicQueues/a/b"])

    def test_spellings_of_the_early_chapters(self) -> None:
        old = "org.apache.activemq.api.core.client.loadbalance.RandomConnectionLoadBalancingPolicy"
        context = InitialContext(
            {
                "java.naming.factory.initial": "org.apache.activemq.jndi.ActiveMQInitialContextFactory",
                "connectionFactory.discovered": "udp://231.7.7.7:9876",
                "connectionFactory.listed": "(tcp://myhost:61616,tcp://myhost2:61616)",
                "connection.balanced": f"tcp://localhost:61616?loadBalancingPolicyClassName={old}",
                "connectionFactory.failover": "(tcp://localhost:61616?name=node-0,tcp://localhost:61617?name=node-1)?ha=true&reconnectAttempts=-1",
            }
        )
        self.assertEqual(len(context.connection_factory("listed").connectors), 2)
        self.assertEqual(context.connection_factory("balanced").settings.connection_load_balancing_policy_class_name, old)
        self.assertEqual([one.name for one in context.connection_factory("failover").connectors], ["node-0", "node-1"])
        self.assertEqual(list(context.connection_factory("discovered").connectors), [])

    def test_errors(self) -> None:
        context = InitialContext({"queue.jobs": "jobs", "connectionFactory.cf": ""})
        with self.assertRaisesRegex(NamingException, "jobs"):
            context.lookup("jbos")
        self.assertRaises(NamingException, context.topic, "jobs")
        self.assertRaises(NamingException, context.queue, "cf")
        self.assertRaises(NamingException, context.connection_factory, "jobs")
        self.assertNotIn("dynamicQueues/", context)
        with self.assertRaisesRegex(ValueError, "connectionFactory.bad"):
            InitialContext({"connectionFactory.bad": "htp://x"})
