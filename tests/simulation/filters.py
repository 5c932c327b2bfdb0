"""Filters with what they mean, written down once more in Python: the reference for what the broker lets through.

A condition about a property that is missing is neither true nor false, and lets nothing through.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from mqclient.core.api import ClientMessage
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import KEY_GROUP_ID, TYPE_TEXT
from mqclient.wire.properties import BYTE, CHAR, FLOAT, LONG, SHORT


@dataclass(slots=True)
class Letter:
    """What a message says: the properties that it has, and the XML text that it carries, None: no text at all."""

    text: str
    number: int | None = None
    ratio: float | None = None
    flag: bool | None = None
    word: str | None = None
    sign: str | None = None
    group: str | None = None
    priority: int = 4
    durable: bool = False
    items: list[str] = field(default_factory=list)
    xml: bool = True

    def message(self, padding: int = 0) -> ClientMessage:
        if self.xml:
            items = "".join(f"<item>{item}</item>" for item in self.items)
            text = f"<?xml version='1.0' encoding='UTF-8'?><order id='{self.text}'>{items}{' ' * padding}</order>"
        else:
            text = f"no <xml {'x' * padding}"
        message = ClientMessage(type=TYPE_TEXT, priority=self.priority, durable=self.durable, body=encode_text(text))
        message.put("text", self.text)
        message.put("digits", "17")
        message.put("blob", b"x")
        message.put("tiny", 5, BYTE)
        message.put("small", 300, SHORT)
        message.put("big", 5_000_000_000, LONG)
        message.put("single", 1.5, FLOAT)
        if self.number is not None:
            message.put("number", self.number)
        if self.ratio is not None:
            message.put("ratio", self.ratio)
        if self.flag is not None:
            message.put("flag", self.flag)
        if self.word is not None:
            message.put("word", self.word)
            message.put("with-hyphen", self.word)
        if self.sign is not None:
            message.put("sign", ord(self.sign), CHAR)
        if self.group is not None:
            message.put(KEY_GROUP_ID, self.group)
        return message


def draw(rng: random.Random, text: str) -> Letter:
    return Letter(
        text,
        rng.choice((None, -3, 0, 7, 7, 12, 55)),
        rng.choice((None, -0.5, 0.25, 2.5, 1e300)),
        rng.choice((None, True, False)),
        rng.choice((None, "", "red", "green", "a_b", "50%", "zz'z")),
        rng.choice((None, "x", "y")),
        rng.choice((None, None, "north", "south")),
        rng.choice((4, 4, 0, 9)),
        rng.random() < 0.5,
        [rng.choice("abc") for _ in range(rng.randrange(4))],
        rng.random() < 0.85,
    )


Meaning = Callable[[Letter], object]
"""True and false are told by truth, so that None is not let through."""

FILTERS: tuple[tuple[str, Meaning], ...] = (
    ("number > 5", lambda m: m.number is not None and m.number > 5),
    ("NOT (number > 5)", lambda m: m.number is not None and m.number <= 5),
    ("number = 7 OR word = 'red'", lambda m: m.number == 7 or m.word == "red"),
    ("number <> 7 AND flag", lambda m: m.number not in (None, 7) and m.flag),
    ("NOT flag", lambda m: m.flag is False),
    ("flag = FALSE", lambda m: m.flag is False),
    ("flag <> TRUE", lambda m: m.flag is False),
    ("number IS NULL", lambda m: m.number is None),
    ("number IS NOT NULL AND ratio IS NULL", lambda m: m.number is not None and m.ratio is None),
    ("number BETWEEN 0 AND 12", lambda m: m.number is not None and 0 <= m.number <= 12),
    ("number NOT BETWEEN 0 AND 12", lambda m: m.number is not None and not 0 <= m.number <= 12),
    ("number BETWEEN -1 AND ratio", lambda m: None not in (m.number, m.ratio) and -1 <= m.number <= m.ratio),  # type: ignore[operator]
    ("word IN ('red', 'green', '')", lambda m: m.word in ("red", "green", "")),
    ("word NOT IN ('red', 'green')", lambda m: m.word not in (None, "red", "green")),
    ("word LIKE '%e%'", lambda m: m.word is not None and "e" in m.word),
    ("word LIKE '_'", lambda m: m.word is not None and len(m.word) == 1),
    ("word LIKE ''", lambda m: m.word == ""),
    ("word LIKE '%'", lambda m: m.word is not None),
    ("word LIKE 'a\\_b' ESCAPE '\\'", lambda m: m.word == "a_b"),
    ("word LIKE '%!%' ESCAPE '!'", lambda m: m.word == "50%"),
    ("word NOT LIKE '%_e_'", lambda m: m.word not in (None, "red", "green")),
    ("word = 'zz''z'", lambda m: m.word == "zz'z"),
    ("hyphenated_props:with-hyphen = 'green'", lambda m: m.word == "green"),
    ("number + ratio > 2", lambda m: None not in (m.number, m.ratio) and m.number + m.ratio > 2),  # type: ignore[operator]
    ("-number = 3", lambda m: m.number == -3),
    ("number / 2 = 3.5", lambda m: m.number == 7),
    ("number % 2 = 1", lambda m: m.number in (7, 55)),
    ("number * 1.5 = 18", lambda m: m.number == 12),
    ("ratio < 1e3", lambda m: m.ratio is not None and m.ratio < 1000),
    ("ratio * 1e300 > 1e308", lambda m: m.ratio == 1e300),
    ("big = 5000000000 AND number < big", lambda m: m.number is not None),
    ("tiny + small = 305 AND single = 1.5 AND number = ratio", lambda m: m.number == m.ratio),
    ("number = 'red'", lambda m: False),
    ("blob = 'x' OR number = 0", lambda m: m.number == 0),
    ("-word = 3 OR number = 0", lambda m: m.number == 0),
    ("-flag = 3 OR number = 0", lambda m: m.number == 0),
    ("-tiny = 3 OR number = 0", lambda m: False),
    ("flag + 1 = 3 OR number = 0", lambda m: m.number == 0 and m.flag is None),
    ("blob < 3 OR number = 0", lambda m: False),
    ("word + blob = 'x' OR number = 0", lambda m: m.number == 0 and m.word is None),
    ("ratio % 0 = 1 OR number = 7", lambda m: m.number == 7),
    ("ratio * 1e300 * 10 = 1e300 * 1e300", lambda m: m.ratio == 1e300),
    (
        "'' + ratio = '0.25' OR '' + big = '5000000000' AND word + number = 'red7'",
        lambda m: m.ratio == 0.25 or (m.word, m.number) == ("red", 7),
    ),
    ("'' + ratio * 1e300 = 'Infinity' OR '' + single = '1.5' AND flag", lambda m: m.ratio == 1e300 or m.flag),
    ("sign = 'x'", lambda m: False),
    ("sign <> 'x'", lambda m: m.sign is not None),
    ("convert_string_expressions:digits = 17 AND digits BETWEEN 16.5 AND 17.5 AND number = 7", lambda m: m.number == 7),
    ("AMQPriority > 4", lambda m: m.priority > 4),
    ("AMQDurable = 'DURABLE'", lambda m: m.durable),
    ("AMQGroupID = 'north'", lambda m: m.group == "north"),
    ("AMQUserID IS NULL AND AMQExpiration = 0 AND number = 7", lambda m: m.number == 7),
    ("AMQSize > 10 AND flag", lambda m: m.flag),
    ("XPATH '/order/item'", lambda m: m.xml and m.items),
    ("XPATH '//item[. = \"a\"]'", lambda m: m.xml and "a" in m.items),
    ("XPATH 'count(/order/item) > 1'", lambda m: m.xml and len(m.items) > 1),
    ("XPATH '/order/item[1][. = \"b\"]/following-sibling::item'", lambda m: m.xml and m.items[:1] == ["b"] and len(m.items) > 1),
    ("XPATH '/order[item = //item[2] and @id]'", lambda m: m.xml and len(m.items) > 1),
    ("NOT XPATH '/order/item'", lambda m: not (m.xml and m.items)),
    ("XPATH '/order/item[. = \"c\"]' AND number > 0", lambda m: m.xml and "c" in m.items and m.number is not None and m.number > 0),
    ("TRUE AND NOT FALSE AND (word = 'red' OR NOT (word = 'red'))", lambda m: m.word is not None),
    ("/* a comment */ number = 0x7 -- and more\n AND flag IS NULL", lambda m: m.number == 7 and m.flag is None),
)
"""A filter, and what is let through."""

NO_FILTERS = (
    "number >",
    "number = 'x",
    "number ! 5",
    "number = = 5",
    "NOT",
    "(number = 5",
    "number = 5)",
    "number BETWEEN 1",
    "number IN (1, 2)",
    "word IN ()",
    "word LIKE",
    "word LIKE 'x' ESCAPE 'ab'",
    "word LIKE 'x' ESCAPE",
    "5 NOT number",
    "number = 99999999999999999999",
    "'red' < 'green'",
    "word > 'red'",
    "flag > TRUE",
    "number = NULL",
    "5",
    "5 IN ('x')",
    "/* no end",
    "number # 5",
    "XPATH '//item['",
    "XPATH 5",
    f"XPATH '{'/item' * 500}'",
    "(" * 300 + "flag" + ")" * 300,
    f"word LIKE '{'x%' * 40_000}'",
)
"""What the broker refuses when a queue or a consumer is made."""
