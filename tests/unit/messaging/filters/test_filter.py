"""Filters: grammar, three-valued logic, types, identifiers, and the limits that keep a hostile text cheap."""

from __future__ import annotations

import json
import struct
import uuid
from pathlib import Path
from unittest import TestCase

from mqbroker.messaging.filters.filter import FILTER_LENGTH_MAX, Filter, parse_filter
from mqbroker.messaging.message.message import Message
from mqclient.errors import InvalidFilterExpressionError
from mqclient.wire.message import TYPE_TEXT, CoreMessage
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING, TypedValue

VECTORS = Path(__file__).parents[4] / "protocol-spec" / "vectors"


def message(properties: dict[str, TypedValue] | None = None, text: str | None = None) -> Message:
    plain = CoreMessage(address="prices.stocks", durable=True, timestamp=1000, priority=4, properties=properties or {})
    if text is not None:
        raw = text.encode("utf-16-le")
        plain.type, plain.body = TYPE_TEXT, b"\x01" + struct.pack(">i", len(raw)) + raw
    return Message.of(plain)


def matches(text: str, **properties: TypedValue) -> bool:
    filter = parse_filter(text)
    assert filter is not None
    return filter.matches(message(properties))


def refusal(text: str) -> str:
    """What the error says with which the text is refused."""
    try:
        parse_filter(text)
    except InvalidFilterExpressionError as error:
        assert error.code == 103
        return str(error)
    raise AssertionError(f"accepted: {text[:200]}")


def truth(text: str, **properties: TypedValue) -> bool | None:
    """The truth value of a condition: None is unknown."""
    if matches(f"({text}) IS NULL", **properties):
        return None
    return matches(text, **properties)


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


class LogicTests(TestCase):
    STATES: dict[bool | None, dict[str, TypedValue]] = {True: {"v": (BOOLEAN, True)}, False: {"v": (BOOLEAN, False)}, None: {}}

    def test_and_or_not(self) -> None:
        for left, left_properties in self.STATES.items():
            for right, right_properties in self.STATES.items():
                properties = {name: value for name, found in (("a", left_properties), ("b", right_properties)) for value in found.values()}
                conjunction = False if left is False or right is False else None if left is None or right is None else True
                disjunction = True if left is True or right is True else None if left is None or right is None else False
                self.assertIs(truth("a AND b", **properties), conjunction)
                self.assertIs(truth("a OR b", **properties), disjunction)
                self.assertEqual(matches("NOT (a AND b)", **properties), conjunction is False)
                self.assertEqual(matches("NOT (a OR b)", **properties), disjunction is False)

    def test_property_as_condition(self) -> None:
        self.assertIs(truth("a", a=(BOOLEAN, True)), True)
        for value in ((BOOLEAN, False), (INT, 1), (STRING, "true"), (DOUBLE, 1.0)):
            self.assertIs(matches("a", a=value), False)
            self.assertIs(matches("NOT a", a=value), True)
        self.assertIs(matches("NOT a"), False)

    def test_missing_properties(self) -> None:
        """Unknown, but for the asymmetry of ``=``."""
        cases: dict[str, bool | None] = {
            "a = 1": None,
            "a <> 1": None,
            "1 = a": False,
            "'red' <> a": True,
            "a = b": True,
            "a <> b": False,
            "a < 1": None,
            "1 < a": None,
            "a BETWEEN 1 AND 2": None,
            "a NOT BETWEEN 1 AND 2": None,
            "a LIKE '%'": None,
            "a NOT LIKE '%'": None,
            "a IN ('x')": None,
            "a NOT IN ('x')": None,
            "a + 1 = 2": None,
            "-a = 2": None,
            "n = a": False,
            "n BETWEEN a AND 9": None,
            "n BETWEEN 6 AND a": False,
            "n NOT BETWEEN 6 AND a": True,
            "a IS NULL": True,
            "a IS NOT NULL": False,
            "NULL": None,
        }
        for text, expected in cases.items():
            with self.subTest(text):
                self.assertIs(truth(text, n=(INT, 5)), expected)
                self.assertIs(truth(text, n=(INT, 5), a=(NULL, None)), expected)

    def test_wrong_types(self) -> None:
        """What cannot be compared is unequal and in no order, which is false and not unknown."""
        text: TypedValue = (STRING, "5")
        for condition in (
            "s = 5",
            "s < 5",
            "s >= 5",
            "5 > s",
            "s BETWEEN 1 AND 9",
            "s NOT BETWEEN 1 AND 9",
            "s = TRUE",
            "n LIKE '5'",
            "n = '5'",
        ):
            self.assertIs(truth(condition, s=text, n=(INT, 5)), False, condition)
        self.assertIs(truth("s <> 5", s=text), True)
        self.assertIsNone(truth("n IN ('5')", n=(INT, 5)))
        self.assertIsNone(truth("n NOT IN ('5')", n=(INT, 5)))

    def test_evaluation_error_is_no_match(self) -> None:
        for condition in ("s - 1 = 0", "1 + s = 1", "-b = -1", "s * 1 IS NULL", "y < 1", "'x' + y = 'x'"):
            for text in (condition, f"NOT ({condition})", f"({condition}) IS NULL", f"{condition} OR TRUE"):
                self.assertFalse(matches(text, s=(STRING, "1"), b=(BYTE, 1), y=(BYTES, b"1")), text)
        self.assertTrue(matches("TRUE OR s - 1 = 0", s=(STRING, "1")))
        self.assertTrue(matches("n = 2 AND s - 1 = 0 OR TRUE", s=(STRING, "1"), n=(INT, 1)))


class TypeTests(TestCase):
    NUMBERS: dict[int, TypedValue] = {kind: (kind, 10) for kind in (BYTE, SHORT, INT, LONG)} | {
        kind: (kind, 10.0) for kind in (FLOAT, DOUBLE)
    }

    def test_widening_has_a_direction(self) -> None:
        """Nothing wider than a byte or short on the right is equal to it, or in any order with it."""
        order = (BYTE, SHORT, INT, LONG, FLOAT, DOUBLE)
        for left in order:
            for right in order:
                comparable = not (right in (BYTE, SHORT) and order.index(left) > order.index(right))
                for operator, expected in (("=", True), ("<>", False), ("<=", True), ("<", False)):
                    result = matches(f"a {operator} b", a=self.NUMBERS[left], b=self.NUMBERS[right])
                    self.assertEqual(result, expected if comparable else operator == "<>", (left, operator, right))

    def test_literals_are_integer_long_or_double(self) -> None:
        self.assertTrue(matches("b = 10 AND b < 10.5 AND b > 9L", b=(BYTE, 10)))
        self.assertFalse(matches("10 = b OR 10 >= b", b=(BYTE, 10)))
        self.assertTrue(matches("10 = n", n=(LONG, 10)))

    def test_floats_are_widened(self) -> None:
        self.assertFalse(matches("f = 0.1", f=(FLOAT, 0.1)))
        self.assertTrue(matches("d = 0.1", d=(DOUBLE, 0.1)))
        self.assertTrue(matches("f > 0.1 AND f < 0.1000001", f=(FLOAT, 0.1)))
        self.assertTrue(matches("f = 16777217", f=(FLOAT, 16777216.0)))
        self.assertTrue(matches("d = 9007199254740993", d=(DOUBLE, 9007199254740992.0)))

    def test_nan_and_zero_have_java_s_order(self) -> None:
        nan: TypedValue = (DOUBLE, float("nan"))
        self.assertTrue(matches("n = 0 / 0 AND n > 1e300 AND n <= n", n=nan))
        self.assertTrue(matches("z < 0.0 AND z <> 0.0", z=(DOUBLE, -0.0)))
        self.assertTrue(matches("1 / 0 > 1e300 AND -1 / 0 < -1e300"))

    def test_other_types(self) -> None:
        self.assertTrue(matches("c = d AND c <= d AND c <> 'a'", c=(CHAR, 97), d=(CHAR, 97)))
        self.assertTrue(matches("s < t AND s <> t", s=(STRING, "a"), t=(STRING, "b")))
        self.assertTrue(matches("s < t", s=(BOOLEAN, False), t=(BOOLEAN, True)))
        self.assertTrue(matches("y <> y AND NOT (y = 1)", y=(BYTES, b"a")))
        self.assertFalse(matches("c LIKE 'a' OR c IN ('a')", c=(CHAR, 97)))

    def test_arithmetic(self) -> None:
        for text in (
            "i + 1 = -2147483648",
            "i * 2 = -2",
            "l + 1 = -9223372036854775808",
            "i + l - l = 2147483647",
            "1 / 2 = 0.5",
            "5 % 3 = 2.0",
            "-5 % 3 = -2",
            "5.5 % 2 = 1.5",
            "5 % 0 <> 1",
            "b + b = 20",
            "f + f <> 0.2",
            "-i = -2147483647",
            "+s = 'a'",
            "s + 1 = 'a1'",
            "s + 1.5 = 'a1.5'",
            "s + b = 'a10'",
            "s + TRUE = 'atrue'",
            "s + s + s LIKE 'aaa'",
        ):
            self.assertTrue(
                matches(text, i=(INT, 2**31 - 1), l=(LONG, 2**63 - 1), b=(BYTE, 10), f=(FLOAT, 0.1), s=(STRING, "a")),
                text,
            )

    def test_text_of_numbers_is_java_s(self) -> None:
        for value, expected in (
            ((DOUBLE, 1e10), "1.0E10"),
            ((DOUBLE, 1e7), "1.0E7"),
            ((DOUBLE, 9999999.0), "9999999.0"),
            ((DOUBLE, 0.001), "0.001"),
            ((DOUBLE, 0.00012), "1.2E-4"),
            ((DOUBLE, -120.5), "-120.5"),
            ((DOUBLE, -0.0), "-0.0"),
            ((DOUBLE, 1.7976931348623157e308), "1.7976931348623157E308"),
            ((DOUBLE, float("nan")), "NaN"),
            ((DOUBLE, float("-inf")), "-Infinity"),
            ((FLOAT, 0.1), "0.1"),
            ((FLOAT, 3.4e38), "3.4E38"),
            ((LONG, -5), "-5"),
        ):
            self.assertTrue(matches(f"s + n = '{expected}'", s=(STRING, ""), n=value), expected)

    def test_convert_string_expressions(self) -> None:
        for text, value, expected in (
            ("s = 5", "5", True),
            ("5 = s", "5", True),
            ("s < 10", "9", True),
            ("s = 5", "5.0", False),
            ("s = 5.0", " 5 ", True),
            ("s = 5", "+5", True),
            ("s = 5", "x", False),
            ("NOT (s = 5)", "x", True),
            ("s = 3000000000", "3000000000", True),
            ("s = TRUE", "True", True),
            ("s = FALSE", "x", True),
            ("s BETWEEN 1 AND 9", "5", True),
            ("'5' = n", "", True),
            ("s - 1 = 4", "5", True),
            ("s - 1 = 4", "5.0", True),
            ("s + 1 = '51'", "5", True),
            ("1 + s = 6", "5", True),
            ("s - 1 = 4", "x", False),
            ("s = b", "10", True),
            ("b = s", "300", False),
        ):
            properties: dict[str, TypedValue] = {"s": (STRING, value), "n": (INT, 5), "b": (BYTE, 10)}
            self.assertIs(matches(f"convert_string_expressions:{text}", **properties), expected, (text, value))
        self.assertFalse(matches("s = 5", s=(STRING, "5")))


class IdentifierTests(TestCase):
    def test_headers(self) -> None:
        user_id = uuid.UUID("c0652703-e543-11f1-b8bb-fddb2e946694")
        plain = CoreMessage(address="a.b", user_id=user_id.bytes, durable=False, expiration=5000, timestamp=1000, priority=7)
        plain.properties["_AMQ_GROUP_ID"] = (STRING, "g")
        encoded = Message.of(plain)
        for text in (
            "AMQPriority = 7",
            "AMQTimestamp = 1000 AND AMQTimestamp > 999.5",
            "AMQExpiration = 5000",
            "AMQDurable = 'NON_DURABLE'",
            f"AMQSize = {len(encoded.buffer)}",
            f"AMQUserID = 'ID:{user_id}'",
            "AMQAddress = 'a.b'",
            "AMQGroupID = 'g'",
            '"AMQPriority" > 6',
        ):
            self.assertTrue(Filter(text).matches(encoded), text)

    def test_absent_headers(self) -> None:
        for text in (
            "AMQUserID IS NULL",
            "AMQGroupID IS NULL",
            "AMQExpiration = 0",
            "AMQDurable = 'DURABLE'",
            "NOT (AMQUserID = 'x') IS NULL",
        ):
            self.assertTrue(matches(text), text)

    def test_a_property_cannot_pose_as_a_header(self) -> None:
        self.assertFalse(matches("AMQPriority = 9", AMQPriority=(INT, 9)))
        self.assertTrue(matches("JMSPriority = 9 AND AMQX = 1", JMSPriority=(INT, 9), AMQX=(INT, 1)))

    def test_damaged_properties_match_nothing(self) -> None:
        """Behind the property that the filter names nothing is read."""
        damaged = message({"a": (INT, 1), "b": (STRING, "xyz")})
        damaged.buffer = damaged.buffer[:-2]
        self.assertTrue(Filter("a = 1").matches(damaged))
        self.assertFalse(Filter("b IS NULL OR TRUE").matches(damaged))


class LimitTests(TestCase):
    def test_long_chains_of_and_and_or(self) -> None:
        self.assertTrue(matches(" OR ".join(["a = 1"] * 5000 + ["a = 2"]), a=(INT, 2)))
        self.assertFalse(matches(" AND ".join(["a = 2"] * 5000 + ["a = 1"]), a=(INT, 2)))

    def test_nesting_is_bounded(self) -> None:
        self.assertTrue(matches("(" * 150 + "a = 1" + ")" * 150, a=(INT, 1)))
        self.assertTrue(matches("a = 1" + " + 1" * 150, a=(INT, 151)))
        for text in (
            "(" * 30000 + "a = 1" + ")" * 30000,
            "NOT " * 10000 + "a",
            "- " * 10000 + "1 = 1",
            "a = 1" + " + 1" * 10000,
            "a" + " IS NULL" * 7000,
            "(" * 150 + "1" + " + 1)" * 150 + " + 1" * 150 + " = a",
            "a = (" * 9000,
            "a = 1 + (" * 5000,
        ):
            error = refusal(text)
            self.assertIn("levels of nesting", error)

    def test_length_is_bounded(self) -> None:
        values = ",".join(f"'{number:050}'" for number in range(1000))
        self.assertTrue(matches(f"a IN ({values})", a=(STRING, f"{999:050}")))
        error = refusal("a" * (FILTER_LENGTH_MAX + 1))
        self.assertIn("AMQ229020", error)
        self.assertLess(len(error), 400)

    def test_comments_without_line_break_are_searched_for_once(self) -> None:
        """Sixty thousand hyphens: ends at once, or not within the time of a test."""
        self.assertTrue(matches(" OR ".join(["a=2--1"] * 6000), a=(INT, 3)))


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


class VectorTests(TestCase):
    """What real clients sent, and what the real broker gave them."""

    def test_recorded_selectors(self) -> None:
        files = sorted(VECTORS.glob("*/selectors.json"))
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            recorded = json.loads(file.read_text(encoding="utf-8"))
            accepted, refused = [], {error["message"] for error in recorded["expect"]["errors"]}
            filters = self.sent_filters(recorded)
            for text in filters:
                if f"AMQ229020: Invalid filter: {text}" in refused:
                    refusal(text)
                else:
                    accepted.append(Filter(text))
            self.assertEqual((len(accepted), len(filters)), (3, 5))
            messages = {entry["body"]: self.message_of(entry) for entry in recorded["expect"]["sent"]}
            received = [entry["text"] for entry in recorded["expect"]["received"]]
            # the first two consumers took one message each and the third what was left
            takers = [accepted[0], accepted[1], accepted[2]]
            for body, taker in zip(received, takers, strict=True):
                self.assertTrue(taker.matches(messages[body]), (file.parent.name, body, taker.text))
            self.assertEqual([body for body in messages if accepted[0].matches(messages[body])], ["m2"])
            self.assertEqual([body for body in messages if accepted[1].matches(messages[body])], ["m1"])
            self.assertFalse(accepted[2].matches(messages["m0"]))

    @staticmethod
    def sent_filters(recorded: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[str]:
        found = []
        for connection in recorded["connections"]:
            for frame in connection["frames"]:
                if frame["name"] == "SESS_CREATECONSUMER":
                    raw = bytes.fromhex(frame["hex"])
                    (queue_length,) = struct.unpack_from(">i", raw, 21)
                    at = 25 + queue_length
                    assert raw[at] == 1
                    (size,) = struct.unpack_from(">i", raw, at + 1)
                    found.append(raw[at + 5 : at + 5 + size].decode("utf-16-le"))
        return found

    @staticmethod
    def message_of(entry: dict[str, object]) -> Message:
        kinds = {"INT": INT, "STRING": STRING}
        properties = entry["properties"]
        assert isinstance(properties, dict)
        typed = {name: (kinds[value["type"]], value["value"]) for name, value in properties.items()}
        timestamp = entry["timestamp"]
        assert isinstance(timestamp, int)
        return Message.of(CoreMessage(address="v.sel", durable=bool(entry["durable"]), timestamp=timestamp, properties=typed))
