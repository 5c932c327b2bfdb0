"""Selectors become filters of the broker; subscription names become queue names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.selectors import to_filter, without_local


class SelectorTests(SynchronousTestCase):
    def test_headers(self) -> None:
        for selector, filter in [
            ("JMSPriority > 2", "AMQPriority > 2"),
            ("JMSMessageID='ID:x'", "AMQUserID='ID:x'"),
            ("JMSTimestamp >= 5 OR JMSExpiration<>0", "AMQTimestamp >= 5 OR AMQExpiration<>0"),
            ("JMSXGroupID = 'a'", "AMQGroupID = 'a'"),
            ("JMSType = 'JMSType' AND JMSCorrelationID = 'c'", "JMSType = 'JMSType' AND JMSCorrelationID = 'c'"),
            ("myJMSPriority = 1 AND JMSPriority2 = 2", "myJMSPriority = 1 AND JMSPriority2 = 2"),
            ('"JMSPriority" = 1', '"JMSPriority" = 1'),
            ("a = 'it''s JMSPriority' AND JMSPriority=1", "a = 'it''s JMSPriority' AND AMQPriority=1"),
            ("a = 1 -- JMSPriority\nAND JMSPriority = 2", "a = 1 -- JMSPriority\nAND AMQPriority = 2"),
            ("a = 1 /* JMSPriority */ AND JMSPriority = 2", "a = 1 /* JMSPriority */ AND AMQPriority = 2"),
        ]:
            self.assertEqual(to_filter(selector), filter)

    def test_delivery_mode(self) -> None:
        for selector, filter in [
            ("JMSDeliveryMode = 'PERSISTENT'", "AMQDurable = 'DURABLE'"),
            ("'NON_PERSISTENT' <> JMSDeliveryMode", "'NON_DURABLE' <> AMQDurable"),
            ("JMSDeliveryMode IN ('PERSISTENT', 'NON_PERSISTENT')", "AMQDurable IN ('DURABLE', 'NON_DURABLE')"),
            ("(JMSDeliveryMode = 'PERSISTENT') AND c = 'PERSISTENT'", "(AMQDurable = 'DURABLE') AND c = 'PERSISTENT'"),
        ]:
            self.assertEqual(to_filter(selector), filter)

    def test_a_blank_selector_is_none(self) -> None:
        for selector in (None, "", " \n"):
            self.assertIsNone(to_filter(selector))

    @given(st.text().filter(lambda text: "JMS" not in text and text.strip()))
    def test_whatever_has_no_header_stays_as_it_is(self, selector: str) -> None:
        self.assertEqual(to_filter(selector), selector)

    def test_no_local(self) -> None:
        self.assertEqual(without_local(None, "me"), "__AMQ_CID<>'me'")
        self.assertEqual(without_local("a = 1", "cli.ent"), "a = 1 AND __AMQ_CID<>'cli.ent'")
        self.assertEqual(without_local("a = 1 or b = 2", "o'x"), "(a = 1 or b = 2) AND __AMQ_CID<>'o''x'")
        self.assertEqual(without_local("a = 'x OR y'", "me"), "a = 'x OR y' AND __AMQ_CID<>'me'")
