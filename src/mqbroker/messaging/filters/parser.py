"""A filter's text to a tree: a Pratt parser with the precedence of Artemis's grammar.

From loose to tight::

    1  OR
    2  AND
    3  =  <>  IS [NOT] NULL
    4  <  <=  >  >=  [NOT] LIKE  [NOT] BETWEEN  [NOT] IN
    5  +  -
    6  *  /  %
    7  unary + -, NOT, XPATH 'x', XQUERY 'x'

so that ``NOT a = 1`` means ``(NOT a) = 1``.  Errors that are visible without a message are refused here: a value in the place of a
condition, ``= NULL``, an order of strings or booleans.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from mqbroker.messaging.filters.lexer import END, FLOAT, INTEGER, NAME, STRING, SYMBOL, Lexer, Token
from mqbroker.messaging.filters.like import PATTERN_LENGTH_MAX, LikePattern
from mqbroker.messaging.filters.values import I64_MAX, Value, integer
from mqbroker.messaging.filters.xpath import XPathCondition

DEPTH_MAX = 200
"""Levels of nesting of a filter: evaluation and parsing recur, and the interpreter's stack is not to be the limit."""

_HYPHENATED = "hyphenated_props:"
_CONVERT = "convert_string_expressions:"
_SPACE = " \t\n\r\f"


class Constant(NamedTuple):
    value: Value


class Property(NamedTuple):
    """A property or one of the AMQ identifiers."""

    name: str


class Arithmetic(NamedTuple):
    operator: str
    left: Node
    right: Node


class Negation(NamedTuple):
    operand: Node


class Equality(NamedTuple):
    """``=``, or ``<>`` when ``negated``."""

    left: Node
    right: Node
    negated: bool


class Order(NamedTuple):
    """One of ``<  <=  >  >=``."""

    operator: str
    left: Node
    right: Node


class Between(NamedTuple):
    operand: Node
    low: Node
    high: Node
    negated: bool


class Like(NamedTuple):
    operand: Node
    pattern: LikePattern
    negated: bool


class In(NamedTuple):
    name: str
    values: frozenset[str]
    negated: bool


class IsNull(NamedTuple):
    operand: Node
    negated: bool


class Not(NamedTuple):
    operand: Node


class Junction(NamedTuple):
    """Operands joined by AND (``every``) or OR, in their order.  A chain is one list, however long it is."""

    every: bool
    operands: list[Node]


class XPath(NamedTuple):
    condition: XPathCondition


class Never(NamedTuple):
    """XQUERY: accepted, and false."""


Node: TypeAlias = (
    Constant | Property | Arithmetic | Negation | Equality | Order | Between | Like | In | IsNull | Not | Junction | XPath | Never
)
_BOOLEAN = (Equality, Order, Between, Like, In, IsNull, Not, Junction, XPath, Never)

_BINDING: Final = {
    "OR": 1,
    "AND": 2,
    **dict.fromkeys(("=", "<>", "IS"), 3),
    **dict.fromkeys(("<", "<=", ">", ">=", "LIKE", "BETWEEN", "IN", "NOT"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}
_UNARY = 7


class Parsed(NamedTuple):
    """``convert`` says whether text that reads as a number is compared with numbers."""

    root: Node
    convert: bool


def parse(text: str) -> Parsed:
    """Read a filter that is not blank; raises InvalidFilterExpressionError."""
    start, end = 0, len(text)
    while start < end and text[end - 1] <= " ":
        end -= 1
    hyphenated = convert = False
    while True:
        while start < end and text[start] in _SPACE:
            start += 1
        negative = 3 if text.startswith("no_", start, end) else 0
        if text.startswith(_HYPHENATED, start + negative, end):
            hyphenated = not negative
            start += negative + len(_HYPHENATED)
        elif text.startswith(_CONVERT, start + negative, end):
            convert = not negative
            start += negative + len(_CONVERT)
        else:
            return Parsed(_Parser(Lexer(text, start, end, hyphenated)).condition(), convert)


class _Parser:
    __slots__ = ("_depth", "_height", "_lexer")

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._depth = 0
        """Expressions begun and not ended."""
        self._height = 0
        """Levels of the tree read last."""

    def condition(self) -> Node:
        start = self._lexer.token.start
        root = self._require_condition(self._expression(0), start)
        if self._lexer.token.kind != END:
            raise self._lexer.expected("an operator or the end")
        return root

    def _expression(self, floor: int) -> Node:
        """An expression whose operators all bind tighter than ``floor``."""
        lexer = self._lexer
        start = lexer.token.start
        self._depth += 1
        self._limit(self._depth, start)
        left = self._operand()
        while True:
            token = lexer.token
            binding = _BINDING.get(token.text, 0) if token.kind == SYMBOL else 0
            if binding <= floor:
                break
            height = self._height
            lexer.advance()
            joined = self._join(binding, token, left, start)
            self._height = max(height, self._height + 1) if joined is left else max(height, self._height) + 1
            self._limit(self._height, token.start)
            left = joined
        self._depth -= 1
        return left

    def _limit(self, levels: int, position: int) -> None:
        if levels > DEPTH_MAX:
            raise self._lexer.error(position, f"expected at most {DEPTH_MAX} levels of nesting")

    def _operand(self) -> Node:
        lexer = self._lexer
        token = lexer.token
        self._height = 1
        if token.kind == NAME:
            return Property(lexer.advance().text)
        if token.kind == STRING:
            return Constant(lexer.advance().text)
        if token.kind == INTEGER:
            return Constant(self._integer(lexer.advance(), 1))
        if token.kind == FLOAT:
            return Constant(float(lexer.advance().text))
        if token.kind == END or token.text not in _PREFIXES:
            raise lexer.expected("a value")
        lexer.advance()
        if token.text in _WORDS:
            return Constant(_WORDS[token.text])
        if token.text == "(":
            inner = self._expression(0)
            self._symbol(")")
            return inner
        if token.text in ("XPATH", "XQUERY"):
            return self._query(token.text)
        if token.text == "-" and lexer.token.kind == INTEGER:
            return Constant(self._integer(lexer.advance(), -1))
        start = lexer.token.start
        operand = self._expression(_UNARY - 1)
        self._height += 1
        self._limit(self._height, token.start)
        if token.text == "NOT":
            return Not(self._require_condition(operand, start))
        return operand if token.text == "+" else Negation(operand)

    def _join(self, binding: int, token: Token, left: Node, start: int) -> Node:
        """The node of the binary operator ``token`` with ``left``, which begins at ``start``."""
        operator = token.text
        if binding == 4:
            return self._comparison(token, left, start)
        if operator == "IS":
            negated = self._skip("NOT")
            self._symbol("NULL")
            return IsNull(left, negated)
        at = self._lexer.token.start
        right = self._expression(binding)
        if binding <= 2:
            self._require_condition(left, start)
            self._require_condition(right, at)
            every = operator == "AND"
            if isinstance(left, Junction) and left.every is every:
                left.operands.append(right)
                return left
            return Junction(every, [left, right])
        if binding > 4:
            return Arithmetic(operator, left, right)
        for node, position in ((left, start), (right, at)):
            if isinstance(node, Constant) and node.value is None:
                raise self._lexer.error(position, "expected IS NULL or IS NOT NULL in place of a comparison with NULL")
        if (
            isinstance(left, Constant)
            and isinstance(left.value, bool)
            and isinstance(right, Constant)
            and not isinstance(right.value, bool)
        ):
            raise self._lexer.error(at, "expected TRUE or FALSE to compare with TRUE or FALSE")
        return Equality(left, right, operator == "<>")

    def _comparison(self, token: Token, left: Node, start: int) -> Node:
        """An operator of level 4."""
        lexer = self._lexer
        negated = token.text == "NOT"
        operator = token.text
        if negated:
            if lexer.token.text not in ("LIKE", "BETWEEN", "IN") or lexer.token.kind != SYMBOL:
                raise lexer.expected("LIKE, BETWEEN or IN after NOT")
            operator = lexer.advance().text
        if operator == "LIKE":
            return self._like(left, negated)
        if operator == "IN":
            if not isinstance(left, Property):
                raise lexer.error(start, "expected the name of a property before IN")
            return In(left.name, self._strings(), negated)
        self._require_ordered(left, start)
        at = lexer.token.start
        right = self._expression(4)
        self._require_ordered(right, at)
        if operator != "BETWEEN":
            return Order(operator, left, right)
        self._symbol("AND")
        at, height = lexer.token.start, self._height
        high = self._expression(4)
        self._height = max(height, self._height)
        self._require_ordered(high, at)
        return Between(left, right, high, negated)

    def _like(self, operand: Node, negated: bool) -> Node:
        lexer = self._lexer
        pattern = self._string("a pattern in single quotes after LIKE")
        if len(pattern.text) > PATTERN_LENGTH_MAX:
            raise lexer.error(pattern.start, f"expected a pattern of at most {PATTERN_LENGTH_MAX} characters")
        escape = ""
        if self._skip("ESCAPE"):
            token = self._string("one character in single quotes after ESCAPE")
            escape = token.text
            if len(escape) != 1:
                raise lexer.error(token.start, f"expected one character after ESCAPE, found {len(escape)}")
        return Like(operand, LikePattern(pattern.text, escape), negated)

    def _strings(self) -> frozenset[str]:
        """The strings in the parentheses after IN."""
        self._symbol("(")
        values = [self._string("a string in single quotes").text]
        while self._skip(","):
            values.append(self._string("a string in single quotes").text)
        self._symbol(")")
        return frozenset(values)

    def _query(self, kind: str) -> Node:
        token = self._string(f"an expression in single quotes after {kind}")
        if kind == "XQUERY":
            return Never()
        try:
            return XPath(XPathCondition(token.text))
        except ValueError as error:
            raise self._lexer.error(token.start, f"expected an XPath expression: {error}") from error

    def _integer(self, token: Token, sign: int) -> Value:
        digits = token.text.rstrip("lL").lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
        # 20 decimal digits cannot be a 64-bit number; to convert a text of thousands of digits would take long
        value = int(digits, base) if len(digits) <= 30 else I64_MAX + 2
        if value > I64_MAX and not (sign < 0 and value == I64_MAX + 1):
            raise self._lexer.error(token.start, "expected a whole number of at most 64 bits")
        number = integer(value)
        return type(number)(sign * number)

    def _require_condition(self, node: Node, position: int) -> Node:
        if isinstance(node, (Property, *_BOOLEAN)):
            return node
        if isinstance(node, Constant) and (node.value is None or isinstance(node.value, bool)):
            return node
        raise self._lexer.error(position, "expected a condition, found a value")

    def _require_ordered(self, node: Node, position: int) -> None:
        if isinstance(node, _BOOLEAN) or (isinstance(node, Constant) and isinstance(node.value, (str, bool, type(None)))):
            raise self._lexer.error(position, "expected a number: strings, booleans and NULL have no order")

    def _string(self, what: str) -> Token:
        if self._lexer.token.kind != STRING:
            raise self._lexer.expected(what)
        return self._lexer.advance()

    def _symbol(self, symbol: str) -> None:
        if not self._skip(symbol):
            raise self._lexer.expected(f'"{symbol}"')

    def _skip(self, symbol: str) -> bool:
        token = self._lexer.token
        if token.kind == SYMBOL and token.text == symbol:
            self._lexer.advance()
            return True
        return False


_WORDS: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
_PREFIXES: Final = frozenset(("(", "+", "-", "NOT", "XPATH", "XQUERY", *_WORDS))
