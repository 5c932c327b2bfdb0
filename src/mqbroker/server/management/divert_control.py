"""The resource ``divert.NAME``, and the operations of the resource ``broker`` on diverts (Artemis manual, "Management")."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.messaging.administration.diverts import Diverts
from mqbroker.messaging.routing.diverts import ROUTING_TYPE_CHOICES, Divert
from mqbroker.server.management.definitions import parse_transformer
from mqbroker.server.management.registry import ManagementError, Operation, Resource, as_bool, as_object, as_text

if TYPE_CHECKING:
    from mqbroker.server.management.registry import ServerResource


class DivertControl(Resource):
    """One divert."""

    def __init__(self, divert: Divert) -> None:
        self.divert = divert

    def transformer(self) -> TransformerConfiguration:
        return self.divert.configuration.transformer or TransformerConfiguration("")


DivertControl.ATTRIBUTES = {
    "UniqueName": lambda control: control.divert.name,
    "RoutingName": lambda control: control.divert.routing_name,
    "Address": lambda control: control.divert.address,
    "ForwardingAddress": lambda control: ", ".join(control.divert.forwarding_addresses),
    "Exclusive": lambda control: control.divert.exclusive,
    "Filter": lambda control: control.divert.configuration.filter_string,
    "RoutingType": lambda control: control.divert.configuration.routing_type,
    "TransformerClassName": lambda control: control.transformer().class_name or None,
    "TransformerProperties": lambda control: control.transformer().properties,
    "TransformerPropertiesAsJSON": lambda control: json.dumps(control.transformer().properties),
    "RetroactiveResource": lambda control: False,
}


def _diverts(control: ServerResource) -> Diverts:
    return control.server.messaging.diverts


def _create(control: ServerResource, *parameters: Any) -> None:
    """One JSON object, or name, routing name, address, forwarding address, exclusive, filter, transformer class name, then its
    properties (a map or JSON) and the routing type, in this order or without the properties."""
    values = _values(parameters, _CREATED)
    name, address = as_text(values.get("name")), as_text(values.get("address"))
    if not name or not address:
        raise ManagementError("a divert needs a name and an address")
    configuration = DivertConfiguration(
        name,
        address,
        _addresses(values),
        routing_name=as_text(values.get("routing-name")) or None,
        exclusive=as_bool(values.get("exclusive", False)),
        filter_string=as_text(values.get("filter-string")) or None,
        transformer=_transformer(values),
        routing_type=_routing_type(values) or "STRIP",
    )
    try:
        _diverts(control).create(configuration)
    except ValueError as error:
        raise ManagementError(str(error)) from error


def _update(control: ServerResource, *parameters: Any) -> None:
    """One JSON object, or name, forwarding address, filter, transformer class name, its properties, routing type."""
    values = _values(parameters, _UPDATED)
    changes: dict[str, Any] = {"filter_string": as_text(values.get("filter-string")) or None, "transformer": _transformer(values)}
    if values.get("forwarding-address"):
        changes["forwarding_addresses"] = _addresses(values)
    routing_type = _routing_type(values)
    if routing_type:
        changes["routing_type"] = routing_type
    try:
        _diverts(control).update(as_text(values.get("name")), **changes)
    except ValueError as error:
        raise ManagementError(str(error)) from error


_CREATED = ("name", "routing-name", "address", "forwarding-address", "exclusive", "filter-string", "class-name")
_UPDATED = ("name", "forwarding-address", "filter-string", "class-name")


def _values(parameters: tuple[Any, ...], names: tuple[str, ...]) -> dict[str, Any]:
    if len(parameters) == 1:
        return as_object(parameters[0], "the divert configuration is")
    values: dict[str, Any] = dict(zip(names, parameters, strict=False))
    rest = parameters[len(names) :]
    if rest and as_text(rest[-1]).upper() in ROUTING_TYPE_CHOICES:
        values["routing-type"], rest = rest[-1], rest[:-1]
    class_name = values.pop("class-name", None)
    if class_name:
        values["transformer-configuration"] = {"class-name": class_name, "properties": rest[0] if rest else {}}
    return values


def _addresses(values: dict[str, Any]) -> tuple[str, ...]:
    return tuple(part.strip() for part in as_text(values.get("forwarding-address")).split(",") if part.strip())


def _routing_type(values: dict[str, Any]) -> str:
    return as_text(values.get("routing-type")).strip().upper()


def _transformer(values: dict[str, Any]) -> TransformerConfiguration | None:
    transformer = parse_transformer(values.get("transformer-configuration") or {}, "the divert configuration is")
    return transformer if transformer.class_name else None


DIVERT_OPERATIONS = {
    "createDivert": Operation(_create, 1, 9),
    "updateDivert": Operation(_update, 1, 6),
    "destroyDivert": Operation(lambda control, name: _diverts(control).destroy(as_text(name)), 1),
    "listDivertNames": Operation(lambda control: _diverts(control).names()),
}
