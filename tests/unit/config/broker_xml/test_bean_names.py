"""Names of Java beans, and the elements that they stand for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.broker_xml.bean_names import BeanReader, folded
from mqbroker.config.problems import Findings
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.model import honoured
from mqbroker.config.schema.values import BOOLEAN, INT

ITEMS = (honoured("max-hops", INT, ""), honoured("use-duplicate-detection", BOOLEAN, "", field="duplicate_detection"))


class BeanTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.findings = Findings()
        self.reader = BeanReader(self.findings)

    def value(self, name: str, text: str) -> tuple[str, object] | None:
        return self.reader.value(Entry(("c", name), text, "broker.properties", 7), name, ITEMS, ("name",))

    def problems(self) -> list[str]:
        return [str(problem) for problem in self.findings.errors]

    def test_all_spellings_of_a_name_are_one(self) -> None:
        for name in ("max-hops", "maxHops", "MAX_HOPS", "maxhops"):
            self.assertEqual(folded(name), "maxhops")
            self.assertEqual(self.value(name, "3"), ("max_hops", 3))
        self.assertEqual(self.problems(), [])

    def test_a_value_goes_to_the_field_of_its_element(self) -> None:
        self.assertEqual(self.value("useDuplicateDetection", "false"), ("duplicate_detection", False))

    def test_a_name_that_nobody_knows_is_told_with_its_place_and_the_nearest(self) -> None:
        self.assertIsNone(self.value("maxHop", "3"))
        self.assertEqual(self.problems(), ["broker.properties:7: c.maxHop: there is no property maxHop; did you mean maxHops?"])

    def test_without_a_near_one_all_names_are_told(self) -> None:
        self.value("zzz", "3")
        self.assertIn("there is no property zzz: expected name, maxHops, useDuplicateDetection", self.problems()[0])

    def test_a_value_of_another_kind_is_told_with_its_place(self) -> None:
        self.assertIsNone(self.value("maxHops", "many"))
        self.assertTrue(self.problems()[0].startswith("broker.properties:7: c.maxHops"))

    def test_a_key_that_is_too_short_is_told(self) -> None:
        entry = Entry(("c",), "", "broker.properties", 7)
        self.assertTrue(self.reader.long_enough(entry, 1, "a name"))
        self.assertFalse(self.reader.long_enough(entry, 2, "c.NAME"))
        self.assertEqual(self.problems(), ["broker.properties:7: c: expected c.NAME"])

    def test_where_nothing_can_stand_nothing_is_expected(self) -> None:
        self.reader.unknown(Entry(("c", "a", "b"), "", "broker.properties", 7), "a.b", [])
        self.assertEqual(self.problems(), ["broker.properties:7: c.a.b: there is no property a.b"])
