"""A broker whose PostgreSQL is away: when it starts, and while it runs."""

from __future__ import annotations

import re
import tempfile
import time
import unittest
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.interop.instance import Additions
from tests.interop.mqbroker_process import START_SECONDS, MqbrokerProcess
from tests.support.postgresql import PostgresqlServer, refuse_without

SECONDS = 30.0
CORE = """
<store><database-store>
   <jdbc-connection-url>jdbc:{name}</jdbc-connection-url><jdbc-user>tests</jdbc-user><jdbc-network-timeout>5000</jdbc-network-timeout>
</database-store></store>
<metrics><plugin class-name="org.apache.activemq.artemis.core.server.metrics.plugins.ArtemisPrometheusMetricsPlugin">
   <property key="port" value="0"/>
</plugin></metrics>
"""


class AwayTests(unittest.TestCase):
    def setUp(self) -> None:
        refuse_without()
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-away-")
        self.addCleanup(folder.cleanup)
        self.server = PostgresqlServer()
        self.addCleanup(self.server.close)
        self.database = self.server.database()
        self.broker = MqbrokerProcess(Path(folder.name), Additions(core=CORE.format(name=self.database.name)))
        self.addCleanup(self.broker.kill)

    def get(self, path: str) -> tuple[int, str]:
        found = re.search(r"health and metrics at (http://[0-9.:]+)", "\n".join(self.broker.process.output()))
        assert found is not None
        try:
            with urlopen(f"{found[1]}/{path}", timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def until(self, status: int) -> str:
        """The text of the page about readiness once it has this status."""
        end = time.monotonic() + SECONDS
        while True:
            found, text = self.get("health/ready")
            if found == status:
                return text
            self.assertLess(time.monotonic(), end, f"{found} {text}")
            time.sleep(0.1)

    def until_written(self) -> None:
        """Wait until the database has what a start writes: a broker is ready before."""
        end = time.monotonic() + SECONDS
        while not re.search(r"\nartemis_store_backlog\{.*\} 0\b", self.get("metrics")[1]):
            self.assertLess(time.monotonic(), end, "the work of the start is still waiting")
            time.sleep(0.1)

    def test_a_start_ends_and_names_the_database(self) -> None:
        self.server.stop()
        self.broker.launch()
        process = self.broker.process
        self.assertEqual(process.wait(START_SECONDS), 1)
        said = process.output()
        self.assertRegex(said[-1], rf"^mqbroker: a start needs the database, which does not answer: {self.database.name}: .*refused")
        self.assertNotIn("Traceback (most recent call last):", said)
        self.broker.kill()
        self.server.start()
        self.broker.start()

    def test_health_and_metrics_tell_that_it_is_away(self) -> None:
        self.broker.start()
        self.until(200)
        self.until_written()
        self.server.stop()
        self.assertRegex(self.until(503), rf"the database {self.database.name} has not answered for \d+ s; 0 batches of work wait for it")
        self.assertEqual(self.get("health/live")[0], 200)
        self.assertRegex(self.get("metrics")[1], r"\nartemis_store_connected\{.*\} 0\b")
        self.server.start()
        self.until(200)
        self.assertRegex(self.get("metrics")[1], r"\nartemis_store_connected\{.*\} 1\b")
