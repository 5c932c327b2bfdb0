"""A filter's tree to closures, and the values of a message that they look at.

A closure takes the list of values that :class:`Loader` has read from the message and gives the value of its part of the tree; a
condition gives True, False, or None for "unknown".  The commonest shapes, a property against a constant, have closures of their own
that leave the general rules aside when the types are the same.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Final, TypeAlias, assert_never

from mqbroker.messaging.filters.parser import (
    Arithmetic,
    Between,
    Constant,
    Equality,
    In,
    IsNull,
    Junction,
    Like,
    Negation,
    Never,
    Node,
    Not,
    Order,
    Parsed,
    Property,
    XPath,
)
from mqbroker.messaging.filters.values import Long, Value, calculate, equal, from_property, negate, order, text
from mqbroker.messaging.message.message import Message
from mqclient.wire.message import KEY_GROUP_ID, TYPE_TEXT, scan_headers, user_id_text
from mqclient.wire.primitives import decode_utf_16
from mqclient.wire.properties import decode_value, walk

Values: TypeAlias = list[Value]
Evaluate: TypeAlias = Callable[[Values], Value]

_I32: Final = struct.Struct(">i")


def _user_id(message: Message) -> Value:
    buffer = message.buffer
    at = scan_headers(buffer, message.headers).fixed
    marker = message.headers + 8
    marker += 5 + _I32.unpack_from(buffer, marker + 1)[0] if buffer[marker] else 1
    return f"ID:{user_id_text(buffer[at - 16 : at])}" if buffer[marker] == 1 else None


def _group_id(message: Message) -> Value:
    value = message.property(KEY_GROUP_ID)
    return text(value) if isinstance(value, (str, int, float)) else None


def _text_body(message: Message) -> Value:
    """The text of a regular text message; None for other messages and for a body that is no text."""
    buffer, end = message.buffer, message.headers
    if message.large is not None or scan_headers(buffer, end).type != TYPE_TEXT or end < 9 or not buffer[4]:
        return None
    size: int = _I32.unpack_from(buffer, 5)[0]
    if not 0 <= size <= end - 9 or size & 1:
        return None
    return decode_utf_16(buffer[9 : 9 + size])


_IDENTIFIERS: Final[dict[str, Callable[[Message], Value]]] = {
    "AMQPriority": lambda message: message.priority,
    "AMQTimestamp": lambda message: Long(message.timestamp),
    "AMQDurable": lambda message: "DURABLE" if message.durable else "NON_DURABLE",
    "AMQExpiration": lambda message: Long(message.expiration),
    "AMQSize": lambda message: message.encode_size,
    "AMQUserID": _user_id,
    "AMQAddress": lambda message: message.address,
    "AMQGroupID": _group_id,
}


class Loader:
    """Reads the fields and properties that one filter names from a message."""

    __slots__ = ("_keys", "_size", "_slots", "_system")

    def __init__(self) -> None:
        self._size = 0
        self._slots: dict[str, int] = {}
        self._keys: dict[bytes, int] = {}
        self._system: list[tuple[int, Callable[[Message], Value]]] = []

    def property(self, name: str) -> int:
        """The place for the value of this property or identifier."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._size
            self._size += 1
            read = _IDENTIFIERS.get(name)
            if read is None:
                self._keys[name.encode("utf-16-le", "surrogatepass")] = slot
            else:
                self._system.append((slot, read))
        return slot

    def body(self) -> int:
        """The place for the text of the body."""
        self._system.append((self._size, _text_body))
        self._size += 1
        return self._size - 1

    def load(self, message: Message) -> Values:
        """The values, None for a missing one.  Raises MalformedPacketError for a damaged property table."""
        values: Values = [None] * self._size
        for slot, read in self._system:
            values[slot] = read(message)
        keys = self._keys
        if keys:
            missing = len(keys)
            buffer = message.buffer
            for key_start, key_end, kind, start, end in walk(buffer, message.properties_offset, len(buffer)):
                found = keys.get(buffer[key_start:key_end])
                if found is not None:
                    values[found] = from_property(kind, decode_value(buffer, kind, start, end))
                    missing -= 1
                    if not missing:
                        break
        return values


def compile_filter(parsed: Parsed) -> tuple[Loader, Evaluate]:
    """The loader of the values, and the function that evaluates them: True is a match."""
    loader = Loader()
    return loader, _Compiler(loader, parsed.convert).match(parsed.root)


class _Compiler:
    __slots__ = ("_convert", "_loader")

    def __init__(self, loader: Loader, convert: bool) -> None:
        self._loader = loader
        self._convert = convert

    def match(self, node: Node) -> Evaluate:
        """As :meth:`condition`, where only "true" counts: evaluation stops when the result cannot be true any more."""
        if not isinstance(node, Junction):
            return self.condition(node)
        conditions = [self.match(operand) for operand in node.operands]
        return _all_true(conditions) if node.every else _any_true(conditions)

    def condition(self, node: Node) -> Evaluate:
        """As :meth:`value`; a property is true when it is the boolean true, unknown when it is missing, else false."""
        if not isinstance(node, Property):
            return self.value(node)
        slot = self._loader.property(node.name)

        def evaluate(values: Values) -> Value:
            value = values[slot]
            return None if value is None else value is True

        return evaluate

    def value(self, node: Node) -> Evaluate:
        match node:
            case Constant(value=constant):
                return lambda values: constant
            case Property(name=name):
                return operator.itemgetter(self._loader.property(name))
            case Arithmetic():
                return self._arithmetic(node)
            case Negation(operand=operand):
                inner = self.value(operand)
                return lambda values: negate(inner(values))
            case Equality():
                return self._equality(node)
            case Order():
                return self._order(node)
            case Between():
                return self._between(node)
            case Like():
                return self._like(node)
            case In():
                return self._in(node)
            case IsNull(operand=operand, negated=negated):
                inner = self.value(operand)
                return lambda values: (inner(values) is None) is not negated
            case Not(operand=operand):
                return _negated(self.condition(operand))
            case Junction():
                return _junction(node.every, [self.condition(operand) for operand in node.operands])
            case XPath(condition=condition):
                slot = self._loader.body()
                return lambda values: condition.matches(values[slot])  # type: ignore[arg-type]
            case Never():
                return lambda values: False
            case _:
                assert_never(node)

    def _arithmetic(self, node: Arithmetic) -> Evaluate:
        sign, convert, left, right = node.operator, self._convert, self.value(node.left), self.value(node.right)

        def evaluate(values: Values) -> Value:
            value = left(values)
            return None if value is None else calculate(sign, value, right(values), convert)

        return evaluate

    def _equality(self, node: Equality) -> Evaluate:
        convert = self._convert
        if isinstance(node.left, Property) and isinstance(node.right, Constant) and not isinstance(node.right.value, float):
            slot, constant, negated = self._loader.property(node.left.name), node.right.value, node.negated
            kind = type(constant)

            def evaluate(values: Values) -> Value:
                value = values[slot]
                if type(value) is kind:
                    return (value == constant) is not negated
                if value is None:
                    return None
                return equal(value, constant, convert) is not negated

            return evaluate
        left, right = self.value(node.left), self.value(node.right)
        result: Evaluate = lambda values: equal(left(values), right(values), convert)  # noqa: E731
        return _negated(result) if node.negated else result

    def _order(self, node: Order) -> Evaluate:
        convert, holds = self._convert, _ORDERS[node.operator]
        if isinstance(node.left, Property) and isinstance(node.right, Constant) and type(node.right.value) is int:
            slot, constant = self._loader.property(node.left.name), node.right.value

            def evaluate(values: Values) -> Value:
                value = values[slot]
                if type(value) is int or type(value) is Long:
                    return holds(value, constant)
                if value is None:
                    return None
                result = order(value, constant, convert)
                return result is not None and holds(result, 0)

            return evaluate
        left, right = self.value(node.left), self.value(node.right)
        return lambda values: _compare(holds, left(values), right, values, convert)

    def _between(self, node: Between) -> Evaluate:
        convert = self._convert
        operand, low, high = self.value(node.operand), self.value(node.low), self.value(node.high)

        # NOT BETWEEN is "below or above", so that a value which nothing compares with the bounds is neither inside nor outside.
        settling = node.negated
        holds_low, holds_high = (operator.lt, operator.gt) if node.negated else (operator.ge, operator.le)

        def evaluate(values: Values) -> Value:
            value = operand(values)
            first = _compare(holds_low, value, low, values, convert)
            if first is settling:
                return settling
            second = _compare(holds_high, value, high, values, convert)
            return second if second is settling or first is not None else None

        return evaluate

    def _like(self, node: Like) -> Evaluate:
        operand, pattern, negated = self.value(node.operand), node.pattern, node.negated

        def evaluate(values: Values) -> Value:
            value = operand(values)
            if value is None:
                return None
            return (type(value) is str and pattern.matches(value)) is not negated

        return evaluate

    def _in(self, node: In) -> Evaluate:
        slot, strings, negated = self._loader.property(node.name), node.values, node.negated

        def evaluate(values: Values) -> Value:
            value = values[slot]
            return (value in strings) is not negated if type(value) is str else None

        return evaluate


_ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _compare(holds: Callable[[int, int], bool], left: Value, right: Evaluate, values: Values, convert: bool) -> bool | None:
    if left is None:
        return None
    bound = right(values)
    if bound is None:
        return None
    result = order(left, bound, convert)
    return result is not None and holds(result, 0)


def _negated(condition: Evaluate) -> Evaluate:
    def evaluate(values: Values) -> Value:
        value = condition(values)
        return None if value is None else not value

    return evaluate


def _junction(every: bool, conditions: list[Evaluate]) -> Evaluate:
    """The first condition that settles it does; else one that is unknown leaves it unknown."""
    settling = not every

    def evaluate(values: Values) -> Value:
        result: Value = every
        for condition in conditions:
            value = condition(values)
            if value is settling:
                return settling
            if value is None:
                result = None
        return result

    return evaluate


def _all_true(conditions: list[Evaluate]) -> Evaluate:
    def evaluate(values: Values) -> Value:
        for condition in conditions:  # noqa: SIM110 - a generator would cost more than the conditions
            if condition(values) is not True:
                return False
        return True

    return evaluate


def _any_true(conditions: list[Evaluate]) -> Evaluate:
    def evaluate(values: Values) -> Value:
        for condition in conditions:  # noqa: SIM110 - a generator would cost more than the conditions
            if condition(values) is True:
                return True
        return False

    return evaluate
