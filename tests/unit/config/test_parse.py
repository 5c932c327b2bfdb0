"""broker.xml: what it means, what is wrong with it, and what the broker cannot do."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.config.parse import ConfigurationError, Loaded, parse_configuration


def document(core: str, more: str = "") -> str:
    return f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">\n{core}\n</core>{more}</configuration>'


class ConfigurationTestCase(SynchronousTestCase):
    def load(self, core: str, more: str = "", **properties: str) -> Loaded:
        return parse_configuration(document(core, more), substitutions=properties)

    def configured(self, core: str, more: str = "") -> Configuration:
        """The configuration of ``core``, which must cause no warning."""
        loaded = self.load(core, more)
        self.assertEqual(loaded.warnings, [])
        return loaded.configuration

    def errors(self, core: str, more: str = "", **properties: str) -> list[str]:
        return [str(problem) for problem in self.assertRaises(ConfigurationError, self.load, core, more, **properties).problems]

    def warnings(self, core: str, more: str = "") -> list[str]:
        return [str(problem) for problem in self.load(core, more).warnings]

    def assert_error(self, core: str, *expected: str) -> None:
        """Exactly one error, on line 2, with each of ``expected`` in it."""
        found = self.errors(core)
        self.assertEqual(len(found), 1, found)
        for text in ("broker.xml:2: ", *expected):
            self.assertIn(text, found[0])

    def assert_warning(self, core: str, *expected: str) -> None:
        """Exactly one warning, on line 2, with each of ``expected`` in it."""
        found = self.warnings(core)
        self.assertEqual(len(found), 1, found)
        for text in ("broker.xml:2: ", *expected):
            self.assertIn(text, found[0])


class MeaningTests(ConfigurationTestCase):
    def test_an_empty_core_is_the_default(self) -> None:
        self.assertEqual(self.configured(""), Configuration())

    def test_plain_elements(self) -> None:
        found = self.configured(
            "<name>b</name><persistence-enabled>false</persistence-enabled><global-max-messages>-1</global-max-messages>"
            "<journal-file-size>1M</journal-file-size><id-cache-size>5</id-cache-size><max-disk-usage>-1</max-disk-usage>"
        )
        expected = Configuration(name="b", persistence_enabled=False, journal_file_size=1 << 20, id_cache_size=5, max_disk_usage=-1)
        self.assertEqual(found, expected)
        self.assertEqual(found.address_settings_repository().lookup("x").id_cache_size, 5)

    def test_matches_use_the_configured_characters(self) -> None:
        """Whatever the order of the elements."""
        settings = (
            '<address-settings><address-setting match="{}"><redelivery-delay>1</redelivery-delay></address-setting></address-settings>'
        )
        wildcards = "<wildcard-addresses><delimiter>/</delimiter><any-words>></any-words></wildcard-addresses>"
        found = self.configured(settings.format("a/>") + wildcards)
        self.assertEqual(found.address_settings_repository().lookup("a/b").redelivery_delay, 1)
        self.assert_error(settings.format("a/>/b") + wildcards, "AMQ229071")
        literal = self.configured(settings.format("(a.#.b)") + "<literal-match-markers>()</literal-match-markers>")
        self.assertEqual(literal.address_settings_repository().lookup("a.#.b").redelivery_delay, 1)

    def test_masked_passwords(self) -> None:
        found = self.configured(
            """<cluster-password>ENC(-41e444c3ed07d6dd)</cluster-password>
            <acceptors><acceptor name="a">tcp://h:1?sslEnabled=true;keyStorePassword=ENC(-41e444c3ed07d6dd)</acceptor></acceptors>"""
        )
        self.assertEqual((found.cluster_password, found.acceptors[0].parameters["keyStorePassword"]), ("secret", "secret"))
        self.assertNotIn("secret", repr(found))

    def test_the_user_of_a_database_may_be_masked_too(self) -> None:
        login = "<jdbc-user>ENC(-41e444c3ed07d6dd)</jdbc-user><jdbc-password>ENC(-41e444c3ed07d6dd)</jdbc-password>"
        store = f"<store><database-store><jdbc-connection-url>jdbc:postgresql://h/d</jdbc-connection-url>{login}</database-store></store>"
        found = self.configured(store).database_store
        assert found is not None
        self.assertEqual((found.user, found.password), ("secret", "secret"))

    def test_masked_with_a_key(self) -> None:
        password = "<cluster-password>ENC(-6b1a20b785246e71)</cluster-password>"
        codec = "<password-codec>org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec;key=fortyTwo</password-codec>"
        self.assertEqual(self.configured(password + codec).cluster_password, "secret")
        for name in ("artemis.default.sensitive.string.codec.key", "ARTEMIS_DEFAULT_SENSITIVE_STRING_CODEC_KEY"):
            self.assertEqual(self.load(password, **{name: "fortyTwo"}).configuration.cluster_password, "secret")
        self.assert_error(password, "does not fit the key")
        self.assert_error("<cluster-password>ENC(xyz)</cluster-password>", "hexadecimal")
        self.assert_error("<password-codec>com.example.Codec</password-codec>", "com.example.Codec is a Java class")

    def test_mask_password_masks_all(self) -> None:
        masked = "<mask-password>true</mask-password>"
        self.assertEqual(self.configured(f"{masked}<cluster-password>-41e444c3ed07d6dd</cluster-password>").cluster_password, "secret")
        self.assertEqual(self.configured(masked).cluster_password, "CHANGE ME!!")


class MistakeTests(ConfigurationTestCase):
    def test_misspelt_names(self) -> None:
        for core, expected in (
            ("<max-disk-usag>1</max-disk-usag>", ("<max-disk-usag> is not an element of <core>", "did you mean max-disk-usage?")),
            ("<Name>x</Name>", ("<Name>", "did you mean name?")),
            ("<zzz/>", ("<zzz> is not an element of <core>",)),
            ('<addresses><address nam="a"><anycast/></address></addresses>', ("no attribute nam; did you mean name?",)),
            ('<addresses><address name="a"><anycst/></address></addresses>', ("did you mean anycast?",)),
            (
                '<addresses><address name="a"><anycast><queue name="q" max-consumer="1"/></anycast></address></addresses>',
                ("max-consumers?",),
            ),
            ('<address-settings><address-setting match="a"><expiry-adress/></address-setting></address-settings>', ("expiry-address?",)),
            (
                '<security-settings><security-setting match="a"><permission type="snd" roles="r"/></security-setting></security-settings>',
                ("send?",),
            ),
            ("<wildcard-addresses><delimeter>/</delimeter></wildcard-addresses>", ("did you mean delimiter?",)),
        ):
            with self.subTest(core=core):
                found = self.errors(core)
                for text in expected:
                    self.assertIn(text, found[0])

    def test_bad_values(self) -> None:
        for core, expected in (
            ("<persistence-enabled>1</persistence-enabled>", "expected true or false"),
            ("<persistence-enabled>ture</persistence-enabled>", "did you mean true?"),
            ("<journal-file-size>10X</journal-file-size>", "expected a number of bytes of at least 1"),
            ("<max-disk-usage>101</max-disk-usage>", "expected a whole number from 0 to 100, or -1"),
            ("<journal-type>ASYNCOI</journal-type>", "did you mean ASYNCIO?"),
            ("<literal-match-markers>(</literal-match-markers>", "exactly 2 characters"),
            ("<view-permission-method-match-pattern>(</view-permission-method-match-pattern>", "a regular expression"),
            ("<name></name>", "not empty"),
        ):
            with self.subTest(core=core):
                self.assert_error(core, "is not valid", expected)

    def test_missing_attributes(self) -> None:
        self.assert_error(
            '<addresses><address><anycast><queue name="q"/></anycast></address></addresses>', "<address> lacks the attribute name"
        )
        self.assert_error("<address-settings><address-setting/></address-settings>", "lacks the attribute match")

    def test_repeated_elements(self) -> None:
        self.assert_error("<name>a</name><name>b</name>", "<name> is here a second time (first on line 2)")
        self.assert_error("<addresses/><addresses/>", "<addresses> is here a second time")

    def test_text_where_none_belongs(self) -> None:
        self.assert_error("<addresses>orders</addresses>", "must not hold text", "orders")
        self.assert_error("<name>a<b/></name>", "<b> is not allowed here")

    def test_addresses(self) -> None:
        self.assert_error('<addresses><address name="a"/></addresses>', "AMQ229247", "address a has no routing type")

    def test_a_queue_on_two_addresses_stays_on_the_first(self) -> None:
        """As in Artemis: the broker starts, and the second address is there without the queue."""
        core = "<addresses>" + "".join(
            f'<address name="{name}"><anycast><queue name="q" max-consumers="{number}"/></anycast></address>'
            for number, name in enumerate("ab")
        )
        core += "</addresses>"
        self.assert_warning(core, "second queue q is left out", "on the address a")
        first, second = self.load(core).configuration.addresses
        self.assertEqual([(queue.name, queue.max_consumers) for queue in first.queues], [("q", 0)])
        self.assertEqual((second.name, second.queues), ("b", []))

    def test_of_two_queues_of_one_name_on_an_address_the_later_counts(self) -> None:
        queues = '<queue name="q" max-consumers="1"/><queue name="r"/><queue name="q" max-consumers="2"/>'
        core = f'<addresses><address name="a"><anycast>{queues}</anycast></address></addresses>'
        self.assert_warning(core, "the address a has a second queue q", "later")
        (address,) = self.load(core).configuration.addresses
        self.assertEqual([(queue.name, queue.max_consumers) for queue in address.queues], [("q", 2), ("r", None)])

    def test_wildcard_characters_must_differ(self) -> None:
        self.assert_error("<wildcard-addresses><delimiter>#</delimiter></wildcard-addresses>", "three different characters")

    def test_a_jms_section_alone(self) -> None:
        text = '<configuration xmlns="urn:activemq"><jms xmlns="urn:activemq:jms"><queue name="q"/><topic name="t"/></jms></configuration>'
        found = parse_configuration(text).configuration
        self.assertEqual({address.name for address in found.addresses}, {"q", "t"})

    def test_all_problems_are_reported_in_order(self) -> None:
        found = self.errors(
            "<nam/>\n<journal-min-files>x</journal-min-files>\n<zzz/>\n<max-disk-usage>-5</max-disk-usage>\n<diverts><divert/></diverts>"
        )
        self.assertEqual([text.split(":")[1] for text in found], ["2", "3", "4", "5", "6"])

    def test_the_first_problem_stands_for_the_error(self) -> None:
        error = self.assertRaises(ConfigurationError, parse_configuration, document("<nam/>"), "conf/broker.xml")
        self.assertEqual((error.file, error.line), ("conf/broker.xml", 2))
        self.assertIn(error.text, str(error))

    def test_roots_and_namespaces(self) -> None:
        for text, expected in (
            ("<broker/>", "the root element is <broker>"),
            ("<configuration/>", 'expected xmlns="urn:activemq"'),
            ('<configuration xmlns="urn:hornetq"/>', "urn:hornetq"),
            ('<configuration xmlns="urn:activemq"/>', "has no <core"),
            ('<configuration xmlns="urn:activemq"><core/></configuration>', 'expected xmlns="urn:activemq:core"'),
            ('<configuration xmlns="urn:activemq"><corre/></configuration>', "expected core"),
            (document("").replace("</core>", '</core><core xmlns="urn:activemq:core"/>'), "second time"),
            (document('<x:name xmlns:x="urn:x">a</x:name>'), "namespace urn:x"),
        ):
            with self.subTest(text=text):
                self.assertIn(expected, str(self.assertRaises(ConfigurationError, parse_configuration, text)))


class HonestyTests(ConfigurationTestCase):
    """What the broker does not do is said: by an error when messages would go elsewhere or be lost, else by a warning."""

    def test_refused_blocks(self) -> None:
        for name in (
            "federations",
            "broker-connections",
            "connection-routers",
            "connector-services",
        ):
            with self.subTest(name=name):
                self.assert_error(f'<{name}><anything name="x"/></{name}>', f"<{name}> cannot be used: ")
                self.assertEqual(self.configured(f"<{name}/>"), Configuration())

    def test_other_refused_things(self) -> None:
        for core in (
            "<journal-retention-directory>data/retention</journal-retention-directory>",
            "<remoting-incoming-interceptors><class-name>a.B</class-name></remoting-incoming-interceptors>",
            '<broker-plugins><broker-plugin class-name="a.B"/></broker-plugins>',
            '<security-settings><security-setting-plugin class-name="a.B"/></security-settings>',
        ):
            with self.subTest(core=core):
                self.assert_error(core, "cannot be ")

    def test_the_default_may_be_said(self) -> None:
        self.configured("<ha-policy><primary-only/></ha-policy><store><file-store/></store>")

    def test_queue_kinds(self) -> None:
        queue = '<addresses><address name="a"><anycast><queue name="q" {}/></anycast></address></addresses>'
        self.configured(queue.format('exclusive="false" last-value="false" ring-size="-1" group-buckets="-1" non-destructive="false"'))
        self.assertTrue(self.configured(queue.format('non-destructive="true"')).addresses[0].queues[0].non_destructive)

    def test_last_value_queues(self) -> None:
        queue = '<addresses><address name="a"><anycast><queue name="q" {}/></anycast></address></addresses>'
        (made,) = self.configured(queue.format('last-value="true" last-value-key="k"')).addresses[0].queues
        self.assertEqual((made.last_value, made.last_value_key), (True, "k"))
        settings = (
            '<address-settings><address-setting match="a"><{0}>true</{0}>'
            "<default-last-value-key>k</default-last-value-key></address-setting></address-settings>"
        )
        found = self.configured(settings.format("default-last-value-queue")).address_settings_repository().lookup("a")
        self.assertEqual((found.default_last_value_queue, found.default_last_value_key), (True, "k"))
        old = settings.format("last-value-queue")
        self.assert_warning(old, "write default-last-value-queue")
        self.assertTrue(self.load(old, "").configuration.address_settings_repository().lookup("a").default_last_value_queue)

    def test_ring_queues(self) -> None:
        queue = '<addresses><address name="a"><anycast><queue name="q" ring-size="10"/></anycast></address></addresses>'
        self.assertEqual(self.configured(queue).addresses[0].queues[0].ring_size, 10)
        settings = (
            '<address-settings><address-setting match="a"><default-ring-size>{}</default-ring-size></address-setting></address-settings>'
        )
        self.assertEqual(self.configured(settings.format(0)).address_settings_repository().lookup("a").default_ring_size, 0)
        self.assert_error(settings.format(-2), "default-ring-size")

    def test_address_setting_kinds(self) -> None:
        settings = '<address-settings><address-setting match="a"><{0}>{1}</{0}></address-setting></address-settings>'
        for name, bad, good in (("retroactive-message-count", "10", "0"),):
            with self.subTest(name=name):
                self.assert_error(settings.format(name, bad), f"<{name}> ({bad}) cannot be used")
                if good is not None:
                    self.configured(settings.format(name, good))

    def test_ignored_things_are_told_when_they_were_asked_for(self) -> None:
        for asking, silent in (
            ("<jmx-management-enabled>true</jmx-management-enabled>", "<jmx-management-enabled>false</jmx-management-enabled>"),
            (
                "<configuration-file-refresh-period>1000</configuration-file-refresh-period>",
                "<configuration-file-refresh-period>-1</configuration-file-refresh-period>",
            ),
            ('<broker-plugins><broker-plugin class-name="x.LoggingActiveMQServerPlugin"/></broker-plugins>', "<broker-plugins/>"),
            ('<metrics><plugin class-name="x.Other"/></metrics>', "<metrics/>"),
        ):
            with self.subTest(asking=asking):
                self.assertEqual(len(self.warnings(asking)), 1)
                self.assertEqual(self.warnings(silent), [])

    def test_a_network_check(self) -> None:
        found = self.configured(
            """<network-check-list>10.0.0.1, ::2</network-check-list><network-check-URL-list>http://h</network-check-URL-list>
            <network-check-period>100</network-check-period><network-check-timeout>200</network-check-timeout>
            <network-check-NIC>eth0</network-check-NIC><network-check-ping-command>p %s</network-check-ping-command>
            <network-check-ping6-command>p6 %s</network-check-ping6-command>"""
        )
        self.assertEqual((found.network_check_list, found.network_check_url_list), ("10.0.0.1, ::2", "http://h"))
        self.assertEqual(found.network_check_nic, "eth0")
        self.assertEqual((found.network_check_period, found.network_check_timeout), (100, 200))
        self.assertEqual((found.network_check_ping_command, found.network_check_ping6_command), ("p %s", "p6 %s"))
        self.assertTrue(found.checks_network)
        for empty in ("", "<network-check-list/>", "<network-check-list> , </network-check-list>"):
            self.assertFalse(self.configured(empty).checks_network)
        self.assert_error("<network-check-period>0</network-check-period>", "network-check-period")

    def test_what_does_not_page_is_told(self) -> None:
        settings = '<address-settings><address-setting match="{}">{}</address-setting></address-settings>'
        limit, policy = "<max-size-bytes>1M</max-size-bytes>", "<address-full-policy>{}</address-full-policy>"
        volatile = "<persistence-enabled>false</persistence-enabled>"
        self.assert_warning(volatile + settings.format("a", limit), "without persistence nothing is paged", "(a)")
        self.assert_warning(volatile + "<global-max-size>10M</global-max-size>", "<global-max-size>", "producers are blocked")
        for quiet in (
            settings.format("a", limit),
            settings.format("a", limit + policy.format("PAGE")) + "<global-max-size>10M</global-max-size>",
            volatile + settings.format("a", policy.format("PAGE")),
            volatile + settings.format("a", limit + policy.format("BLOCK")),
            volatile + settings.format("#", policy.format("BLOCK")) + "<global-max-size>10M</global-max-size>",
        ):
            self.assertEqual(self.warnings(quiet), [])

    def test_page_limits_and_their_policy_hold_together_only(self) -> None:
        settings = '<address-settings><address-setting match="a">{}</address-setting></address-settings>'
        limit, policy = "<page-limit-messages>5</page-limit-messages>", "<page-full-policy>FAIL</page-full-policy>"
        self.assert_warning(settings.format(limit), "AMQ224124", "address-setting a")
        self.assert_warning(settings.format(policy), "AMQ224125", "address-setting a")
        self.assertEqual(self.warnings(settings.format(limit + policy)), [])

    def test_a_pattern_that_is_none(self) -> None:
        self.assert_warning('<address-settings><address-setting match="(a|b).#"/></address-settings>', "not a regular expression")
