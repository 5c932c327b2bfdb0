"""The resources ``bridge.NAME``, and the operations of the broker that make and end bridges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mqbroker.config.model.cluster import BridgeConfiguration, TransformerConfiguration
from mqbroker.server.management.definitions import parse_transformer
from mqbroker.server.management.registry import ManagementError, Operation, Resource, as_bool, as_int, as_object, as_text, without_result

if TYPE_CHECKING:
    from mqbroker.server.bridge_port import ManagedBridge
    from mqbroker.server.server import Server


class BridgeControl(Resource):
    """One core bridge."""

    def __init__(self, bridge: ManagedBridge) -> None:
        self.bridge = bridge

    def transformer(self) -> TransformerConfiguration:
        return self.bridge.configuration.transformer or TransformerConfiguration("")


def _configured(field: str) -> Any:
    return lambda control: getattr(control.bridge.configuration, field)


BridgeControl.ATTRIBUTES = {
    "Name": lambda control: control.bridge.name,
    "QueueName": _configured("queue_name"),
    "ForwardingAddress": _configured("forwarding_address"),
    "FilterString": _configured("filter_string"),
    "TransformerClassName": lambda control: control.transformer().class_name or None,
    "TransformerProperties": lambda control: control.transformer().properties,
    "TransformerPropertiesAsJSON": lambda control: json.dumps(control.transformer().properties),
    "StaticConnectors": lambda control: list(control.bridge.configuration.static_connectors),
    "DiscoveryGroupName": _configured("discovery_group"),
    "RetryInterval": _configured("retry_interval"),
    "RetryIntervalMultiplier": _configured("retry_interval_multiplier"),
    "MaxRetryInterval": _configured("max_retry_interval"),
    "ReconnectAttempts": _configured("reconnect_attempts"),
    "UseDuplicateDetection": _configured("use_duplicate_detection"),
    "HA": _configured("ha"),
    "Started": lambda control: control.bridge.state not in ("stopped", "stopping", "failed"),
    "State": lambda control: control.bridge.state,
    "Connected": lambda control: control.bridge.linked,
    "MessagesPendingAcknowledgement": lambda control: control.bridge.messages_pending,
    "MessagesAcknowledged": lambda control: control.bridge.messages_acknowledged,
    "Metrics": lambda control: {
        "messagesPendingAcknowledgement": control.bridge.messages_pending,
        "messagesAcknowledged": control.bridge.messages_acknowledged,
    },
}
BridgeControl.OPERATIONS = {
    "start": Operation(lambda control: control.bridge.start()),
    "stop": without_result(lambda control: control.bridge.stop()),
    "pause": Operation(lambda control: control.bridge.pause()),
    "resume": Operation(lambda control: control.bridge.resume()),
}


# --- making and ending bridges

_POSITIONS = (
    *("name", "queue_name", "forwarding_address", "filter_string", "transformer_class_name"),
    *("retry_interval", "retry_interval_multiplier", "initial_connect_attempts", "reconnect_attempts", "use_duplicate_detection"),
    *("confirmation_window_size", "check_period", "connectors", "use_discovery_group", "ha", "user", "password"),
)
"""The parameters of the oldest form of createBridge; later forms add the transformer's properties, and then a producer window size."""
_FROM_JSON = {
    "client_failure_check_period": "check_period",
    "discovery_group_name": "discovery_group",
    "filter": "filter_string",
    "transformer_configuration": "transformer",
}
_TYPES = {each.name: each.type for each in fields(BridgeConfiguration)}


def parse_bridge(parameters: Sequence[Any]) -> BridgeConfiguration:
    """The configuration in the parameters of createBridge, which are one JSON object or single values.  Raises ManagementError."""
    values = _json_form(parameters[0]) if len(parameters) == 1 else _positional_form(parameters)
    if not values.get("name") or not values.get("queue_name"):
        raise ManagementError("a bridge needs a name and a queue-name")
    if bool(values.get("static_connectors")) == bool(values.get("discovery_group")):
        raise ManagementError("a bridge needs either static-connectors or a discovery-group-name")
    return BridgeConfiguration(**{name: _typed(name, value) for name, value in values.items() if value is not None})


def _json_form(text: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in as_object(text, "the configuration of a bridge is").items():
        name = str(key).replace("-", "_")
        name = _FROM_JSON.get(name, name)
        if name in ("configuration_managed", "failover_on_server_shutdown"):
            continue
        if name not in _TYPES:
            raise ManagementError(f"a bridge has no property {key}; known: {', '.join(sorted(_TYPES)).replace('_', '-')}")
        values[name] = value
    return values


def _positional_form(parameters: Sequence[Any]) -> dict[str, Any]:
    given = list(parameters)
    properties: Any = None
    positions = list(_POSITIONS)
    if len(given) > len(_POSITIONS):
        properties = given.pop(5)
    if len(given) > len(_POSITIONS):
        positions.insert(11, "producer_window_size")
    if len(given) != len(positions):
        raise ManagementError(f"AMQ229069: no operation createBridge/{len(parameters)}")
    values = dict(zip(positions, given, strict=True))
    class_name, connectors = values.pop("transformer_class_name"), values.pop("connectors")
    if class_name:
        values["transformer"] = {"class-name": class_name, "properties": properties}
    if as_bool(values.pop("use_discovery_group")):
        values["discovery_group"] = connectors
    else:
        values["static_connectors"] = connectors
    return values


def _typed(name: str, value: Any) -> Any:
    kind = _TYPES[name]
    if name == "transformer":
        return parse_transformer(value, "the transformer-configuration of a bridge is")
    if name == "static_connectors":
        names = value if isinstance(value, list) else as_text(value).split(",")
        return tuple(as_text(each).strip() for each in names if as_text(each).strip())
    if kind == "bool":
        return as_bool(value)
    if kind == "int":
        return as_int(value)
    if kind == "float":
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise ManagementError(f"{name}: {value!r} is not a number") from error
    return as_text(value) or None


def bridge_names(server: Server) -> list[str]:
    bridges = server.others.bridges
    return [] if bridges is None else list(bridges.names())


def find_bridge(server: Server, name: str) -> BridgeControl | None:
    """The resource ``bridge.NAME``."""
    bridges = server.others.bridges
    found = None if bridges is None else bridges.find(name)
    return None if found is None else BridgeControl(found)


def create_bridge(server: Server, *parameters: Any) -> None:
    """Raises ManagementError."""
    configuration = parse_bridge(parameters)
    try:
        server.others.open_bridges().create_kept(configuration)
    except ValueError as error:
        raise ManagementError(str(error)) from error


def destroy_bridge(server: Server, name: Any) -> None:
    """Raises ManagementError."""
    bridges = server.others.bridges
    if bridges is None or not bridges.destroy(as_text(name)):
        raise ManagementError(f"there is no bridge {as_text(name)}")


BRIDGE_OPERATIONS: dict[str, Operation] = {
    "createBridge": Operation(lambda control, *parameters: create_bridge(control.server, *parameters), 1, 19),
    "destroyBridge": Operation(lambda control, name: destroy_bridge(control.server, name), 1),
}
