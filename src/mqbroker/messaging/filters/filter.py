"""Filters of queues, consumers and diverts: SQL-92-like conditions on a message's headers and properties.

Source: the Artemis manual, "Filter Expressions", and how an Artemis 2.44 broker evaluates.  A filter has three truth values; only "true"
is a match.  Other than there, a whole number of more than 64 bits is refused (there it never matches), ``L`` may follow any whole number,
and quoted names may follow ``hyphenated_props:``.
"""

from __future__ import annotations

from typing import Final

from mqbroker.messaging.filters.errors import FilterEvaluationError
from mqbroker.messaging.message.message import Message
from mqclient.errors import InvalidFilterExpressionError, MalformedPacketError

FILTER_LENGTH_MAX: Final = 64 * 1024
"""Characters of a filter: room for a thousand ids after IN, and read in a fifth of a second at worst."""


class Filter:
    """A filter, read once and used for many messages.  ``text`` is the filter's unchanged text; filters of the same text are equal."""

    __slots__ = ("_evaluate", "_loader", "text")

    def __init__(self, text: str) -> None:
        """Read ``text``, which is not blank; raises InvalidFilterExpressionError."""
        # Imported here: the grammar costs a broker without filters a tenth of its start-up time.
        from mqbroker.messaging.filters.compile import compile_filter
        from mqbroker.messaging.filters.lexer import TEXT_SHOWN
        from mqbroker.messaging.filters.parser import parse

        if len(text) > FILTER_LENGTH_MAX:
            shown = text[:TEXT_SHOWN]
            raise InvalidFilterExpressionError(f"AMQ229020: Invalid filter: {shown}… (expected at most {FILTER_LENGTH_MAX} characters)")
        self.text = text
        self._loader, self._evaluate = compile_filter(parse(text))

    def matches(self, message: Message) -> bool:
        """Is the condition true of this message?  A message for which it cannot be evaluated does not match."""
        try:
            return self._evaluate(self._loader.load(message)) is True
        except (FilterEvaluationError, MalformedPacketError):
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"


def parse_filter(text: str | None) -> Filter | None:
    """The filter in ``text``; None for None, an empty and a blank text.

    Raises :class:`~mqclient.errors.InvalidFilterExpressionError`, whose text names the place and the expected syntax.
    """
    if text is None or not text.strip("".join(map(chr, range(33)))):
        return None
    return Filter(text)
