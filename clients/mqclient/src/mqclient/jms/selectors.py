"""JMS selectors as filters of the broker.

The broker knows the JMS headers under other names (Artemis manual, "Filter Expressions"), so identifiers outside of quotes and comments
are replaced.  ``'PERSISTENT'`` and ``'NON_PERSISTENT'`` are replaced only where they stand in the same condition as ``JMSDeliveryMode``:
the Java client replaces them everywhere, so that there ``colour = 'PERSISTENT'`` never matches.
"""

from __future__ import annotations

import re
from typing import Final

_IDENTIFIERS: Final = {
    "JMSDeliveryMode": "AMQDurable",
    "JMSPriority": "AMQPriority",
    "JMSTimestamp": "AMQTimestamp",
    "JMSMessageID": "AMQUserID",
    "JMSExpiration": "AMQExpiration",
    "JMSXGroupID": "AMQGroupID",
}
_DELIVERY_MODES: Final = {"'PERSISTENT'": "'DURABLE'", "'NON_PERSISTENT'": "'NON_DURABLE'"}
_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'?         # a string; without its end the broker says what is wrong
      | "(?:[^"]|"")*"?         # a quoted identifier
      | --[^\n]* | /\*.*?\*/    # comments
      | [A-Za-z_$][\w$]*        # an identifier or keyword
      | \s+ | [^\s]""",
    re.VERBOSE | re.DOTALL,
)


def to_filter(selector: str | None) -> str | None:
    """The filter for a JMS selector; None for none or a blank one."""
    if selector is None or not selector.strip():
        return None
    parts: list[str] = []
    condition: list[str] = []
    for token in _TOKEN.findall(selector):
        if token.upper() in ("AND", "OR"):
            parts += _translate(condition)
            parts.append(token)
            condition = []
        else:
            condition.append(token)
    parts += _translate(condition)
    return "".join(parts)


def _translate(condition: list[str]) -> list[str]:
    literals = _DELIVERY_MODES if "JMSDeliveryMode" in condition else {}
    return [_IDENTIFIERS.get(token) or literals.get(token, token) for token in condition]


def without_local(filter: str | None, connection_id: str) -> str:
    """``filter`` and also: the message was not sent by the connection with this id (its client id, or its own unique id)."""
    quoted = connection_id.replace("'", "''")
    own = f"__AMQ_CID<>'{quoted}'"
    if filter is None:
        return own
    if any(token.upper() == "OR" for token in _TOKEN.findall(filter)):
        filter = f"({filter})"
    return f"{filter} AND {own}"
