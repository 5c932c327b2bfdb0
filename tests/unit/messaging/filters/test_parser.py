"""The grammar of filters."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqclient.wire.properties import BOOLEAN, INT, STRING, TypedValue
from tests.unit.messaging.filters.test_filter import matches, refusal


class GrammarTests(TestCase):
    def assert_all(self, expected: bool, table: list[str], **properties: TypedValue) -> None:
        wrong = [text for text in table if matches(text, **properties) is not expected]
        self.assertEqual(wrong, [])

    def test_precedence(self) -> None:
        """Each line is true only when it is grouped as the manual's grammar says."""
        self.assert_all(
            True,
            [
                "TRUE OR TRUE AND FALSE",
                "2 + 3 * 4 = 14",
                "(2 + 3) * 4 = 20",
                "10 - 3 - 2 = 5",
                "100 / 10 / 2 = 5",
                "7 % 4 * 2 = 6",
                "-2 * -3 = 6",
                "1 + 1 > 1 = TRUE",
                "TRUE = 2 > 1",
                "TRUE <> FALSE = TRUE",
                "n > 1 IS NOT NULL",
                "2 * n BETWEEN 1 AND 10 + 1",
                "n BETWEEN 1 AND 5 AND n = 5",
                "NOT flag = FALSE",  # (NOT flag) = FALSE
                "NOT (n = 1)",
            ],
            n=(INT, 5),
            flag=(BOOLEAN, True),
        )
        self.assert_all(False, ["NOT n = 1", "(TRUE OR TRUE) AND FALSE", "NOT (flag = TRUE)"], n=(INT, 5), flag=(BOOLEAN, True))

    def test_words_and_space(self) -> None:
        self.assert_all(
            True,
            [
                "n\t=\r\n5\f",
                "n=5AND s='a'",
                "n is not null and not (s is null)",
                "n Between 1 aNd 9",
                "/* first */ n /* = 4 */ = 5 /**/",
                "-- a line\nn = 5",
                "n = 5 AND -- a line = 6\r\n TRUE",
                '"n" = 5',
                '"a-b c""d" = 1',
                "hyphenated_props:my-key = 2 AND n - 1 = 4",
                " no_convert_string_expressions:hyphenated_props: my-key = 2",
                "$_x9 = 3",
            ],
            n=(INT, 5),
            s=(STRING, "a"),
            **{'a-b c"d': (INT, 1), "my-key": (INT, 2), "$_x9": (INT, 3)},
        )

    def test_line_comment_needs_its_line_break(self) -> None:
        """Without one, two hyphens are two minus signs, as in Artemis; the line break that ends the whole text does not count."""
        self.assertTrue(matches("--n = 5", n=(INT, 5)))
        self.assertTrue(matches("n = 5 -- 3\n", n=(INT, 8)))

    def test_numbers(self) -> None:
        self.assert_all(
            True,
            [
                "n = 0xFF AND n = 0Xff",
                "n = 0377",
                "n = 255L AND n = 255l",
                "n = 255. AND n = 2.55e2 AND n = .255E+3 AND n = 25500e-2",
                "n = 0255.0",
                "n < 1e999 AND n > -1e999",
                "9223372036854775807 > n AND -9223372036854775808 < n",
                "n = 255 OR n = 08.5",
                "0 = 00",
            ],
            n=(INT, 255),
        )

    def test_wrong_texts_are_refused(self) -> None:
        """(text, character, what was expected)"""
        cases = [
            ("n = = 1", 5, 'expected a value, found "="'),
            ("n IN (5, 6)", 7, "expected a string in single quotes"),
            ("n = NULL", 5, "IS NULL"),
            ("NULL <> n", 1, "IS NULL"),
            ("5", 1, "expected a condition"),
            ("n + 1", 1, "expected a condition"),
            ("'a' OR n", 1, "expected a condition"),
            ("n AND 5", 7, "expected a condition"),
            ("NOT -n", 5, "expected a condition"),
            ("n < 'a'", 5, "have no order"),
            ("n BETWEEN 1 AND 'a'", 17, "have no order"),
            ("TRUE > n", 1, "have no order"),
            ("n > 1 > 2", 1, "have no order"),
            ("NOT n > 1", 1, "have no order"),
            ("TRUE = 1", 8, "TRUE or FALSE"),
            ("n LIKE 5", 8, "expected a pattern"),
            ("n LIKE m", 8, "expected a pattern"),
            ("n LIKE 'a' ESCAPE 'ab'", 19, "one character"),
            ("n LIKE 'a' ESCAPE ''", 19, "one character"),
            ("'a' IN ('a')", 1, "the name of a property"),
            ("n + 'a' IN ('a')", 1, "the name of a property"),
            ("n IN ()", 7, "expected a string"),
            ("n IN ('a',)", 11, "expected a string"),
            ("n NOT 1", 7, "LIKE, BETWEEN or IN"),
            ("n IS 1", 6, '"NULL"'),
            ("n IS NOT TRUE", 10, '"NULL"'),
            ("n BETWEEN 1 OR 2", 13, '"AND"'),
            ("(n = 1", 7, '")", found the end'),
            ("n = 1)", 6, "expected an operator or the end"),
            ("a.b = 1", 2, "expected a name"),
            ("n != 1", 3, '"<>"'),
            ("n = 'a", 5, "a closing '"),
            ('"n = 1', 1, 'a closing "'),
            ("n = 1 /* x", 7, "*/"),
            ("é = 1", 1, "expected a name"),
            ("n = 1;", 6, "expected a name"),
            ("n = 08", 6, "expected an operator or the end"),
            ("n = 9223372036854775808", 5, "at most 64 bits"),
            ("n = 0xFFFFFFFFFFFFFFFF", 5, "at most 64 bits"),
            ("n = " + "9" * 5000, 5, "at most 64 bits"),
            ("n = 1.5f", 8, "expected an operator"),
            ("HYPHENATED_PROPS:n = 1", 17, "expected a name"),
            ("hyphenated_props:", 18, "expected a value, found the end"),
            ("XPATH 5", 7, "expected an expression"),
            ("XPATH '//a['", 7, "expected an XPath expression"),
            ("XPATH '//a) or (//b'", 7, "expected an XPath expression"),
            ("-- only\n/* comments */", 23, "expected a value"),
        ]
        for text, character, expected in cases:
            with self.subTest(text[:40]):
                error = refusal(text)
                self.assertTrue(error.startswith("AMQ229020: Invalid filter: " + text[:200]), error)
                self.assertIn(f"at character {character}: ", error)
                self.assertIn(expected, error)

    def test_no_filter(self) -> None:
        for text in (None, "", "  ", "\t\r\n\x00"):
            self.assertIsNone(parse_filter(text))

    def test_equality_is_that_of_the_text(self) -> None:
        self.assertEqual(parse_filter("n = 1"), parse_filter("n = 1"))
        self.assertEqual(len({parse_filter("n = 1"), parse_filter("n = 1"), parse_filter("n  = 1")}), 2)
        self.assertNotEqual(parse_filter("n = 1"), "n = 1")
        self.assertEqual(Filter(" n = 1 ").text, " n = 1 ")
