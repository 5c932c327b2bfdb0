"""Properties that override broker.xml."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration, ResourceLimit
from mqbroker.config.parse import ConfigurationError, Loaded, load_configuration
from tests.unit.config.test_parse import document

XML = document(
    """<name>b</name><acceptors><acceptor name="a">tcp://h:1?tcpNoDelay=false</acceptor></acceptors>
    <addresses><address name="A"><anycast><queue name="A"/></anycast></address></addresses>
    <security-settings><security-setting match="#"><permission type="send" roles="x,y"/></security-setting></security-settings>
    <address-settings><address-setting match="#"><no-expiry>true</no-expiry></address-setting></address-settings>"""
)


class OverrideCase(SynchronousTestCase):
    def load(self, *lines: str, name: str = "/b.properties", system: dict[str, str] | None = None) -> Loaded:
        files = {"/broker.xml": XML, name: "\n".join(lines)}
        return load_configuration("/broker.xml", lambda path: files[path].encode(), system or {}, [name])

    def configured(self, *lines: str) -> Configuration:
        return self.load(*lines).configuration

    def errors(self, *lines: str, name: str = "/b.properties", system: dict[str, str] | None = None) -> list[str]:
        error = self.assertRaises(ConfigurationError, self.load, *lines, name=name, system=system)
        return [str(problem) for problem in error.problems]


class OverrideTests(OverrideCase):
    def test_plain_elements(self) -> None:
        self.configured("enabledAsyncConnectionExecution=true", "networCheckNIC=lo")
        found = self.configured("globalMaxMessages=5", "journalFileSize = 1M", "IDCacheSize=7", "networkCheckPeriod=9", "clusterPassword=p")
        self.assertEqual(
            (found.global_max_messages, found.journal_file_size, found.id_cache_size, found.network_check_period, found.cluster_password),
            (5, 1 << 20, 7, 9, "p"),
        )

    def test_placeholders_and_masked_passwords(self) -> None:
        found = self.load("name=${who:x}-1", "clusterPassword=ENC(-41e444c3ed07d6dd)", system={"who": "me"}).configuration
        self.assertEqual((found.name, found.cluster_password), ("me-1", "secret"))

    def test_what_the_file_says_of_passwords_can_be_overridden(self) -> None:
        found = self.configured("maskPassword=true", "clusterPassword=-41e444c3ed07d6dd")
        self.assertEqual(found.cluster_password, "secret")
        self.assertIn("cannot be loaded", self.errors("passwordCodec=a.B")[0])

    def test_address_settings(self) -> None:
        found = self.configured(
            'addressSettings."a.b".maxDeliveryAttempts=3',
            'addressSettings."a.b".addressFullMessagePolicy=FAIL',
            "addressSettings.#.redeliveryMultiplier=2",
            "addressSettings.#.pageFullMessagePolicy=FAIL",
            "addressSettings.#.pageCacheMaxSize=7",
        )
        expected = {
            "#": {"no_expiry": True, "redelivery_delay_multiplier": 2.0, "page_full_policy": "FAIL", "page_max_cache_size": 7},
            "a.b": {"max_delivery_attempts": 3, "address_full_policy": "FAIL"},
        }
        self.assertEqual(found.address_settings, expected)
        self.assertEqual(self.configured("addressSettings.#=-").address_settings, {})

    def test_addresses(self) -> None:
        found = self.configured(
            "addressConfigurations.B.routingTypes=ANYCAST,MULTICAST",
            "addressConfigurations.B.queueConfigs.Q.routingType=ANYCAST",
            "addressConfigurations.B.queueConfigs.Q.filterString=x=1",
            "addressConfigurations.B.queueConfigs.Q.maxConsumers=4",
            "addressConfigurations.A.queueConfigs.A=-",
        )
        queue = QueueConfiguration("Q", "B", 1, "x=1", max_consumers=4)
        queue.purge_on_no_consumers, queue.ring_size, queue.configuration_managed = False, -1, True
        expected = [AddressConfiguration("A", frozenset({1})), AddressConfiguration("B", frozenset({0, 1}), [queue])]
        self.assertEqual(found.addresses, expected)
        self.assertEqual(self.configured("addressConfigurations.A=-").addresses, [])

    def test_security_and_limits(self) -> None:
        found = self.configured(
            "securityRoles.#.z.send=true",
            "securityRoles.#.x.send=false",
            "securityRoles.a.x.createTempQueue=true",
            "resourceLimitSettings.u.maxQueues=2",
        )
        self.assertEqual(found.security_settings, {"#": {"send": {"y", "z"}}, "a": {"createNonDurableQueue": {"x"}}})
        self.assertEqual(found.resource_limits, {"u": ResourceLimit(-1, 2)})

    def test_a_value_that_is_taken_away(self) -> None:
        found = self.configured(
            "addressSettings.#.deadLetterAddress=DLQ",
            "addressSettings.#.deadLetterAddress=-",
            "addressSettings.#.noExpiry=-",
            "clusterPassword=-",
            "addressConfigurations.A.queueConfigs.A.user=-",
        )
        self.assertEqual((found.address_settings, found.cluster_password), ({"#": {}}, Configuration().cluster_password))
        self.assertEqual(found.addresses[0].queues[0].user, None)
        self.assertIn("did you mean noExpiry?", self.errors("addressSettings.#.noExpir=-")[0])

    def test_a_permission_is_given_or_not(self) -> None:
        """A typing error must not take it away."""
        self.assertIn("expected true or false", self.errors("securityRoles.#.x.send=ture")[0])
        self.assertEqual(self.configured("securityRoles.#.x.send=-").security_settings, {"#": {"send": {"y"}}})

    def test_of_several_settings_for_a_match_the_one_that_counts_is_changed(self) -> None:
        first, last = (f'<security-setting match="a"><permission type="send" roles="{role}"/></security-setting>' for role in "xy")
        files = {
            "/broker.xml": document(f"<security-settings>{first}{last}</security-settings>"),
            "/b.properties": "securityRoles.a.z.send=true",
        }
        loaded = load_configuration("/broker.xml", lambda path: files[path].encode(), {}, ["/b.properties"])
        self.assertEqual(loaded.configuration.security_settings, {"a": {"send": {"y", "z"}}})

    def test_a_new_url_replaces_the_whole_one(self) -> None:
        (uri,) = self.configured("acceptorConfigurations.a=tcp://k:2?backlog=3").acceptors
        self.assertEqual((str(uri), uri.parameters), ("tcp://k:2", {"backlog": "3"}))

    def test_transports(self) -> None:
        found = self.configured(
            "acceptorConfigurations.a.params.port=7",
            "acceptorConfigurations.c.factoryClassName=netty",
            "acceptorConfigurations.c.params.HOST=g",
            "acceptorConfigurations.c.extraParams.protocols=CORE",
            "connectorConfigurations.d=tcp://k:9?sslEnabled=true",
        )
        self.assertEqual([(uri.name, str(uri)) for uri in found.acceptors], [("a", "tcp://h:7"), ("c", "tcp://g:61616")])
        self.assertEqual(found.acceptors[0].parameters, {"tcpNoDelay": "false"})
        self.assertEqual(found.connectors["d"].parameters, {"sslEnabled": "true"})
        self.assertEqual(self.configured("acceptorConfigurations.a=-").acceptors, [])

    def test_mistakes_have_file_and_line(self) -> None:
        for line, expected in (
            ("globalMaxSze=1", "there is no property globalMaxSze; did you mean globalMaxSize?"),
            ("globalMaxSize=1X", "globalMaxSize: '1X' is not valid: expected a number of bytes"),
            ("addressSetting.a.noExpiry=true", "did you mean addressSettings?"),
            ("addressSettings.a.noExpir=true", "did you mean noExpiry?"),
            ("addressSettings.a=1", "expected addressSettings.match.name"),
            ("addressSettings.#a.noExpiry=true", "AMQ229071"),
            ("addressSettings.a.retroactiveMessageCount=4", "cannot be used"),
            ("divertConfigurations.d.address=x", "divert d lacks <forwarding-address>"),
            ("HAPolicyConfiguration.a.b=1", "HAPolicyConfiguration.a.b: there is no property a.b"),
            ("securityRoles.a.r.snd=true", "did you mean send?"),
            ("securityRoles.a.r=true", "expected securityRoles.match.role.permission"),
            ("addressConfigurations.X.name=X", "AMQ229247"),
            ("addressConfigurations.A.queueConfigs.A.address=other", "the queue is on the address A"),
            ("addressConfigurations.A.queueConfigs.A.ringSize=-2", "expected a whole number of at least 0, or -1"),
            ("acceptorConfigurations.a.parms.port=1", "did you mean params?"),
            ("acceptorConfigurations.a.params.port=x", "not a number from 0 to 65535"),
            ('addressSettings."a.noExpiry=true', 'expected " and a dot'),
            ("name=${x", "without '}'"),
            ("name=\\u00zz", "four hexadecimal digits"),
        ):
            with self.subTest(line=line):
                found = self.errors("# comment", line)
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith("/b.properties:2: "), found)
                self.assertIn(expected, found[0])

    def test_mistakes_elsewhere(self) -> None:
        self.assertIn("-Dbrokerconfig.nam: ", self.errors("", system={"brokerconfig.nam": "x"})[0])
        self.assertIn("-Dbrokerconfig.a..b: ", self.errors("", system={"brokerconfig.a..b": "x"})[0])
        self.assertIn("/b.json", self.errors("{", name="/b.json")[0])
        self.assertIn("/b.json", self.errors('{"name": null}', name="/b.json")[0])
