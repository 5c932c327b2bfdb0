"""The part of the resource ``broker`` about address settings and security settings (Artemis manual, "Management")."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mqbroker.server.management.address_control import PERMISSIONS, roles_as_lists
from mqbroker.server.management.registry import ManagementError, Operation, as_text
from mqbroker.server.security.kept_settings import (
    KEPT_SECURITY_SETTING_KIND,
    KeptSettings,
    address_setting_as_json,
    change_address_setting,
    parse_address_setting,
)
from mqbroker.server.transport.naming import check_length

if TYPE_CHECKING:
    from mqbroker.server.management.registry import ServerResource


def _add_address_settings(control: ServerResource, match: Any, text: Any) -> str:
    name, server = as_text(match), control.server
    check_length(name)
    written = json.dumps(text) if isinstance(text, dict) else as_text(text)
    settings = server.messaging.core.settings
    try:
        settings.check_match(name)
        settings.check_settings(parse_address_setting(written))
        partial = server.messaging.definitions.change_address_setting(
            name, written, lambda: change_address_setting(server.messaging.core, server.store, name, written)
        )
    except ValueError as error:
        raise ManagementError(str(error)) from error
    return address_setting_as_json(partial)


def _remove_address_settings(control: ServerResource, match: Any) -> None:
    name, server = as_text(match), control.server
    server.messaging.definitions.change_address_setting(
        name, "", lambda: change_address_setting(server.messaging.core, server.store, name, "")
    )


def _add_security_settings(control: ServerResource, match: Any, *roles: Any) -> None:
    name = as_text(match)
    check_length(name)
    permissions: dict[str, frozenset[str]] = {}
    for permission, names in zip(PERMISSIONS, roles, strict=False):
        some = frozenset(each.strip() for each in as_text(names).split(",") if each.strip())
        if some:
            permissions[permission] = some
    try:
        control.server.security.repository.set(name, permissions)
    except ValueError as error:
        raise ManagementError(str(error)) from error
    text = json.dumps({kind: sorted(names) for kind, names in permissions.items()})
    KeptSettings(control.server.store, KEPT_SECURITY_SETTING_KIND).put(name, text)


def _remove_security_settings(control: ServerResource, match: Any) -> None:
    control.server.security.repository.remove(as_text(match))
    KeptSettings(control.server.store, KEPT_SECURITY_SETTING_KIND).delete(as_text(match))


SETTINGS_OPERATIONS = {
    "addAddressSettings": Operation(_add_address_settings, 2),
    "removeAddressSettings": Operation(_remove_address_settings, 1),
    "getAddressSettingsAsJSON": Operation(
        lambda control, address: address_setting_as_json(control.server.messaging.core.settings.written(as_text(address))), 1
    ),
    "addSecuritySettings": Operation(_add_security_settings, 8, 13),
    "getRoles": Operation(lambda control, match: roles_as_lists(control.server.security.repository.lookup(as_text(match))), 1),
    "removeSecuritySettings": Operation(_remove_security_settings, 1),
}
