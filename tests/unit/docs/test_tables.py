"""Tables that people write agree with the code: log codes, metrics."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.observation.metrics import ADDRESS_METRICS, BROKER_METRICS, QUEUE_METRICS, RESULT_METRICS
from tests.unit.docs.pages import CODE, ROOT, read, rows

LOG_CODE = re.compile(r"AMQ22\d{4}")


class TableTests(SynchronousTestCase):
    def test_codes_that_the_broker_writes_are_listed(self) -> None:
        written = set()
        for path in (ROOT / "src").rglob("*.py"):
            written |= set(LOG_CODE.findall(path.read_text(encoding="utf-8")))
        listed = {code for cells in rows(read("docs", "operations.md")) for code in LOG_CODE.findall(cells[0])}
        self.assertEqual((sorted(written - listed), sorted(listed - written)), ([], []))

    def test_metrics_are_listed(self) -> None:
        listed = {name for cells in rows(read("docs", "operations.md")) for name in CODE.findall(cells[-1])}
        names = {*BROKER_METRICS, *RESULT_METRICS, *ADDRESS_METRICS, *QUEUE_METRICS}
        self.assertEqual(names - listed, set())
