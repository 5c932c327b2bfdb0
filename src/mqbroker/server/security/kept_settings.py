"""Address and security settings that management has made: read from their written form, kept in the store, put in force at a start.

Kept settings replace the settings of broker.xml with the same match (Artemis manual, "Management").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.config.broker_xml.bean_names import BeanReader
from mqbroker.config.model.address_elements import ADDRESS_SETTING
from mqbroker.config.model.address_settings import MULTICAST, AddressSettings
from mqbroker.config.model.matching import AddressSettingsRepository, SecurityRepository
from mqbroker.config.problems import Findings
from mqbroker.config.properties.entries import Entry

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import Store

KEPT_ADDRESS_SETTING_KIND = "address-setting"
KEPT_SECURITY_SETTING_KIND = "security-setting"

_ROUTING_TYPE_FIELDS = ("default_address_routing_type", "default_queue_routing_type")


class KeptSettings:
    """The settings of one kind in the store; each change is a batch of its own."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._kind = kind

    def put(self, key: str, text: str) -> None:
        batch = self._store.begin()
        batch.put_setting(self._kind, key, text)
        self._store.commit(batch)

    def delete(self, key: str) -> None:
        batch = self._store.begin()
        batch.delete_setting(self._kind, key)
        self._store.commit(batch)


def parse_address_setting(text: str) -> dict[str, Any]:
    """The settings in a JSON object with the names of Java beans (``maxDeliveryAttempts``).

    Raises ValueError for another text, for unknown names, and for values that this broker refuses in broker.xml, too.
    """
    try:
        given = json.loads(text)
    except RecursionError as error:
        raise ValueError("the address settings are nested too deeply") from error
    if not isinstance(given, dict):
        raise ValueError("the address settings are not a JSON object")
    findings = Findings()
    reader = BeanReader(findings)
    partial: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        written = str(value).lower() if isinstance(value, bool) else str(value)
        found = reader.value(Entry((name,), written, "", 0), name, ADDRESS_SETTING)
        if found is not None:
            partial[found[0]] = found[1]
    if findings.errors:
        raise ValueError("; ".join(problem.text for problem in findings.errors))
    size, page = partial.get("max_size_bytes"), partial.get("page_size_bytes", AddressSettings().page_size_bytes)
    if size is not None and 0 < size < page:
        raise ValueError(f"pageSize has to be lower than maxSizeBytes: pageSizeBytes is {page}, maxSizeBytes {size}")
    return partial


def change_address_setting(core: MessagingCore, store: Store, match: str, text: str) -> dict[str, Any]:
    """Put the settings of ``match`` in force, and keep them; an empty ``text`` removes them.  Raises ValueError as the parser does.

    Nobody is asked; the result is what ``text`` says.
    """
    partial = parse_address_setting(text) if text else {}
    kept = KeptSettings(store, KEPT_ADDRESS_SETTING_KIND)
    if text:
        core.settings.set(match, partial)
    else:
        core.settings.remove(match)
    core.apply_settings()
    if text:
        kept.put(match, text)
    else:
        kept.delete(match)
    return partial


def address_setting_as_json(values: Mapping[str, Any]) -> str:
    """A JSON object of the fields of :class:`AddressSettings` that have a value, with the names of Java beans."""
    written: dict[str, Any] = {}
    for item in ADDRESS_SETTING:
        value = None if item.instead else values.get(item.target)
        if value is None:
            continue
        if item.target in _ROUTING_TYPE_FIELDS:
            value = "MULTICAST" if value == MULTICAST else "ANYCAST"
        written[item.bean] = value
    return json.dumps(written)


def restore_address_settings(
    kept: Mapping[tuple[str, str], str], repository: AddressSettingsRepository, report: Callable[[str], object]
) -> None:
    """Put the kept settings in force.  Settings that are not valid any more are reported and left out."""
    for (kind, match), text in kept.items():
        if kind == KEPT_ADDRESS_SETTING_KIND:
            try:
                repository.set(match, parse_address_setting(text))
            except ValueError as error:
                report(f"the address settings for {match}, which were made by management, are not in force: {error}")


def restore_security_settings(kept: Mapping[tuple[str, str], str], repository: SecurityRepository, report: Callable[[str], object]) -> None:
    """Put the kept settings in force.  Settings that are not valid any more are reported and left out."""
    for (kind, match), text in kept.items():
        if kind == KEPT_SECURITY_SETTING_KIND:
            try:
                repository.set(match, {permission: frozenset(roles) for permission, roles in json.loads(text).items()})
            except ValueError as error:
                report(f"the security settings for {match}, which were made by management, are not in force: {error}")
