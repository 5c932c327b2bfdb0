from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.replication.connectors import connector_of, connector_text
from mqclient.wire.primitives import TransportConfiguration

CONNECTORS = st.builds(TransportConfiguration, st.text(), st.text(), st.lists(st.tuples(st.text(), st.text())).map(tuple))


class ConnectorTests(SynchronousTestCase):
    @given(CONNECTORS)
    def test_a_connector_is_found_again_in_its_text(self, connector: TransportConfiguration) -> None:
        self.assertEqual(connector_of(connector_text(connector)), connector)

    @given(st.text())
    def test_other_texts_are_refused(self, text: str) -> None:
        for each in (text, "[]", '["a", "b"]', '["a", "b", [["k"]]]', '["a", 1, []]', '["a", "b", [["k", 1]]]', '["a", "b", 1]'):
            self.assertRaises(ValueError, connector_of, each)
