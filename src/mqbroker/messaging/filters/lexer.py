"""Filter text to tokens (the Artemis manual, "Filter Expressions").

Tokens are made one at a time, so that a text with an early mistake costs no more than its beginning.
"""

from __future__ import annotations

import re
from typing import Final

from mqclient.errors import InvalidFilterExpressionError

TEXT_SHOWN = 200
"""Characters of the filter that an error repeats."""

KEYWORDS: Final = frozenset(("NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL", "XPATH", "XQUERY"))

_TOKEN = (
    r"(?P<space>[ \t\n\r\f]++)"
    r"|(?P<float>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?|\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++)"
    r"|(?P<integer>0[xX][0-9a-fA-F]++[lL]?|0[0-7]*+[lL]?|[1-9][0-9]*+[lL]?)"
    r"|(?P<string>'(?:[^']++|'')*+')"
    r'|(?P<quoted>"(?:[^"]++|"")*+")'
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$%s]*+)"
    r"|(?P<operator><>|<=|>=|[=<>+\-*/%%(),])"
)
_PLAIN: Final = re.compile(_TOKEN % "")
_HYPHENATED: Final = re.compile(_TOKEN % "-")

END: Final = "end"
FLOAT: Final = "float"
INTEGER: Final = "integer"
STRING: Final = "string"
NAME: Final = "name"
SYMBOL: Final = "symbol"
"""Kinds of tokens.  A symbol is a keyword (in capitals) or an operator."""


class Token:
    """``text`` is a symbol, a name, the contents of a string, or the digits of a number; ``start`` its offset in the filter."""

    __slots__ = ("kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start

    def __str__(self) -> str:
        if self.kind == END:
            return "the end"
        if self.kind == STRING:
            return "a string"
        return f'"{self.text if len(self.text) <= 40 else self.text[:40] + "…"}"'


class Lexer:
    """``token`` is the token at hand; :meth:`advance` goes on to the next."""

    __slots__ = ("_end", "_newline", "_pattern", "_position", "text", "token")

    def __init__(self, text: str, start: int, end: int, hyphenated: bool) -> None:
        self.text = text
        self._position = start
        self._end = end
        self._pattern = _HYPHENATED if hyphenated else _PLAIN
        self._newline = start - 1
        """Where the next line break is; looked up only when the position has passed it."""
        self.token = self._next()

    def advance(self) -> Token:
        """The token at hand, which is left behind."""
        token = self.token
        self.token = self._next()
        return token

    def error(self, position: int, problem: str) -> InvalidFilterExpressionError:
        """The error to raise; ``position`` is an offset in the text and is told counting from 1."""
        shown = self.text if len(self.text) <= TEXT_SHOWN else self.text[:TEXT_SHOWN] + "…"
        return InvalidFilterExpressionError(f"AMQ229020: Invalid filter: {shown} (at character {position + 1}: {problem})")

    def expected(self, what: str) -> InvalidFilterExpressionError:
        """The error for a token that does not fit."""
        return self.error(self.token.start, f"expected {what}, found {self.token}")

    def _next(self) -> Token:
        text, end = self.text, self._end
        while self._position < end:
            start = self._position
            if text.startswith("--", start) and self._skip_line_comment(start):
                continue
            if text.startswith("/*", start):
                close = text.find("*/", start + 2, end)
                if close < 0:
                    raise self.error(start, "expected */ after this")
                self._position = close + 2
                continue
            match = self._pattern.match(text, start, end)
            if match is None:
                raise self._unreadable(start)
            self._position = match.end()
            if match.lastgroup != "space":
                return self._token(match, start)
        return Token(END, "", end)

    def _skip_line_comment(self, start: int) -> bool:
        """A comment needs the line break that ends it; without one ``--`` is two minus signs, as in Artemis."""
        if self._newline < start:
            breaks = [at for at in (self.text.find("\n", start, self._end), self.text.find("\r", start, self._end)) if at >= 0]
            self._newline = min(breaks, default=self._end)
        if self._newline >= self._end:
            return False
        self._position = self._newline + 1
        return True

    def _token(self, match: re.Match[str], start: int) -> Token:
        found = match.group()
        group = match.lastgroup
        if group == "name":
            upper = found.upper()
            return Token(SYMBOL, upper, start) if upper in KEYWORDS else Token(NAME, found, start)
        if group == "operator":
            return Token(SYMBOL, found, start)
        if group == "string":
            return Token(STRING, found[1:-1].replace("''", "'"), start)
        if group == "quoted":
            return Token(NAME, found[1:-1].replace('""', '"'), start)
        return Token(INTEGER if group == "integer" else FLOAT, found, start)

    def _unreadable(self, start: int) -> InvalidFilterExpressionError:
        character = self.text[start]
        if character in "'\"":
            return self.error(start, f"expected a closing {character} after this")
        if character == "!":
            return self.error(start, 'expected "<>" for "not equal"')
        return self.error(start, f"expected a name, a value or an operator, found {character!r}")
