"""Java properties files."""

from __future__ import annotations

import javaproperties
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.properties.properties import PropertiesError, Property, parse_properties

TEXT = st.text(alphabet="ab =:#!\\\t\n\r\fü€𝄞'\"", max_size=12)


class PropertiesTests(SynchronousTestCase):
    def pairs(self, text: str | bytes) -> list[tuple[str, str]]:
        return [(each.key, each.value) for each in parse_properties(text)]

    def test_forms(self) -> None:
        text = "a=1\nb = 2 \nc:3\nd 4\ne\n  f\t=\t5\n# no\n! no\n\ng==6\nh = \ni.j.k=x=y"
        expected = [("a", "1"), ("b", "2 "), ("c", "3"), ("d", "4"), ("e", ""), ("f", "5"), ("g", "=6"), ("h", ""), ("i.j.k", "x=y")]
        self.assertEqual(self.pairs(text), expected)

    def test_escapes_and_continuations(self) -> None:
        self.assertEqual(self.pairs("a\\=b\\:c=\\t\\u00fc\\x\\\\"), [("a=b:c", "\tüx\\")])
        self.assertEqual(self.pairs("a = 1, \\\n    2\nb=3\\\\\nc=4\\"), [("a", "1, 2"), ("b", "3\\"), ("c", "4")])
        self.assertEqual(self.pairs("a=\\ud834\\udd1e"), [("a", "𝄞")])

    def test_lines(self) -> None:
        self.assertEqual(parse_properties("# c\n\na=1\\\n2\nb=3"), [Property("a", "12", 3), Property("b", "3", 5)])

    def test_encodings(self) -> None:
        self.assertEqual(self.pairs("a=ü".encode()), [("a", "ü")])
        self.assertEqual(self.pairs("a=ü".encode("latin-1")), [("a", "ü")])
        self.assertEqual(self.pairs(b"\xef\xbb\xbfa=1"), [("a", "1")])

    def test_bad_escape(self) -> None:
        error = self.assertRaises(PropertiesError, parse_properties, "a=1\nb=\\u12")
        self.assertEqual(error.line, 2)

    @given(st.dictionaries(TEXT, TEXT, max_size=5))
    def test_reads_what_java_writes(self, entries: dict[str, str]) -> None:
        written = javaproperties.dumps(entries, timestamp=False)
        self.assertEqual(dict(self.pairs(written)), entries)

    @given(st.text(alphabet="ab =:#!\\\n\r\tu0041", max_size=40))
    def test_agrees_with_javaproperties(self, text: str) -> None:
        """Every text is read as another implementation reads it."""
        try:
            expected = [(each.key, each.value) for each in javaproperties.parse(text) if isinstance(each, javaproperties.KeyValue)]
        except javaproperties.InvalidUEscapeError:
            self.assertRaises(PropertiesError, parse_properties, text)
            return
        self.assertEqual(self.pairs(text), expected)
