"""The diverts in force.  The store keeps the diverts that management has made or changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.message.transformers import TransformerError
from mqbroker.messaging.routing.diverts import Divert, DivertError
from mqclient.errors import DivertDoesNotExistError, IllegalStateError, InvalidFilterExpressionError

if TYPE_CHECKING:
    from mqbroker.messaging.administration.registrar import Registrar
    from mqbroker.messaging.core import MessagingCore

KEPT_KIND = "divert"
"""The kind under which the store keeps the diverts of management."""


class Diverts:
    """All diverts, by name."""

    def __init__(self, core: MessagingCore, registrar: Registrar) -> None:
        self._core = core
        self._registrar = registrar
        self._diverts: dict[str, Divert] = {}
        self._kept: set[str] = set()
        """Names of the diverts that the store keeps."""

    def names(self) -> list[str]:
        return sorted(self._diverts)

    def kept(self) -> list[str]:
        """The names of those that management has made or changed."""
        return sorted(self._kept & self._diverts.keys())

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
                self._put(self._new(configuration))
            except (TransformerError, InvalidFilterExpressionError, IllegalStateError) as error:
                raise DivertError(str(error) if isinstance(error, TransformerError) else f"divert {configuration.name}: {error}") from error
            tell(f"divert {configuration.name} from {configuration.address} to {', '.join(configuration.forwarding_addresses)}")

    def create(self, configuration: DivertConfiguration) -> Divert:
        """Make a divert and keep it.  Raises IllegalStateError for a name that is taken, and the errors of the configuration and of the
        registrar."""
        divert = self._new(configuration)
        change = Change("create", configuration)
        self._registrar.agree(change)
        self._put(divert)
        self._keep(divert)
        self._registrar.made(change)
        return divert

    def update(self, name: str, **changes: Any) -> Divert:
        """Change a divert and keep it; its address, its routing name and whether it is exclusive stay.

        Raises DivertDoesNotExistError, and the errors of the changes and of the registrar.
        """
        divert = self._existing(name)
        allowed = {key: changes[key] for key in ("forwarding_addresses", "filter_string", "transformer", "routing_type") if key in changes}
        configuration = replace(divert.configuration, **allowed)
        Divert(configuration, divert.binding_id)  # raises
        change = Change("update", configuration)
        self._registrar.agree(change)
        divert.change(configuration)
        self._core.routing.changed()
        self._keep(divert)
        self._registrar.made(change)
        return divert

    def destroy(self, name: str) -> None:
        """Remove a divert; one of broker.xml is there again after a restart.  Raises DivertDoesNotExistError, and as the registrar."""
        divert = self._existing(name)
        change = Change("delete", divert.configuration)
        self._registrar.agree(change)
        self._remove(divert)
        self._registrar.made(change)

    def impose(self, configuration: DivertConfiguration) -> None:
        """Make a divert, or change the one of this name, and keep it, without asking anybody.  Raises the errors of the configuration."""
        divert = self._diverts.get(configuration.name)
        if divert is not None and divert.configuration == configuration:
            self._keep(divert)
            return
        made = Divert(configuration, self._core.store.next_id())  # raises
        if divert is not None:
            self._remove(divert)
        self._put(made)
        self._keep(made)

    def withdraw(self, name: str) -> None:
        """Remove a divert, if it is there, without asking anybody."""
        divert = self._diverts.get(name)
        if divert is not None:
            self._remove(divert)

    def _remove(self, divert: Divert) -> None:
        name = divert.name
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
        """Put the diverts of management in force.  A divert that is no longer valid is reported and left out."""
        for (kind, name), text in settings.items():
            if kind != KEPT_KIND:
                continue
            self._kept.add(name)
            try:
                self._put(self._new(_decoded(json.loads(text))))
            except (ValueError, InvalidFilterExpressionError) as error:
                self._core.report("AMQ222056", f"divert {name}, which was created by management, is not in force: {error}")

    def _new(self, configuration: DivertConfiguration) -> Divert:
        if configuration.name in self._diverts:
            raise IllegalStateError(f"a divert {configuration.name} exists already")
        return Divert(configuration, self._core.store.next_id())

    def _put(self, divert: Divert) -> None:
        self._diverts[divert.name] = divert
        self._core.routing.bind(divert)
        for observer in self._core.observers:
            observer.divert_added(divert)

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
