"""The sections of broker.xml that list things."""

from __future__ import annotations

from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration, ResourceLimit
from mqbroker.config.model.matching import Wildcards
from tests.unit.config.test_parse import ConfigurationTestCase


class SectionTests(ConfigurationTestCase):
    def test_addresses_and_queues(self) -> None:
        found = self.configured(
            """<addresses>
            <address name="a"><anycast><queue name="q" max-consumers="2" enabled="false"><filter string="x > 1"/><durable>false</durable>
            <user>u</user></queue></anycast><multicast/></address>
            <address name="b"><multicast><queue name="s" purge-on-no-consumers="true"/></multicast></address>
            </addresses>"""
        )
        queue = QueueConfiguration(
            "q", "a", 1, "x > 1", False, "u", 2, purge_on_no_consumers=False, ring_size=-1, enabled=False, configuration_managed=True
        )
        subscription = QueueConfiguration("s", "b", 0, purge_on_no_consumers=True, ring_size=-1, configuration_managed=True)
        expected = [AddressConfiguration("a", frozenset({0, 1}), [queue]), AddressConfiguration("b", frozenset({0}), [subscription])]
        self.assertEqual(found.addresses, expected)

    def test_address_settings(self) -> None:
        found = self.configured(
            """<address-settings>
            <address-setting match="#"><dead-letter-address/><expiry-address>E</expiry-address><page-limit-bytes>-1</page-limit-bytes>
            </address-setting>
            <address-setting match="a.*"><max-size-bytes>10M</max-size-bytes><address-full-policy>FAIL</address-full-policy>
            <default-queue-routing-type>ANYCAST</default-queue-routing-type><redelivery-delay-multiplier>1.5</redelivery-delay-multiplier>
            </address-setting></address-settings>"""
        )
        specific = {
            "max_size_bytes": 10 << 20,
            "address_full_policy": "FAIL",
            "default_queue_routing_type": 1,
            "redelivery_delay_multiplier": 1.5,
        }
        self.assertEqual(
            found.address_settings, {"#": {"dead_letter_address": "", "expiry_address": "E", "page_limit_bytes": -1}, "a.*": specific}
        )

    def test_a_specific_match_takes_a_general_setting_back(self) -> None:
        """An address has no page limit, no dead letter address and no expiry address, although # has them, as in Artemis."""
        found = self.configured(
            """<address-settings>
            <address-setting match="#"><dead-letter-address>DLQ</dead-letter-address><expiry-address>E</expiry-address>
            <page-limit-bytes>10M</page-limit-bytes><page-limit-messages>5</page-limit-messages><page-full-policy>DROP</page-full-policy>
            </address-setting>
            <address-setting match="a"><dead-letter-address/><expiry-address/><page-limit-bytes>-1</page-limit-bytes>
            <page-limit-messages>-1</page-limit-messages></address-setting></address-settings>"""
        )
        repository = found.address_settings_repository()
        for address, expected in (("a", (None, None, None, None)), ("b", ("DLQ", "E", 10 << 20, 5))):
            settings = repository.lookup(address)
            limits = settings.page_limit_bytes, settings.page_limit_messages
            self.assertEqual((settings.dead_letter_address, settings.expiry_address, *limits), expected)

    def test_of_several_security_settings_for_a_match_the_last_counts(self) -> None:
        """The second one takes the place of the one before, as in Artemis; so do the limits of a user."""
        core = """<security-settings>
            <security-setting match="a"><permission type="send" roles="everybody"/></security-setting>
            <security-setting match="a"><permission type="send" roles="x"/></security-setting></security-settings>
            <resource-limit-settings>
            <resource-limit-setting match="u"><max-queues>9</max-queues></resource-limit-setting>
            <resource-limit-setting match="u"><max-queues>1</max-queues></resource-limit-setting></resource-limit-settings>"""
        loaded = self.load(core)
        self.assertEqual(loaded.configuration.security_settings, {"a": {"send": {"x"}}})
        self.assertEqual(loaded.configuration.resource_limits["u"].max_queues, 1)
        told = [warning.text for warning in loaded.warnings]
        expected = ("security-setting for a", "resource-limit-setting for u")
        self.assertEqual(told, [f"there is a second {each}: the later one counts" for each in expected])

    def test_security(self) -> None:
        found = self.configured(
            """<security-settings>
            <security-setting match="a"><permission type="send" roles="x, y"/><permission type="send" roles="z"/></security-setting>
            <security-setting match="a::q"><permission type="consume" roles=""/></security-setting>
            <role-mapping from="cn=x" to="x,y"/></security-settings>"""
        )
        self.assertEqual(found.security_settings, {"a": {"send": {"x", "y", "z"}}, "a::q": {"consume": frozenset()}})
        self.assertEqual(found.role_mapping, {"cn=x": {"x", "y"}})

    def test_resource_limits_wildcards_and_metrics(self) -> None:
        found = self.configured(
            """<resource-limit-settings><resource-limit-setting match="u"><max-connections>3</max-connections></resource-limit-setting>
            </resource-limit-settings>
            <wildcard-addresses><routing-enabled>false</routing-enabled><delimiter>/</delimiter><any-words>></any-words></wildcard-addresses>
            <metrics><jvm-memory>false</jvm-memory>
            <plugin class-name="x.ArtemisPrometheusMetricsPlugin"><property key="port" value="9"/></plugin></metrics>"""
        )
        self.assertEqual(found.resource_limits, {"u": ResourceLimit(3, -1)})
        self.assertEqual(found.wildcards, Wildcards("/", ">", "*", False))
        assert found.metrics is not None
        self.assertEqual((found.metrics.plugin_properties, found.metrics.jvm_memory), ({"port": "9"}, False))
