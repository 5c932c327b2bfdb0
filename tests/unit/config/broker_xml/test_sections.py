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
        self.assertEqual(found.address_settings, {"#": {"expiry_address": "E"}, "a.*": specific})

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
