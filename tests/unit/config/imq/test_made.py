"""The configuration that properties make."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.masking import CODEC_CLASS, DEFAULT_KEY, KEY_VARIABLE, encode_masked, wrap
from mqbroker.config.model.address_settings import ANYCAST, MULTICAST
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import Configuration
from mqclient.urls import TransportUri
from tests.unit.config.imq.support import FOLDER, Made

CLUSTER = "imq.cluster.brokerlist=here,b:7677\n"
STORE = "imq.keystore.password=secret\n"


class LinkTests(SynchronousTestCase):
    def test_the_cluster_connection(self) -> None:
        made = Made(CLUSTER + "imq.cluster.ping.interval=10\nimq.cluster.tcp.nodelay=false")
        configuration = made.configuration
        [connection] = configuration.cluster_connections
        self.assertEqual((connection.name, connection.connector_ref, connection.static_connectors), ("imq", "imq", ("imq-b:7677",)))
        self.assertEqual((connection.check_period, connection.connection_ttl, connection.retry_interval), (10000, 20000, 5000))
        other = configuration.connectors["imq-b:7677"]
        self.assertEqual((other.host, other.port, dict(other.parameters)), ("b", 7677, {"tcpNoDelay": "false"}))
        self.assertEqual(str(configuration.connectors["imq"]), "tcp://here:7676")
        self.assertEqual((configuration.name, configuration.joins_others), ("b1", True))

    def test_another_cluster_model_stops_the_start(self) -> None:
        configuration = Configuration(cluster_connections=[ClusterConnectionConfiguration("a", "b")], has_ha_policy=True)
        errors = Made("", configuration=configuration).errors
        self.assertEqual([error.partition(": ")[0] for error in errors], [f"{FOLDER}/etc/broker.xml"] * 2)
        self.assertIn("<cluster-connections>: the members of a home cluster are those of imq.cluster.brokerlist", errors[0])
        self.assertIn("<ha-policy>: ", errors[1])

    def test_the_default_password_of_links_is_told(self) -> None:
        [warning] = Made("", configuration=Configuration()).warnings
        self.assertIn(f"{FOLDER}/etc/broker.xml: AMQ222007: Security risk!", warning)
        self.assertEqual(Made("").warnings, [])

    def test_times_and_limits(self) -> None:
        home = Made("imq.cluster.waitReplyTimeout=7\nimq.cluster.locktimeout=8\nimq.reconnect.interval=9\nimq.cluster.clusterid=c").home
        self.assertEqual((home.wait_reply_s, home.lock_timeout_s), (7, 8))
        self.assertEqual((home.reconnect_interval_multiplier, home.cluster_id), (9, "c"))


class AcceptorTests(SynchronousTestCase):
    def acceptors(self, text: str, configuration: Configuration | None = None) -> list[tuple[str, str, bool]]:
        made = Made(text, configuration=configuration)
        self.assertEqual(made.errors, [])
        return [(each.name, str(each), "sslEnabled" in each.parameters) for each in made.configuration.acceptors]

    def test_one_port_for_clients_and_links(self) -> None:
        self.assertEqual(self.acceptors(""), [("jms", "tcp://0.0.0.0:7676", False)])
        self.assertEqual(self.acceptors("imq.hostname=10.0.0.1\nimq.portmapper.port=1"), [("jms", "tcp://10.0.0.1:1", False)])
        self.assertEqual(self.acceptors("imq.cluster.brokerlist=localhost"), [("jms", "tcp://localhost:7676", False)])

    def test_acceptors_of_the_broker_xml_are_further_ones(self) -> None:
        configuration = Configuration(acceptors=[TransportUri("tcp", "0.0.0.0", 61616, {}, "artemis")])
        self.assertEqual([name for name, _, _ in self.acceptors("", configuration)], ["jms", "artemis"])

    def test_fixed_ports_of_services(self) -> None:
        text = STORE + "imq.jms.tcp.port=7001\nimq.service.activelist=jms,ssljms\nimq.ssljms.tls.port=7002\nimq.ssljms.hostname=h"
        expected = [("jms", "tcp://0.0.0.0:7676", False), ("jms-tcp", "tcp://0.0.0.0:7001", False), ("ssljms", "tcp://h:7002", True)]
        self.assertEqual(self.acceptors(text), expected)

    def test_the_secure_service_of_administrators_has_a_port_of_its_own(self) -> None:
        text = STORE + "imq.service.activelist=jms,ssladmin\n"
        self.assertEqual(self.acceptors(text), [("jms", "tcp://0.0.0.0:7676", False), ("ssladmin", "tcp://0.0.0.0:0", True)])
        found = self.acceptors(text + "imq.ssladmin.tls.port=7003\nimq.ssladmin.hostname=h")
        self.assertEqual(found[1:], [("ssladmin", "tcp://h:7003", True)])
        [error] = Made("imq.service.activelist=jms,ssladmin").errors
        self.assertIn("config.properties:1: imq.service.activelist: TLS needs imq.keystore.password", error)

    def test_links_with_tls_make_the_port_one_with_tls(self) -> None:
        made = Made(CLUSTER + STORE + "imq.cluster.transport=ssl\nimq.keystore.file.dirpath=keys\nimq.jms.tcp.port=7001")
        jms, plain = made.configuration.acceptors
        path = f"{FOLDER}/etc/keys/keystore"
        self.assertEqual(
            {name: jms.parameters[name] for name in ("keyStorePath", "keyStorePassword")},
            {"keyStorePath": path, "keyStorePassword": "secret"},
        )
        self.assertNotIn("sslEnabled", plain.parameters)
        link = made.configuration.connectors["imq-b:7677"].parameters
        self.assertEqual((link["sslEnabled"], link["trustStorePath"], link["trustStorePassword"]), ("true", path, "secret"))

    def test_without_the_plain_service_the_port_has_tls(self) -> None:
        self.assertEqual(self.acceptors(STORE + "imq.service.activelist=ssljms,ssladmin"), [("jms", "tcp://0.0.0.0:7676", True)])

    def test_tls_of_the_broker_xml_is_used(self) -> None:
        parameters = {"sslEnabled": "true", "keyStorePath": "/k", "keyStorePassword": "p", "protocols": "CORE"}
        trust = {"sslEnabled": "true", "trustStorePath": "/t"}
        configuration = Configuration(
            acceptors=[TransportUri("tcp", "h", 1, parameters, "tls")], connectors={"c": TransportUri("tcp", "h", 1, trust, "c")}
        )
        made = Made(CLUSTER + "imq.cluster.transport=ssl", configuration=configuration)
        self.assertEqual(made.configuration.acceptors[0].parameters["keyStorePath"], "/k")
        self.assertEqual(made.configuration.connectors["imq-b:7677"].parameters, trust)

    def test_the_password_comes_from_a_passfile_too(self) -> None:
        text = "imq.service.activelist=ssljms\nimq.passfile.enabled=true\nimq.passfile.dirpath=/p"
        made = Made(text, files={"/p/passfile": "imq.keystore.password=hidden"})
        self.assertEqual(made.configuration.acceptors[0].parameters["keyStorePassword"], "hidden")
        self.assertIn("/p/passfile: the passfile cannot be read", Made(text).errors[0])

    def test_a_masked_password_has_the_key_that_mask_uses(self) -> None:
        codec = Configuration(cluster_user="links", cluster_password="links", password_codec=f"{CODEC_CLASS};key=own")
        cases: tuple[tuple[str, dict[str, Any]], ...] = (
            ("own", {"configuration": codec}),
            ("all", {"environment": {KEY_VARIABLE: "all"}}),
            (DEFAULT_KEY, {}),
        )
        for key, more in cases:
            made = Made(f"imq.cluster.transport=ssl\nimq.keystore.password={wrap(encode_masked('secret', key))}", **more)
            self.assertEqual(made.errors, [])
            self.assertEqual(made.configuration.acceptors[0].parameters["keyStorePassword"], "secret")

    def test_tls_without_a_password_stops_the_start(self) -> None:
        [error] = Made("imq.cluster.transport=ssl").errors
        self.assertIn("imq.cluster.transport: TLS needs imq.keystore.password", error)
        self.assertIn("a masked password cannot be read", Made("imq.cluster.transport=ssl\nimq.keystore.password=ENC(1)").errors[0])

    def test_services_that_are_not_there(self) -> None:
        errors = Made("imq.service.activelist=jms,httpjms,sssljms").errors
        self.assertIn("service httpjms: its protocol is not spoken", errors[0])
        self.assertIn("service sssljms: it is not known; did you mean ssljms?", errors[1])


class DestinationTests(SynchronousTestCase):
    def test_the_dead_message_queue_is_there_and_used_by_everything(self) -> None:
        configuration = Made("").configuration
        [address] = configuration.addresses
        self.assertEqual((address.name, [queue.name for queue in address.queues]), ("mq.sys.dmq", ["mq.sys.dmq"]))
        settings = configuration.address_settings_repository().lookup("anything")
        self.assertEqual((settings.dead_letter_address, settings.expiry_address), ("mq.sys.dmq", "mq.sys.dmq"))
        self.assertEqual(configuration.message_expiry_scan_period, 60000)

    def test_the_time_of_automatic_destinations(self) -> None:
        settings = Made("").configuration.address_settings_repository().lookup("a")
        self.assertEqual((settings.auto_delete_queues_delay, settings.auto_delete_addresses_delay), (120000, 120000))
        configuration = Configuration(address_settings={"#": {"auto_delete_queues_delay": 5, "max_delivery_attempts": 3}})
        settings = Made("", configuration=configuration).configuration.address_settings_repository().lookup("a")
        self.assertEqual((settings.auto_delete_queues_delay, settings.max_delivery_attempts), (5, 3))
        settings = Made("imq.autocreate.reaptime=7", configuration=configuration).configuration.address_settings_repository().lookup("a")
        self.assertEqual(settings.auto_delete_queues_delay, 7000)

    def test_attributes_of_automatic_destinations(self) -> None:
        text = "imq.autocreate.destination.maxNumMsgs=5\nimq.autocreate.queue.maxNumActiveConsumers=1\n"
        text += "imq.autocreate.queue.consumerFlowLimit=7\nimq.autocreate.topic.consumerFlowLimit=8\n"
        made = Made(text + "imq.autocreate.queue.localDeliveryPreferred=true")
        limit = {"max_size_messages": 5, "address_full_policy": "FAIL"}
        queues = limit | {"default_max_consumers": 1, "local_delivery_preferred": True, "consumer_flow_limit": 7}
        expected = {ANYCAST: queues, MULTICAST: limit | {"consumer_flow_limit": 8}}
        self.assertEqual((made.errors, made.warnings, made.configuration.automatic_settings), ([], [], expected))
        settings = made.configuration.address_settings_repository().lookup("mq.sys.dmq")
        self.assertEqual((settings.max_size_messages, settings.default_max_consumers), (-1, -1), "they hold for no others")
        self.assertEqual(Made("").configuration.automatic_settings, {})

    def test_attributes_that_cannot_be_kept_stop_the_start(self) -> None:
        self.assertEqual(Made("imq.autocreate.destination.maxNumMsgs=0").configuration.automatic_settings[ANYCAST]["max_size_messages"], -1)
        [error] = Made("imq.autocreate.destination.limitBehavior=REMOVE_OLDEST").errors
        self.assertIn("The attribute 'limitBehavior' cannot be 'REMOVE_OLDEST'", error)
        self.assertIn("maxBytesPerMsg=1 is refused", Made("imq.autocreate.destination.maxBytesPerMsg=1").errors[0])

    def test_automatic_creation(self) -> None:
        made = Made("imq.autocreate.queue=false\nimq.autocreate.topic=false")
        settings = made.configuration.address_settings_repository().lookup("a")
        self.assertEqual((settings.auto_create_addresses, settings.auto_create_queues, made.home.autocreate_queue), (False, False, False))
        self.assertTrue(Made("imq.autocreate.queue=false").configuration.address_settings_repository().lookup("a").auto_create_queues)
