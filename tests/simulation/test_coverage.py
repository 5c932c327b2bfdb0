"""``--coverage`` tells of every package that it names, by what runs have reached."""

from __future__ import annotations

import unittest

from tests.simulation.coverage import PACKAGES, Coverage
from tests.simulation.run import simulate


class CoverageTests(unittest.TestCase):
    def test_the_packages_of_broker_and_client_are_shown(self) -> None:
        self.assertLessEqual(
            {f"mqbroker.{name}" for name in ("storage", "messaging", "server", "cluster", "ha")} | {"mqclient.core"}, {*PACKAGES}
        )
        coverage = Coverage()
        with coverage.watching():
            simulate(1)
        rows = str(coverage).splitlines()
        self.assertEqual([row.split()[0] for row in rows[-len(PACKAGES) :]], list(PACKAGES))
        for package in ("mqbroker.storage", "mqbroker.messaging", "mqbroker.server", "mqclient.core"):
            self.assertGreater(coverage.share(package), 0.2, package)
        self.assertLess(coverage.share("mqbroker.ha"), coverage.share("mqbroker.storage"))
