"""Brokers that somebody lists."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.listed import ListedBrokers
from tests.unit.cluster.bridge_support import connector


class ListedTests(SynchronousTestCase):
    def test_listeners_hear_of_another_list_alone(self) -> None:
        listed = ListedBrokers()
        told: list[int] = []
        listed.listeners.append(lambda: told.append(len(listed.connectors())))
        listed.change([])
        listed.change([connector(1)])
        listed.change([connector(1)])
        listed.change([connector(1), connector(2)])
        self.assertEqual((told, listed.contested), ([1, 2], ()))
        listed.connectors().clear()
        self.assertEqual(len(listed.connectors()), 2)
