"""JNDI names in properties files."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.destinations import Queue, Topic
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.xa import XAConnectionFactory
from mqclient.jndi import InitialContext, NamingException


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

    def test_errors_name_the_key_or_the_file(self) -> None:
        for key in ("queue.jobs", "topic.news"):
            self.assertRaisesRegex(ValueError, key, InitialContext, {key: ""})
        file = Path(self.mktemp())
        file.write_text("queue.jobs=\\u12")
        self.assertRaisesRegex(ValueError, str(file), InitialContext, file)
