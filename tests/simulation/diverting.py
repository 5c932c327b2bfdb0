"""The address ``goods``, whose messages diverts take elsewhere, too or instead.

Red ones go to ``goods.red`` alone, by an exclusive divert that makes a property and sets the routing type; all others stay and go to
``goods.audit`` as well, which may page, and green ones to ``goods.green`` and ``goods.more``, too.
"""

from __future__ import annotations

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.message.transformers import ADD_HEADERS
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import STRING

GOODS, RED, AUDIT, GREEN, MORE = "goods", "goods.red", "goods.audit", "goods.green", "goods.more"
ALL_GOODS = (GOODS, RED, AUDIT, GREEN, MORE)
MARK = "diverted"


class Marker:
    """A transformer of the operator's own."""

    def init(self, properties: dict[str, str]) -> None:
        self._value = properties["value"]

    def transform(self, message: CoreMessage) -> CoreMessage:
        message.properties[MARK] = (STRING, self._value)
        return message


DIVERTS = (
    DivertConfiguration(
        "goods by color",
        GOODS,
        (RED,),
        exclusive=True,
        filter_string="color = 'red'",
        routing_type="ANYCAST",
        transformer=TransformerConfiguration(ADD_HEADERS, {MARK: RED}),
    ),
    DivertConfiguration("goods seen", GOODS, (AUDIT,), transformer=TransformerConfiguration(f"{__name__}:Marker", {"value": AUDIT})),
    DivertConfiguration("goods twice", GOODS, (GREEN, MORE), routing_name="twice", filter_string="color = 'green'", routing_type="PASS"),
)
NAMES = frozenset(divert.name for divert in DIVERTS)
MARKED = frozenset((RED, AUDIT))


def queues_for(color: str) -> tuple[str, ...]:
    """The queues that a message to ``goods`` of this color gets."""
    if color == "red":
        return (RED,)
    return (GOODS, AUDIT, GREEN, MORE) if color == "green" else (GOODS, AUDIT)
