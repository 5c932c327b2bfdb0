"""Subscription names become queue names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.subscriptions import escape, subscription_queue


class SubscriptionNameTests(SynchronousTestCase):
    def test_names(self) -> None:
        self.assertEqual(subscription_queue("cli.ent", "sub.x", durable=True), "cli\\.ent.sub\\.x")
        self.assertEqual(subscription_queue(None, "a\\b", durable=True), "a\\\\b")
        self.assertEqual(subscription_queue("c", "s", durable=False), "nonDurable.c.s")
        self.assertEqual(subscription_queue(None, "s", durable=False), "nonDurable.s")

    @given(st.tuples(st.text(min_size=1), st.text(min_size=1)), st.tuples(st.text(min_size=1), st.text(min_size=1)))
    def test_different_subscriptions_have_different_queues(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        self.assertEqual(subscription_queue(*one, durable=True) == subscription_queue(*other, durable=True), one == other)

    @given(st.text())
    def test_escaping_leaves_no_bare_dot(self, text: str) -> None:
        self.assertNotIn(".", escape(text).replace("\\\\", "").replace("\\.", ""))
