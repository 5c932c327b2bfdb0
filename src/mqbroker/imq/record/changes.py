"""One change of a definition, as the change record has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqbroker.messaging.queues.definitions import MULTICAST, ROUTING_TYPE_NAMES, QueueDefinition


class Kind(StrEnum):
    """The kinds of changes, by the names of OpenMQ; it has no diverts.

    A destination is an address with its settings, or a queue of the routing type ANYCAST; the queue of a durable subscription is MULTICAST.
    """

    RESET = "RESET_PERSISTENCE"
    DESTINATION = "UPDATE_DESTINATION"
    NO_DESTINATION = "REM_DESTINATION"
    SUBSCRIPTION = "NEW_INTEREST"
    NO_SUBSCRIPTION = "REM_DURABLE_INTEREST"
    DIVERT = "UPDATE_DIVERT"
    NO_DIVERT = "REM_DIVERT"

    @property
    def removes(self) -> bool:
        return self in _REMOVALS


_REMOVALS = frozenset((Kind.NO_DESTINATION, Kind.NO_SUBSCRIPTION, Kind.NO_DIVERT))

ADDRESS, QUEUE, DIVERT, SETTINGS = "address", "queue", "divert", "settings"
"""The beginnings of unique keys."""

Definition = AddressDefinition | QueueDefinition | DivertConfiguration | AddressSettingDefinition

_TYPES = {name: number for number, name in ROUTING_TYPE_NAMES.items()}
_UNRECORDED = frozenset(("temporary", "transient", "internal", "auto_created"))
_NO_DIFFERENCE = frozenset(("user", "configuration_managed"))
"""Attributes by which two definitions of one queue may differ: who has made it, and whether a file names it."""
_QUEUE_DEFAULTS = {field.name: field.default for field in fields(QueueDefinition) if field.name not in _UNRECORDED}


@dataclass(frozen=True, slots=True)
class Wish:
    """A change that is to come into the record.

    ``action`` is create, update or delete; ``key`` names what changes, and is unique: "queue:NAME", "address:NAME", "divert:NAME",
    "settings:MATCH".  ``form`` is the definition as JSON values.
    """

    action: str
    kind: Kind
    key: str
    form: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The definition that changes, for a reader: "queue NAME"."""
        return readable(self.key)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A change in the record.

    ``position`` ascends from 1, where the reset record is.  ``origin`` is the broker (host:port) whose change this is, ``time_ms`` when the
    master has stored it.  A removal has an empty ``form``; the reset record has ``generation`` and ``former`` in it.
    ``made`` is where something was made that is only updated here.  ``generation`` names the former record in which ``made`` is a position;
    None: this one.
    """

    position: int
    kind: Kind
    key: str
    form: Mapping[str, Any]
    origin: str
    time_ms: int
    made: int | None = None
    generation: str | None = None

    @property
    def name(self) -> str:
        return readable(self.key)

    @property
    def life(self) -> int:
        """The position at which what is defined was made."""
        return self.position if self.made is None else self.made


def readable(key: str) -> str:
    """A unique key as a text names it: "queue NAME"."""
    return " ".join(key.split(":", 1))


def is_recorded(change: Change) -> bool:
    """Does the record have changes of this definition?

    It has none of what is made or ends automatically, and of queues that do not outlive their broker or their clients.
    """
    definition = change.definition
    if isinstance(definition, QueueDefinition):
        automatic = definition.auto_created or definition.auto_delete
        return definition.durable and not (automatic or definition.temporary or definition.transient or definition.internal)
    return not (isinstance(definition, AddressDefinition) and definition.auto_created)


def wish_of(change: Change) -> Wish:
    """The wish to have ``change`` in the record."""
    definition = change.definition
    gone = change.action == "delete"
    if isinstance(definition, DivertConfiguration):
        return Wish(change.action, Kind.NO_DIVERT if gone else Kind.DIVERT, f"{DIVERT}:{definition.name}", form_of(definition))
    kind = ADDRESS if isinstance(definition, AddressDefinition) else QUEUE if isinstance(definition, QueueDefinition) else SETTINGS
    if isinstance(definition, QueueDefinition) and definition.routing_type == MULTICAST:
        recorded = Kind.NO_SUBSCRIPTION if gone else Kind.SUBSCRIPTION
    else:
        recorded = Kind.NO_DESTINATION if gone else Kind.DESTINATION
    return Wish(change.action, recorded, f"{kind}:{definition.name}", form_of(definition))


def form_of(definition: Definition) -> dict[str, Any]:
    """The definition as JSON values; of a queue without the attributes that have their defaults."""
    if isinstance(definition, AddressDefinition):
        return {"name": definition.name, "routing_types": _names(definition.routing_types)}
    if isinstance(definition, DivertConfiguration):
        return {**asdict(definition), "forwarding_addresses": list(definition.forwarding_addresses)}
    if isinstance(definition, AddressSettingDefinition):
        return asdict(definition)
    form = {name: getattr(definition, name) for name, default in _QUEUE_DEFAULTS.items() if getattr(definition, name) != default}
    return {**form, "routing_type": ROUTING_TYPE_NAMES[definition.routing_type]}


def definition_of(key: str, form: Mapping[str, Any]) -> Definition:
    """The definition of a form.  Raises ValueError for a form that is none; attributes of later versions are left out."""
    subject, _, name = key.partition(":")
    if not name or form.get("name") != name:
        raise ValueError(f"the change of {key!r} defines {form.get('name')!r}")
    try:
        if subject == ADDRESS:
            return AddressDefinition(name, frozenset(_TYPES[each] for each in form["routing_types"]))
        if subject == DIVERT:
            transformer = form["transformer"]
            values = {field.name: form[field.name] for field in fields(DivertConfiguration)}
            values["forwarding_addresses"] = tuple(form["forwarding_addresses"])
            values["transformer"] = None if transformer is None else TransformerConfiguration(**transformer)
            return DivertConfiguration(**values)
        if subject == SETTINGS:
            return AddressSettingDefinition(name, form["text"])
        if subject == QUEUE:
            known = {attribute: value for attribute, value in form.items() if attribute in _QUEUE_DEFAULTS}
            return QueueDefinition(**{**known, "routing_type": _TYPES[form["routing_type"]]})
    except (KeyError, TypeError) as error:
        raise ValueError(f"the change of {key!r} has no complete definition: {error}") from error
    raise ValueError(f"the change of {key!r} is of an unknown kind")


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Do two forms define the same?"""
    return _essential(one) == _essential(other)


def _essential(form: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name not in _NO_DIFFERENCE}


def _names(types: frozenset[int]) -> list[str]:
    return sorted(ROUTING_TYPE_NAMES[each] for each in types)
