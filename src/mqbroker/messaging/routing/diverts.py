"""Diverts: messages of an address go to other addresses, too or instead (Artemis manual, "Diverting and Splitting Message Flows").

Routing chooses diverts as it chooses queues (:mod:`mqbroker.messaging.routing.routing`), and
:mod:`mqbroker.messaging.routing.distribution` routes the copies.  Those that management has made or changed are kept by the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.copies import Copy
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.transformers import TransformerError, load_transformer
from mqclient.errors import DivertDoesNotExistError, IllegalStateError, InvalidFilterExpressionError
from mqclient.wire import message as keys
from mqclient.wire.properties import BYTE, LONG, STRING

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore

_ROUTING_TYPES = {"MULTICAST": 0, "ANYCAST": 1}

ROUTING_TYPE_CHOICES = ("STRIP", "PASS", *_ROUTING_TYPES)
"""What the routing type of a divert may be."""

KEPT_KIND = "divert"
"""The kind under which the store keeps the diverts of management."""


class DivertError(ValueError):
    """A configured divert cannot be; the text names it and says why."""


class Divert:
    """A divert in force."""

    __slots__ = (
        "_transform",
        "address",
        "binding_id",
        "configuration",
        "exclusive",
        "filter",
        "forwarding_addresses",
        "name",
        "routing_name",
    )

    def __init__(self, configuration: DivertConfiguration, binding_id: int) -> None:
        """Raises DivertError, TransformerError, InvalidFilterExpressionError."""
        self.binding_id = binding_id
        self.name = configuration.name
        self.address = configuration.address
        self.exclusive = configuration.exclusive
        self.routing_name = configuration.routing_name or configuration.name
        self.change(configuration)

    def change(self, configuration: DivertConfiguration) -> None:
        """Take over filter, forwarding addresses, routing type and transformer.  Raises as the constructor."""
        if configuration.routing_type not in ROUTING_TYPE_CHOICES:
            choices = ", ".join(ROUTING_TYPE_CHOICES)
            raise DivertError(f"divert {configuration.name}: the routing type {configuration.routing_type} is none of {choices}")
        if not configuration.forwarding_addresses:
            raise DivertError(f"divert {configuration.name}: a forwarding address is missing")
        filter = parse_filter(configuration.filter_string)
        transformer = configuration.transformer
        self._transform = None if transformer is None else load_transformer(transformer, f"divert {configuration.name}")
        self.filter = filter
        self.configuration = configuration
        self.forwarding_addresses = configuration.forwarding_addresses

    def matches(self, message: Message) -> bool:
        return self.filter is None or self.filter.matches(message)

    def copy(self, message: Message, message_id: int, address: str, *, transformed: bool = True) -> Message:
        """``message`` as it goes to ``address``.  Raises MalformedPacketError, and what the transformer raises."""
        content = message.decoded()
        content.message_id = message_id
        properties = content.properties
        properties[keys.KEY_ORIGINAL_ADDRESS] = (STRING, content.address or "")
        properties[keys.KEY_ORIGINAL_QUEUE] = (STRING, self.name)
        properties[keys.KEY_ORIGINAL_MESSAGE_ID] = (LONG, message.message_id)
        kind = self.configuration.routing_type
        if kind != "PASS":
            had = properties.pop(keys.KEY_ROUTING_TYPE, None)
            if had is not None:
                properties[keys.KEY_ORIGINAL_ROUTING_TYPE] = (BYTE, had[1])
            if kind in _ROUTING_TYPES:
                properties[keys.KEY_ROUTING_TYPE] = (BYTE, _ROUTING_TYPES[kind])
        content.address = address
        if self._transform is not None and transformed:
            content = self._transform(content)
            content.message_id = message_id
        return Copy(content, message.large).message()


class Diverts:
    """All diverts, by name."""

    def __init__(self, core: MessagingCore) -> None:
        self._core = core
        self._diverts: dict[str, Divert] = {}
        self._kept: set[str] = set()
        """Those that the store keeps."""

    def names(self) -> list[str]:
        return sorted(self._diverts)

    def names_on(self, address: str) -> list[str]:
        """The names of the diverts of exactly this address."""
        return [name for name in self.names() if self._diverts[name].address == address]

    def find(self, name: str) -> Divert | None:
        return self._diverts.get(name)

    def deploy(self, configurations: Iterable[DivertConfiguration], tell: Callable[[str], object] = lambda text: None) -> None:
        """Put the diverts of broker.xml in force; one that management has made or changed stays as it is.

        ``tell`` takes a line for the log about each.  Raises DivertError.
        """
        for configuration in configurations:
            if configuration.name in self._kept:
                tell(f"divert {configuration.name} stays as management has left it, although broker.xml has a divert of that name")
                continue
            try:
                self._add(configuration)
            except (TransformerError, InvalidFilterExpressionError, IllegalStateError) as error:
                raise DivertError(str(error) if isinstance(error, TransformerError) else f"divert {configuration.name}: {error}") from error
            tell(f"divert {configuration.name} from {configuration.address} to {', '.join(configuration.forwarding_addresses)}")

    def create(self, configuration: DivertConfiguration) -> Divert:
        """Make a divert and keep it.  Raises IllegalStateError when there is one of this name, and what is wrong with it."""
        divert = self._add(configuration)
        self._keep(divert)
        return divert

    def update(self, name: str, **changes: Any) -> Divert:
        """Change a divert and keep it; its address, its routing name and whether it is exclusive stay.

        Raises DivertDoesNotExistError, and what is wrong with the changes.
        """
        divert = self._existing(name)
        allowed = {key: changes[key] for key in ("forwarding_addresses", "filter_string", "transformer", "routing_type") if key in changes}
        divert.change(replace(divert.configuration, **allowed))
        self._core.routing.changed()
        self._keep(divert)
        return divert

    def destroy(self, name: str) -> None:
        """Remove a divert; one of broker.xml is there again after a restart.  Raises DivertDoesNotExistError."""
        divert = self._existing(name)
        del self._diverts[name]
        self._core.routing.unbind(divert)
        if name in self._kept:
            self._kept.discard(name)
            batch = self._core.store.begin()
            batch.delete_setting(KEPT_KIND, name)
            self._core.store.commit(batch)
        for observer in self._core.observers:
            observer.divert_removed(divert)

    def restore(self, settings: Mapping[tuple[str, str], str]) -> None:
        """Put in force what management had made.  What cannot be any more is told and left out."""
        for (kind, name), text in settings.items():
            if kind != KEPT_KIND:
                continue
            self._kept.add(name)
            try:
                self._add(_decoded(json.loads(text)))
            except (ValueError, InvalidFilterExpressionError) as error:
                self._core.report("AMQ222056", f"divert {name}, which was created by management, is not in force: {error}")

    def _add(self, configuration: DivertConfiguration) -> Divert:
        if configuration.name in self._diverts:
            raise IllegalStateError(f"a divert {configuration.name} exists already")
        divert = Divert(configuration, self._core.store.next_id())
        self._diverts[divert.name] = divert
        self._core.routing.bind(divert)
        for observer in self._core.observers:
            observer.divert_added(divert)
        return divert

    def _existing(self, name: str) -> Divert:
        divert = self._diverts.get(name)
        if divert is None:
            raise DivertDoesNotExistError(f"no divert {name}")
        return divert

    def _keep(self, divert: Divert) -> None:
        self._kept.add(divert.name)
        batch = self._core.store.begin()
        batch.put_setting(KEPT_KIND, divert.name, json.dumps(asdict(divert.configuration), sort_keys=True))
        self._core.store.commit(batch)


def _decoded(values: dict[str, Any]) -> DivertConfiguration:
    transformer = values["transformer"]
    values["forwarding_addresses"] = tuple(values["forwarding_addresses"])
    values["transformer"] = None if transformer is None else TransformerConfiguration(**transformer)
    return DivertConfiguration(**values)
