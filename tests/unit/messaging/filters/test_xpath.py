"""XPath in filters."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.filters.filter import Filter
from mqclient.wire.properties import INT
from tests.unit.messaging.filters.test_filter import message


class XPathTests(TestCase):
    def check(self, text: str, body: str | None) -> bool:
        return Filter(text).matches(message(text=body))

    def test_body(self) -> None:
        order = '<?xml version="1.0" encoding="ISO-8859-1"?><order xmlns:p="u"><item price="5">të</item><p:x/></order>'
        for text, expected in (
            ("XPATH '//item'", True),
            ("xpath '/order/item[@price > 4]'", True),
            ("XPATH '//item = \"të\"'", True),
            ("XPATH 'order/item'", True),
            ("XPATH 'item'", False),
            ("XPATH 'count(order)'", True),
            ("XPATH '//none'", False),
            ("NOT XPATH '//none'", True),
            ("XPATH 'count(//item) - 1'", False),
            ("XPATH '//p:x'", False),
            ("XPATH '//item' = TRUE", True),
            ("XQUERY '//item'", False),
            ("NOT XQUERY '[['", True),
        ):
            self.assertIs(self.check(text, order), expected, text)

    def test_without_xml(self) -> None:
        for body in (None, "", "no xml", "<a>", "<a/><b/>", "<a>&x;</a>", ' <?xml version="1.0"?><a/>'):
            self.assertTrue(self.check("NOT XPATH '//a'", body), body)
        self.assertFalse(Filter("XPATH '/*'").matches(message({"a": (INT, 1)})))

    def test_entities_are_not_resolved(self) -> None:
        bomb = '<!DOCTYPE a [<!ENTITY x "1"><!ENTITY y "&x;&x;">]><a>&y;</a>'
        outside = '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a>b</a>'
        self.assertFalse(self.check("XPATH '//a'", bomb))
        self.assertTrue(self.check("XPATH '//a = \"b\"'", outside))

    def test_work_is_bounded(self) -> None:
        """A search of the whole document for each node of a large one is an evaluation error, which NOT does not turn into a match."""
        many = "<r>" + "<a/>" * 20000 + "</r>"
        self.assertTrue(self.check("XPATH '//a'", many))
        for expression in ("//a[count(//a) > 1]", "//a[../a]", "//a[/r]", "//a[1 and/r]", "//a/preceding::a", "//a[ancestor::r]"):
            self.assertFalse(self.check(f"XPATH '{expression}'", many), expression)
            self.assertFalse(self.check(f"NOT XPATH '{expression}'", many), expression)
            self.assertTrue(self.check(f"XPATH '{expression}'", "<r><a/><a/></r>"), expression)
        self.assertTrue(self.check("XPATH '//r[a/b]'", "<r><a><b/></a>" + "<a/>" * 20000 + "</r>"))
        self.assertFalse(self.check("NOT XPATH '//none'", "<r>" + "x" * (1 << 20) + "</r>"))
