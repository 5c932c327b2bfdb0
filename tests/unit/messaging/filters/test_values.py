"""Values in filters: their types, and three-valued logic."""

from __future__ import annotations

from unittest import TestCase

from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING, TypedValue
from tests.unit.messaging.filters.test_filter import matches


def truth(text: str, **properties: TypedValue) -> bool | None:
    """The truth value of a condition: None is unknown."""
    if matches(f"({text}) IS NULL", **properties):
        return None
    return matches(text, **properties)


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
