"""XPATH 'x': a condition on the body of a text message, read as XML.

The text comes from any client.  Entities are not resolved, nothing is fetched, and an expression that could go over the document again
and again for each of its nodes is not evaluated on a document that is too large for it.
"""

from __future__ import annotations

import re
from typing import Final

from mqbroker.messaging.filters.errors import FilterEvaluationError

EXPRESSION_LENGTH_MAX: Final = 2000
"""Characters of an XPath expression in a filter."""

BODY_LENGTH_MAX: Final = 1 << 20
"""Characters of a body that an XPath expression reads as XML."""

WORK_MAX: Final = 5_000_000
"""Nodes that an XPath expression may visit by the estimate: some tens of milliseconds."""

_TOKEN: Final = re.compile(
    r"""'[^']*'|"[^"]*"|(?P<open>\[)|(?P<close>\])|(?P<far>(?:preceding|following)[a-z-]*\s*::)"""
    r"""|(?P<wide>//|\.\.|(?:ancestor|descendant|parent)[a-z-]*\s*::)|(?P<slash>/)"""
)
_LAST_WORD: Final = re.compile(r"[\w.-]*\Z")


class XPathCondition:
    """A compiled expression; raises ValueError for one that is none."""

    __slots__ = ("_evaluate", "_parser", "_wide", "text")

    def __init__(self, text: str) -> None:
        # Few brokers have such a filter: the others need not load the XML library for it.
        from lxml import etree

        if len(text) > EXPRESSION_LENGTH_MAX:
            raise ValueError(f"at most {EXPRESSION_LENGTH_MAX} characters")
        self.text = text
        try:
            etree.XPath(text)
            # A path without a slash before it begins at the document; lxml would begin at its root element.
            self._evaluate = etree.XPath(f"boolean((/)[boolean({text})])", regexp=False, smart_strings=False)
        except etree.XPathSyntaxError as error:
            raise ValueError(str(error)) from error
        self._parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        self._wide = _wide_steps(text)

    def matches(self, body: str | None) -> bool:
        """Does the condition hold for the document?  No body, and one that is no XML, is false.

        Raises FilterEvaluationError when the work would be too much.
        """
        from lxml import etree

        if body is None or "<!ENTITY" in body:
            return False
        if len(body) > BODY_LENGTH_MAX:
            raise FilterEvaluationError(f"XPATH reads a text of at most {BODY_LENGTH_MAX} characters")
        nodes = 2 * body.count("<") + body.count("=") + 2
        if nodes ** (1 + self._wide) > max(WORK_MAX, nodes):
            raise FilterEvaluationError("the document is too large for this XPATH expression")
        try:
            return bool(self._evaluate(etree.fromstring(_bytes(body), self._parser)))
        except (etree.XMLSyntaxError, etree.XPathEvalError, UnicodeEncodeError):
            return False


def _bytes(body: str) -> bytes:
    """The document in the one encoding that its declaration, which was true of other bytes, cannot contradict."""
    return b"\xff\xfe" + re.sub(r"\A<\?xml\s.*?\?>", "", body, count=1, flags=re.S).encode("utf-16-le")


def _wide_steps(text: str) -> int:
    """How often, at most, the work may be multiplied by the size of the document.

    A step that looks at the whole document or goes upwards counts in a predicate, where it is made for every node anew, and
    ``preceding`` and ``following`` count everywhere.
    """
    depth = wide = 0
    for match in _TOKEN.finditer(text):
        token = match.lastgroup
        if token == "open":
            depth += 1
        elif token == "close":
            depth -= 1
        elif token == "far" or (depth and token == "wide") or (depth and token == "slash" and not _continues(text[: match.start()])):
            wide += 1
    return wide


def _continues(before: str) -> bool:
    """Does a ``/`` after this text go a step further (and not back to the document's root)?"""
    if before[-1:] in (")", "]"):
        return True
    word = _LAST_WORD.search(before)
    return word is not None and word.group() not in ("", "and", "or", "div", "mod")
