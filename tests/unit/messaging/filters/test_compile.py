"""Random filters against an evaluator of their trees that shares nothing with the broker's, and LIKE against its definition."""

from __future__ import annotations

import math
from typing import Any
from unittest import TestCase

from hypothesis import given, settings
from hypothesis import strategies as st

from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqbroker.messaging.message.message import Message
from mqclient.errors import InvalidFilterExpressionError
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import BOOLEAN, DOUBLE, INT, STRING, TypedValue

NAMES = ("a", "b", "c", "d")
WORDS = [
    *(
        "a",
        "b",
        "1",
        "2L",
        "0x",
        "1.5e3",
        "'x'",
        "''",
        '"',
        '"q"',
        "(",
        "(",
        ")",
        ",",
        "=",
        "<>",
        "<",
        ">=",
        "+",
        "-",
        "--",
        "*",
        "/",
        "/*",
        "*/",
    ),
    *("%", "NOT", "AND", "OR", "IS", "NULL", "LIKE", "ESCAPE", "IN", "BETWEEN", "TRUE", "XPATH", "hyphenated_props:"),
]
Tree = tuple[Any, ...]
Plain = bool | int | float | str | None


class Fails(Exception):
    """The evaluation has no result."""


numbers = st.integers(-100, 100) | st.sampled_from((0.0, 0.5, 1.5, -2.25, 100.0))
strings = st.text("ab%_'\"é", max_size=3)
values = st.builds(lambda value: ("constant", value), numbers) | st.builds(lambda name: ("property", name), st.sampled_from(NAMES))
texts = st.builds(lambda value: ("constant", value), strings) | st.builds(lambda name: ("property", name), st.sampled_from(NAMES))
conditions = st.builds(lambda value: ("constant", value), st.sampled_from((True, False))) | st.builds(
    lambda name: ("condition", name), st.sampled_from(NAMES)
)
arithmetic = st.recursive(values, lambda inner: st.tuples(st.sampled_from(("+", "-", "*", "/", "%")), inner, inner), max_leaves=4)
leaves = (
    conditions
    | st.tuples(st.sampled_from(("<", "<=", ">", ">=")), arithmetic, arithmetic)
    | st.tuples(st.sampled_from(("=", "<>")), arithmetic | texts, arithmetic | texts)
    | st.tuples(st.just("between"), st.booleans(), arithmetic, arithmetic, arithmetic)
    | st.tuples(st.just("like"), st.booleans(), texts, strings)
    | st.tuples(st.just("in"), st.booleans(), st.sampled_from(NAMES), st.lists(strings, min_size=1, max_size=3))
    | st.tuples(st.just("null"), st.booleans(), arithmetic)
)
trees = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(("and", "or")), inner, inner) | st.tuples(st.just("not"), inner),
    max_leaves=8,
)
properties = st.dictionaries(st.sampled_from(NAMES), numbers | strings | st.booleans())


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def written(tree: Tree) -> str:
    """The filter text of a tree, with all its parentheses."""
    match tree:
        case ("constant", value):
            return quoted(value) if isinstance(value, str) else str(value).upper()
        case ("property" | "condition", name):
            return str(name)
        case ("between", negated, operand, low, high):
            return f"({written(operand)} {'NOT ' if negated else ''}BETWEEN {written(low)} AND {written(high)})"
        case ("like", negated, operand, pattern):
            return f"({written(operand)} {'NOT ' if negated else ''}LIKE {quoted(pattern)})"
        case ("in", negated, name, choices):
            return f"({name} {'NOT ' if negated else ''}IN ({', '.join(map(quoted, choices))}))"
        case ("null", negated, operand):
            return f"({written(operand)} IS {'NOT ' if negated else ''}NULL)"
        case ("not", operand):
            return f"(NOT {written(operand)})"
        case (operator, left, right):
            return f"({written(left)} {str(operator).upper()} {written(right)})"
    raise AssertionError(tree)


def number(value: Plain) -> bool:
    return type(value) in (int, float)


def calculated(operator: str, left: Plain, right: Plain) -> Plain:
    if isinstance(left, str) and operator == "+":
        if isinstance(right, float):
            raise Fails  # the text of a float is a matter of its own
        return left + (str(right).lower() if isinstance(right, bool) else str(right))
    if not number(left) or not number(right):
        raise Fails
    assert isinstance(left, (int, float)) and isinstance(right, (int, float))
    if operator in "+-*":
        result = left + right if operator == "+" else left - right if operator == "-" else left * right
        return result if isinstance(result, float) else (result + 2**31) % 2**32 - 2**31
    if operator == "%":
        return math.fmod(left, right) if right and math.isfinite(left) else math.nan
    if right == 0:
        return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def compared(left: Plain, right: Plain) -> int | None:
    if type(left) is not type(right) and not (number(left) and number(right)):
        return None
    if type(left) is float or type(right) is float:
        assert isinstance(left, (int, float)) and isinstance(right, (int, float))
        keys = [(value != value, value if value == value else 0.0, math.copysign(1, value)) for value in (float(left), float(right))]
        return (keys[0] > keys[1]) - (keys[0] < keys[1])
    return (left > right) - (left < right)  # type: ignore[operator]


def ordered(operator: str, left: Plain, right: Plain) -> Plain:
    if left is None or right is None:
        return None
    found = compared(left, right)
    return found is not None and {"<": found < 0, "<=": found <= 0, ">": found > 0, ">=": found >= 0}[operator]


def inverted(value: Plain) -> Plain:
    return None if value is None else not value


def value_of(tree: Tree, given: dict[str, Plain]) -> Plain:
    match tree:
        case ("constant", value):
            constant: Plain = value
            return constant
        case ("property", name):
            return given.get(str(name))
        case ("condition", name):
            return None if given.get(str(name)) is None else given[str(name)] is True
        case ("and" | "or" as operator, left, right):
            first = value_of(left, given)
            settled = operator == "or"
            if first is settled:
                return settled
            second = value_of(right, given)
            return settled if second is settled else None if first is None or second is None else not settled
        case ("not", operand):
            return inverted(value_of(operand, given))
        case ("=" | "<>" as operator, left, right):
            first, second = value_of(left, given), value_of(right, given)
            if first is None:
                same: Plain = True if second is None else None
            else:
                same = second is not None and compared(first, second) == 0
            return same if operator == "=" else inverted(same)
        case ("between", negated, operand, low, high):
            value = value_of(operand, given)
            if value is None:
                return None
            operators = ("<", ">") if negated else (">=", "<=")
            first = ordered(operators[0], value, value_of(low, given))
            if first is negated:
                return negated
            second = ordered(operators[1], value, value_of(high, given))
            return negated if second is negated else None if first is None or second is None else not negated
        case ("like", negated, operand, pattern):
            value = value_of(operand, given)
            return None if value is None else (isinstance(value, str) and like(value, [(c, True) for c in str(pattern)])) is not negated
        case ("in", negated, name, choices):
            value = given.get(str(name))
            return (value in choices) is not negated if isinstance(value, str) else None
        case ("null", negated, operand):
            return (value_of(operand, given) is None) is not negated
        case (("<" | "<=" | ">" | ">=") as operator, left, right):
            first = value_of(left, given)
            return None if first is None else ordered(operator, first, value_of(right, given))
        case (operator, left, right):
            first = value_of(left, given)
            second = None if first is None else value_of(right, given)
            return None if second is None else calculated(str(operator), first, second)
    raise AssertionError(tree)


def matched(tree: Tree, given: dict[str, Plain]) -> bool:
    """Is the tree true?  Where only that counts, what cannot be true any more is not evaluated, and cannot fail."""
    match tree:
        case ("and", left, right):
            return matched(left, given) and matched(right, given)
        case ("or", left, right):
            return matched(left, given) or matched(right, given)
    return value_of(tree, given) is True


def like(text: str, pattern: list[tuple[str, bool]]) -> bool:
    """LIKE by its definition: which beginnings of the text does each beginning of the pattern match?  The flag says "not escaped"."""
    reached = {0}
    for character, special in pattern:
        if special and character == "%":
            reached = set(range(min(reached, default=len(text) + 1), len(text) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(text) and (text[at] == character or (special and character == "_"))}
    return len(text) in reached


def typed(value: Plain) -> TypedValue:
    kind = BOOLEAN if isinstance(value, bool) else INT if isinstance(value, int) else DOUBLE if isinstance(value, float) else STRING
    return kind, value


class RandomFilterTests(TestCase):
    @settings(deadline=None, max_examples=400)
    @given(trees, properties)
    def test_agrees_with_the_tree(self, tree: Tree, given: dict[str, Plain]) -> None:
        text = written(tree)
        try:
            expected = matched(tree, given)
        except Fails:
            return
        message = Message.of(CoreMessage(properties={name: typed(value) for name, value in given.items()}))
        try:
            filter = Filter(text)
        except InvalidFilterExpressionError as error:
            self.assertIn("have no order" if "<" in text or ">" in text or "BETWEEN" in text else "TRUE or FALSE", str(error))
            return
        self.assertIs(filter.matches(message), expected, text)

    @settings(deadline=None, max_examples=400)
    @given(
        st.lists(
            st.sampled_from(WORDS) | st.text(max_size=2),
            max_size=12,
        )
    )
    def test_any_text_is_read_or_refused(self, words: list[str]) -> None:
        text = " ".join(words)
        try:
            filter = parse_filter(text)
        except InvalidFilterExpressionError as error:
            self.assertIn("AMQ229020", str(error))
            return
        if filter is not None:
            filter.matches(Message.of(CoreMessage(properties={"a": (INT, 1)})))
