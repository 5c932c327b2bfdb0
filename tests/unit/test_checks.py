"""What is checked in files that have been read, before a broker starts with them."""

from __future__ import annotations

from mqbroker.checks import idle_parts
from tests.unit.config.broker_xml.test_cluster_assembly import BASE
from tests.unit.config.test_parse import ConfigurationTestCase


class IdleTests(ConfigurationTestCase):
    def test_a_grouping_handler_without_a_cluster_is_told(self) -> None:
        handler = "<grouping-handler name='g'><type>LOCAL</type><address>a</address></grouping-handler>"
        self.assertIn("no effect without a cluster connection", next(idle_parts(self.configured(handler))))
        self.assertEqual(list(idle_parts(self.configured(BASE))), [])
