"""The attributes of OpenMQ's destinations, as settings of an address: in ``create dst``, ``update dst`` and ``imq.autocreate.*``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.values import Kind

DEAD_MESSAGE_QUEUE = "mq.sys.dmq"
"""Dead letters and expired messages of all destinations."""

NOWHERE = "mq.sys.nowhere"
"""The dead letter address of a destination that does not use the dead message queue: there is never an address of this name."""

POLICIES = {"REJECT_NEWEST": "FAIL", "FLOW_CONTROL": "BLOCK"}
"""The address policy for each behaviour at a limit."""

_POLICY = "addressFullMessagePolicy"
_PAGE = "PAGE"
"""The policy where nobody has set a limit."""

_BEHAVIORS = (*POLICIES, "REMOVE_OLDEST", "REMOVE_LOW_PRIORITY")

Beans = dict[str, Any]
"""Settings of an address with the names of Java beans, as management writes them."""


class AttributeRefused(ValueError):
    """An attribute with a value that cannot be kept; the text says why."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a destination.

    ``title`` is how ``query dst`` shows it, ``kind`` what values it has, ``default`` its value where nobody sets it.  ``only`` are values
    that can be kept, None = all; ``reason`` says why not the others.  ``queues``: topics do not have it.
    """

    name: str
    title: str
    kind: Kind
    default: str
    only: tuple[Any, ...] | None = None
    reason: str = ""
    queues: bool = False


UNLIMITED_BY_ZERO = frozenset(("maxNumMsgs", "maxTotalMsgBytes", "maxBytesPerMsg"))
"""The attributes for which 0 is the old way to say that there is no limit."""

_COUNT = kinds.integer(0, kinds.INT_MAX, -1)
_POSITIVE = kinds.integer(1, kinds.INT_MAX, -1)
_SHORT = {"t": "true", "f": "false"}
_NO_SCHEMA = "bodies are not looked into"

ATTRIBUTES: Sequence[Attribute] = (
    Attribute("maxNumMsgs", "Max Number of Messages", _COUNT, "-1"),
    Attribute("maxTotalMsgBytes", "Max Total Message Bytes", kinds.byte_size(0, -1), "-1"),
    Attribute(
        "maxBytesPerMsg", "Max Bytes per Message", kinds.byte_size(0, -1), "-1", (-1,), "the size of a single message is not limited"
    ),
    Attribute(
        "maxNumProducers",
        "Max Number of Producers",
        _POSITIVE,
        "-1",
        (-1,),
        "a CORE client gets no answer when it makes a producer, and so cannot be refused one",
    ),
    Attribute("maxNumActiveConsumers", "Max Number of Active Consumers", _POSITIVE, "-1", queues=True),
    Attribute(
        "maxNumBackupConsumers",
        "Max Number of Backup Consumers",
        kinds.integer(-1, kinds.INT_MAX),
        "0",
        (0,),
        "queues have no consumers that only wait",
        queues=True,
    ),
    Attribute(
        "limitBehavior",
        "Limit Behavior",
        kinds.choice(*_BEHAVIORS),
        "REJECT_NEWEST",
        tuple(POLICIES),
        "messages that give way would not go to the dead message queue",
    ),
    Attribute("consumerFlowLimit", "Consumer Flow Limit", kinds.integer(1, kinds.INT_MAX), "1000"),
    Attribute("isLocalOnly", "Is Local Destination", kinds.BOOLEAN, "false", (False,), "all brokers of a cluster know every destination"),
    Attribute("localDeliveryPreferred", "Local Delivery is Preferred", kinds.BOOLEAN, "false", queues=True),
    Attribute("useDMQ", "Use Dead Message Queue", kinds.BOOLEAN, "true"),
    Attribute("validateXMLSchemaEnabled", "XML schema validation enabled", kinds.BOOLEAN, "false", (False,), _NO_SCHEMA),
    Attribute("XMLSchemaURIList", "XML schema URI List", kinds.TEXT, "-", ("",), _NO_SCHEMA),
    Attribute("reloadXMLSchemaOnFailure", "Reload XML schema on failure", kinds.BOOLEAN, "false", (False,), _NO_SCHEMA),
)
"""In the order of ``query dst``."""

BY_NAME = {each.name: each for each in ATTRIBUTES}


def names_for(queue: bool) -> list[str]:
    """The attributes that a queue, or else a topic, has."""
    return sorted(each.name for each in ATTRIBUTES if queue or not each.queues)


def parse_attributes(texts: Mapping[str, str], queue: bool) -> dict[str, Any]:
    """The values of attributes of a queue, or else a topic.

    Raises :class:`AttributeRefused` for one that is not known, that has another kind of value, or that cannot be kept.
    """
    found: dict[str, Any] = {}
    for name, text in texts.items():
        attribute = BY_NAME.get(name)
        if attribute is None or (attribute.queues and not queue):
            listed = "\n".join(names_for(queue))
            raise AttributeRefused(
                f"Invalid attribute specified: {name}\nThe valid attributes for a {'queue' if queue else 'topic'} are:\n{listed}"
            )
        written = text.strip()
        try:
            value = attribute.kind.convert(_SHORT.get(written.lower(), written) if attribute.kind is kinds.BOOLEAN else written)
        except ValueError:
            raise AttributeRefused(
                f"The value '{text}' for the attribute '{name}' is invalid: expected {attribute.kind.expected}"
            ) from None
        if name in UNLIMITED_BY_ZERO and value == 0:
            value = -1
        if attribute.only is not None and value not in attribute.only:
            raise AttributeRefused(f"The attribute '{name}' cannot be '{text}': {attribute.reason}")
        found[name] = value
    return found


def settings_with(present: Beans, values: Mapping[str, Any]) -> Beans:
    """The settings of a destination after ``values`` have changed."""
    beans = dict(present)
    for name, value in values.items():
        for bean in _BEANS.get(name, ()):
            beans[bean] = value
    if "limitBehavior" in values:
        beans[_POLICY] = POLICIES[values["limitBehavior"]]
    elif any(beans.get(name, -1) >= 0 for name in ("maxSizeMessages", "maxSizeBytes")) and beans.get(_POLICY, _PAGE) == _PAGE:
        beans[_POLICY] = POLICIES["REJECT_NEWEST"]
    if "useDMQ" in values:
        beans["deadLetterAddress"] = beans["expiryAddress"] = DEAD_MESSAGE_QUEUE if values["useDMQ"] else NOWHERE
    size = beans.get("maxSizeBytes", -1)
    if 0 < size < AddressSettings().page_size_bytes:
        beans["pageSizeBytes"] = size
    else:
        beans.pop("pageSizeBytes", None)
    return beans


_BEANS: Mapping[str, Sequence[str]] = {
    "maxNumMsgs": ("maxSizeMessages",),
    "maxTotalMsgBytes": ("maxSizeBytes",),
    "maxNumActiveConsumers": ("defaultMaxConsumers",),
    "consumerFlowLimit": ("consumerFlowLimit",),
    "localDeliveryPreferred": ("localDeliveryPreferred",),
}
"""The attributes whose values are those of a setting."""


def shown_attributes(settings: AddressSettings, max_consumers: int | None, flow_limit: int, queue: bool) -> dict[str, str]:
    """The attributes of a destination as ``query dst`` shows them, by title.

    ``max_consumers`` is the limit of the queue, None = as the settings say; ``flow_limit`` is that of the cluster.
    """
    policies = {policy: name for name, policy in POLICIES.items()}
    consumers = settings.default_max_consumers if max_consumers is None else max_consumers
    values: dict[str, Any] = {
        "maxNumMsgs": settings.max_size_messages,
        "maxTotalMsgBytes": settings.max_size_bytes,
        "maxNumActiveConsumers": consumers,
        "limitBehavior": policies.get(settings.address_full_policy, "REJECT_NEWEST"),
        "consumerFlowLimit": flow_limit if settings.consumer_flow_limit is None else settings.consumer_flow_limit,
        "localDeliveryPreferred": settings.local_delivery_preferred,
        "useDMQ": settings.dead_letter_address != NOWHERE,
    }
    found: dict[str, str] = {}
    for each in ATTRIBUTES:
        if queue or not each.queues:
            shown = each.kind.show(values.get(each.name, each.default))
            found[each.title] = "unlimited (-1)" if shown == "-1" else shown
    return found
