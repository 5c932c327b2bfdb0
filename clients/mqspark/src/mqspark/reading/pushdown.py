"""Filters of Spark as a selector, a range of ids and a choice of nodes, where both sides agree on every message.

A filter is taken only when it is true for exactly the messages for which Spark would find it true, in a selector's three truth values and
types as well as in SQL's.  Other filters stay with Spark, which applies them to the read messages:

* on ``properties``, ``body``, ``text``, ``map_body``, ``type``, ``delivery_count`` and ``duplicate_id`` all (the option ``selector``
  reaches properties);
* an order of texts, and a negated test of a text's beginning or end;
* ``is null``: a message that is damaged has nulls, and matches no selector;
* texts with U+FFFD, which a column has in place of half a surrogate pair.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from mqspark.messages.blocks import TIME_MAX_MS, TIME_MIN_MS
from mqspark.reading.offsets import POSITION_MAX

SELECTOR_MAX: Final = 32 * 1024
"""Characters: half of the broker's limit, so that the selector of the options has room beside it."""

PATTERN_MAX: Final = 1000
"""Characters of a text in LIKE: a quarter of the broker's limit, since each character may need an escape."""

_TEXTS: Final = {
    "address": "AMQAddress",
    "user_id": "AMQUserID",
    "correlation_id": "JMSCorrelationID",
    "reply_to": "JMSReplyTo",
    "group_id": "_AMQ_GROUP_ID",
}
_TIMES: Final = {"timestamp": "AMQTimestamp", "expiration": "AMQExpiration"}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ORDERS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_NEGATED: Final = {"=": "<>", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}


@dataclass(slots=True)
class Pushed:
    """The taken filters of one query."""

    after: int = -1
    """Only ids above this one."""
    until: int = POSITION_MAX
    """Only ids up to this one."""
    conditions: list[str] = field(default_factory=list)
    places: list[tuple[str, frozenset[str], bool]] = field(default_factory=list)
    """Column ``queue`` or ``node_id``, names, and whether they are wanted or unwanted."""

    def push(self, filters: Sequence[Filter]) -> Iterable[Filter]:
        """Take the filters that can be taken; returns the rest."""
        return [each for each in filters if not self._take(each)]

    def selector(self, own: str | None) -> str | None:
        """The selector of the options and the conditions together."""
        parts = [f"({own})"] if own is not None and self.conditions else [own] if own is not None else []
        return " AND ".join([*parts, *self.conditions]) or None

    def includes(self, node_id: str, queue: str) -> bool:
        """Can messages of this queue of this node pass?"""
        values = {"node_id": node_id, "queue": queue}
        return all((values[column] in names) is wanted for column, names, wanted in self.places)

    def _take(self, each: Filter) -> bool:
        negated = isinstance(each, Not)
        inner = each.child if isinstance(each, Not) else each
        path: tuple[str, ...] = getattr(inner, "attribute", ())
        if len(path) != 1 or (negated and isinstance(inner, EqualNullSafe)):
            return False
        column = path[0]
        if column == "message_id":
            return self._ids(inner, negated)
        if column in ("node_id", "queue"):
            return self._place(column, inner, negated)
        condition = None
        if column in _TEXTS:
            condition = _text(_TEXTS[column], inner, negated)
        elif column in _TIMES:
            condition = _time(_TIMES[column], inner, negated)
        elif column == "priority":
            condition = _priority(inner, negated)
        elif column == "durable":
            condition = _durable(inner, negated)
        if condition is None or sum(map(len, self.conditions)) + len(condition) > SELECTOR_MAX:
            return False
        self.conditions.append(condition)
        return True

    def _ids(self, inner: Filter, negated: bool) -> bool:
        if isinstance(inner, IsNotNull) and not negated:
            return True  # never null, not even of a damaged message
        order = _order(inner, negated)
        value: Any = getattr(inner, "value", None)
        if order in (None, "<>") or not _whole(value):
            return False
        low = {"=": value - 1, ">": value, ">=": value - 1}.get(order)
        high = {"=": value, "<": value - 1, "<=": value}.get(order)
        self.after = max(self.after, low if low is not None else -1)
        self.until = min(self.until, high if high is not None else POSITION_MAX)
        return True

    def _place(self, column: str, inner: Filter, negated: bool) -> bool:
        if isinstance(inner, IsNotNull) and not negated:
            return True
        values = _values(inner)
        if values is None or not all(isinstance(value, str) for value in values):
            return False
        self.places.append((column, frozenset(values), not negated))
        return True


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _order(inner: Filter, negated: bool) -> str | None:
    order = _ORDERS.get(type(inner))
    return _NEGATED[order] if order is not None and negated else order


def _values(inner: Filter) -> tuple[Any, ...] | None:
    """The allowed values of the column; None when the filter is of another kind or is about null."""
    if isinstance(inner, (EqualTo, EqualNullSafe)):
        values: tuple[Any, ...] = (inner.value,)
    elif isinstance(inner, In):
        values = tuple(inner.value)
    else:
        return None
    return values if values and None not in values else None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(text: object) -> bool:
    return isinstance(text, str) and "�" not in text and "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def _text(name: str, inner: Filter, negated: bool) -> str | None:
    if isinstance(inner, IsNotNull) and not negated:
        # A property that is no text is null in the column; all that are texts, and only they, are like this.
        return f"{name} LIKE '%'"
    values = _values(inner)
    if values is not None:
        # "IN" is unknown for a value that is no text, also when it is negated; "=" and "<>" are not.
        return f"{name} {'NOT ' if negated else ''}IN ({', '.join(map(_quoted, values))})" if all(map(_plain, values)) else None
    if negated or not isinstance(inner, (StringStartsWith, StringEndsWith, StringContains)):
        return None
    if not _plain(inner.value) or len(inner.value) > PATTERN_MAX:
        return None
    pattern = inner.value.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    pattern = ("" if isinstance(inner, StringStartsWith) else "%") + pattern + ("" if isinstance(inner, StringEndsWith) else "%")
    return f"{name} LIKE {_quoted(pattern)} ESCAPE '!'"


def _any(name: str, numbers: Sequence[int], negated: bool) -> str:
    terms = [f"{name} {'<>' if negated else '='} {number}" for number in numbers]
    return terms[0] if len(terms) == 1 else "(" + (" AND " if negated else " OR ").join(terms) + ")"


def _time(name: str, inner: Filter, negated: bool) -> str | None:
    """0 is null in the column; times beyond the years that Spark shows are never compared."""
    if isinstance(inner, IsNotNull):
        return None if negated else f"{name} <> 0"
    order = _order(inner, negated)
    values = _values(inner) if order in ("=", "<>", None) else (getattr(inner, "value", None),)
    if values is None or not all(isinstance(value, datetime.datetime) and value.tzinfo is not None for value in values):
        return None
    micros = [(value - _EPOCH) // datetime.timedelta(microseconds=1) for value in values]
    if not all(TIME_MIN_MS * 1000 < value < TIME_MAX_MS * 1000 for value in micros):
        return None
    if order in ("=", "<>", None):
        if any(value % 1000 for value in micros):
            return None
        return f"{_any(name, [value // 1000 for value in micros], negated)} AND {name} <> 0"
    below, above = micros[0] // 1000, -(-micros[0] // 1000)
    return f"{name} {order} {below if order in ('>', '<=') else above} AND {name} <> 0"


def _priority(inner: Filter, negated: bool) -> str | None:
    order = _order(inner, negated)
    values = _values(inner) if order in ("=", "<>", None) else (getattr(inner, "value", None),)
    if values is None or not all(_whole(value) for value in values):
        return None
    if order in ("=", "<>", None):
        return _any("AMQPriority", values, negated)
    return f"AMQPriority {order} {values[0]}"


def _durable(inner: Filter, negated: bool) -> str | None:
    values = _values(inner)
    if values is None or len(values) != 1 or not isinstance(values[0], bool):
        return None
    return f"AMQDurable = '{'DURABLE' if values[0] is not negated else 'NON_DURABLE'}'"
