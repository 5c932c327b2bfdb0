"""Older forms of broker.xml."""

from __future__ import annotations

from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration
from tests.unit.config.test_parse import ConfigurationTestCase


class OldSpellingTests(ConfigurationTestCase):
    def test_queues(self) -> None:
        loaded = self.load('<queues><queue name="q"><address>a</address><filter string="x=1"/><durable>false</durable></queue></queues>')
        queue = QueueConfiguration("q", "a", 0, "x=1", False, purge_on_no_consumers=False, ring_size=-1, configuration_managed=True)
        self.assertEqual(loaded.configuration.addresses, [AddressConfiguration("a", frozenset({0}), [queue])])
        self.assertTrue(any("AMQ222307" in str(each) for each in loaded.warnings))

    def test_jms_section(self) -> None:
        jms = (
            '<jms xmlns="urn:activemq:jms"><queue name="q"><selector string="x=1"/><durable>false</durable></queue><topic name="t"/></jms>'
        )
        loaded = self.load("", jms)
        queue = QueueConfiguration("q", "q", 1, "x=1", False, purge_on_no_consumers=False, ring_size=-1, configuration_managed=True)
        expected = [AddressConfiguration("t", frozenset({0})), AddressConfiguration("q", frozenset({1}), [queue])]
        self.assertEqual(loaded.configuration.addresses, expected)
        self.assertIn("AMQ221038", str(loaded.warnings[0]))
        self.assertIn("did you mean topic?", self.errors("", '<jms xmlns="urn:activemq:jms"><topik name="t"/></jms>')[0])

    def test_permissions(self) -> None:
        permission = '<permission type="createTempQueue" roles="r"/>'
        core = f'<security-settings><security-setting match="a">{permission}</security-setting></security-settings>'
        loaded = self.load(core)
        self.assertEqual(loaded.configuration.security_settings, {"a": {"createNonDurableQueue": {"r"}}})
        self.assert_warning(core, "AMQ221038", "createNonDurableQueue")

    def test_elements_that_moved(self) -> None:
        for name in ("backup", "shared-store", "failover-on-shutdown", "allow-failback"):
            self.assert_error(f"<{name}>true</{name}>", f"<{name}> is not an element of <core>", "ha-policy")
        self.assert_error("<remoting-interceptors/>", "remoting-incoming-interceptors")

    def test_second_settings_of_a_match_are_left_out(self) -> None:
        """As in Artemis, where the first one counts."""
        first = '<address-setting match="a"><no-expiry>true</no-expiry></address-setting>'
        twice = f'<address-settings>{first}<address-setting match="a"/></address-settings>'
        loaded = self.load(twice)
        self.assertEqual(loaded.configuration.address_settings, {"a": {"no_expiry": True}})
        self.assert_warning(twice, "AMQ222301")
