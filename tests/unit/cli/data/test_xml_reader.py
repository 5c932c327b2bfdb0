"""Exports that cannot be read."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.xml_messages import read_message
from mqbroker.cli.data.xml_reader import XmlFormatError
from tests.unit.cli.data.test_xml_messages import FROM_ARTEMIS, nodes


class MistakeTests(SynchronousTestCase):
    def test_what_is_wrong_is_named_with_its_line(self) -> None:
        for good, bad, line in (
            ('type="integer"', 'type="int32"', "line 11"),
            ('value="-70000"', 'value="many"', "line 11"),
            ('priority="7"', 'priority="high"', "line 8"),
            ('value="_-8="', 'value="_-8"', "line 14"),
        ):
            broken = nodes(FROM_ARTEMIS.replace(good, bad), "message")[0]
            with self.assertRaises(XmlFormatError) as caught:
                read_message(broken)
            self.assertIn(line, str(caught.exception))

    def test_another_root_damaged_xml_and_entities_are_refused(self) -> None:
        for wrong in ("<other/>", FROM_ARTEMIS[:-30], "", '<!DOCTYPE a [<!ENTITY x "y">]><activemq-journal>&x;</activemq-journal>'):
            self.assertRaises(XmlFormatError, nodes, wrong, "message")
