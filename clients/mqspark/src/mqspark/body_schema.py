"""The option ``bodySchema``: a list of columns as in SQL, looked through before Spark sees it.

Spark reads it as a part of the schema of all columns, and so names a place in a text that the user has not written.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from mqclient.text import nearest_name
from mqspark.errors import BadOptionError

TYPES: Final = frozenset(
    (
        "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double", "decimal",
        "dec", "numeric", "boolean", "string", "char", "character", "varchar", "binary", "date", "time", "timestamp",
        "timestamp_ntz", "timestamp_ltz", "interval", "variant", "geometry", "geography", "void", "null", "array", "map",
        "struct",
    )
)  # fmt: skip
"""Types of SQL; not every one can be read from JSON, which is said when the reader is made."""
_INTERVAL: Final = ("year", "month", "day", "hour", "minute", "second", "to")
_TOKEN: Final = re.compile(r"""\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|\w+|\S)""")
_END: Final = ""


def check_body_schema(text: str) -> None:
    """Raise BadOptionError, with the column and the nearest type, unless the text is a list of columns."""
    _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [found[1] for found in _TOKEN.finditer(text)]
        self._at = 0

    def read(self) -> None:
        self._columns(_END)

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self, *expected: str) -> bool:
        """Skip the next token if it is one of these, in any case."""
        found = self._next.lower() in expected and self._next != _END
        self._at += found
        return found

    def _need(self, token: str, where: str) -> None:
        if not self._take(token):
            self._refuse(f"expected '{token}' {where}, not {self._shown()}")

    def _columns(self, end: str) -> None:
        while True:
            self._column()
            if self._next == end:
                return
            if not self._take(","):
                self._refuse(f"expected a comma between two columns, not {self._shown()}")

    def _column(self) -> None:
        name = self._next
        if not (name.startswith("`") and len(name) > 2) and not re.fullmatch(r"\w+", name):
            self._refuse(f"expected the name of a column, not {self._shown()}")
        self._at += 1
        self._take(":")
        self._type(f"the column {name}")
        if self._take("not"):
            self._need("null", "behind NOT")
        if self._take("comment"):
            if self._next[:1] not in ("'", '"'):
                self._refuse(f"expected a text in quotes behind COMMENT, not {self._shown()}")
            self._at += 1

    def _type(self, of: str) -> None:
        kind = self._next.lower()
        if not kind:
            self._refuse(f"{of} has no type")
        if kind not in TYPES:
            nearest = nearest_name(kind, sorted(TYPES))
            self._refuse(f"{of} has the type {self._shown()}, which SQL does not know" + (f"; did you mean {nearest}?" if nearest else ""))
        self._at += 1
        if kind in ("array", "map", "struct"):
            self._nested(kind, of)
        elif kind == "interval":
            while self._take(*_INTERVAL):
                pass
        elif self._take("("):
            while not self._take(")"):
                if self._next == _END:
                    self._refuse(f"expected ')' behind the type of {of}")
                self._at += 1
        if kind == "string" and self._take("collate"):
            self._at += 1

    def _nested(self, kind: str, of: str) -> None:
        self._need("<", f"behind {kind}")
        if kind == "struct":
            if self._next != ">":
                self._columns(">")
        else:
            self._type(of)
            if kind == "map":
                self._need(",", "between the types of a map")
                self._type(of)
        self._need(">", f"at the end of {kind}")

    def _shown(self) -> str:
        return repr(self._next) if self._next else "the end"

    def _refuse(self, why: str) -> NoReturn:
        raise BadOptionError(f"the option bodySchema={self._text!r}: {why}")
