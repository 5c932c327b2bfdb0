"""The nearest of several names."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.text import nearest_name


class NearestNameTests(SynchronousTestCase):
    def test_nearest(self) -> None:
        known = ("connectionTTL", "callTimeout", "clientID")
        self.assertEqual(nearest_name("connectionTtl", known), "connectionTTL")
        self.assertEqual(nearest_name("calTimeout", known), "callTimeout")
        self.assertIsNone(nearest_name("zzz", known))
