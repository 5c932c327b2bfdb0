"""Settings that override broker.xml: properties files, and system properties with a prefix (Artemis manual, "Broker properties").

A key is a path of names with dots between, in the spelling of Java beans: ``globalMaxSize``, ``addressSettings."a.b".maxDeliveryAttempts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mqbroker.config.broker_xml.bean_names import BeanReader, folded
from mqbroker.config.broker_xml.reader import Content
from mqbroker.config.model.blocks import ADDRESSES, CORE, OLD_PERMISSIONS, PERMISSIONS, QUEUE, SECURITY_SETTINGS
from mqbroker.config.model.cluster_elements import GROUPING_HANDLER, HA_POLICY, MANAGER, SCALE_DOWN
from mqbroker.config.problems import Findings
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.model import Block, flag, honoured
from mqbroker.config.schema.values import NAMES, ROUTING_TYPE

_REFUSED_FAMILIES = {
    "federationconfigurations": "federations",
    "amqpconnections": "broker-connections",
    "amqpconnection": "broker-connections",
    "connectionrouters": "connection-routers",
    "connectorserviceconfigurations": "connector-services",
}
"""First names of keys about things that are refused in broker.xml, and the element there."""

_NAMED_FAMILIES = {
    "addressSettings": ("address-settings", "address-setting", "match.name"),
    "resourceLimitSettings": ("resource-limit-settings", "resource-limit-setting", "user.maxConnections or maxQueues"),
    "clusterConfigurations": ("cluster-connections", "cluster-connection", "name.property"),
    "bridgeConfigurations": ("bridges", "bridge", "name.property"),
    "divertConfigurations": ("diverts", "divert", "name.property"),
    "broadcastGroupConfigurations": ("broadcast-groups", "broadcast-group", "name.property"),
    "discoveryGroupConfigurations": ("discovery-groups", "discovery-group", "name.property"),
}
"""First names of keys, the elements whose values they give, and how such a key goes on."""

_POLICIES = {
    "PRIMARY_ONLY": ("primary-only",),
    "SHARED_STORE_PRIMARY": ("shared-store", "primary"),
    "SHARED_STORE_BACKUP": ("shared-store", "backup"),
    "REPLICATION_PRIMARY_QUORUM_VOTING": ("replication", "primary"),
    "REPLICATION_BACKUP_QUORUM_VOTING": ("replication", "backup"),
    "REPLICATION_PRIMARY_LOCK_MANAGER": ("replication", "primary", "manager"),
    "REPLICATION_BACKUP_LOCK_MANAGER": ("replication", "backup", "manager"),
}
"""Values of ``HAPolicyConfiguration``, and the elements that they stand for in ``ha-policy``."""
_COLOCATED = "COLOCATED"
_STORE_UNLESS_NAMED = "replication"
_COLOCATED_ROLES = {"primaryConfig": ("primary", "master"), "backupConfig": ("backup", "slave")}
"""Properties of ``COLOCATED``, and the elements that they stand for in ``colocated``, with their old names."""
_SCALE_DOWN = "scaleDownConfiguration"
_MANAGER = "distributedManagerConfiguration"

_LAST_COUNTS = ("security-setting", "resource-limit-setting")
"""Elements of which the last one counts, where there are several of one name; of others it is the first."""

_ENDPOINTS = ("endpointfactory", "broadcastendpointfactory", "endpointfactoryconfiguration", "broadcastendpointfactoryconfiguration")
_TRANSFORMER = "transformerConfiguration"
_ALLOWED = flag("permission", "Whether the role has it.")
_ROUTING_TYPES = honoured("routingTypes", ROUTING_TYPE, "How messages go to its queues.")


def apply_entries(core: Content, entries: Sequence[Entry], findings: Findings) -> None:
    """Change ``core``, which broker.xml gave, as ``entries`` say, in their order."""
    _Overrides(core, findings).apply(entries)


class _Overrides:
    def __init__(self, core: Content, findings: Findings) -> None:
        self._core = core
        self._beans = BeanReader(findings)
        self._stores: dict[str, tuple[str, Entry]] = {}
        """The stores of the roles in ``colocated`` that entries have named, by role."""
        self._families: dict[str, Callable[[Entry], None]] = {
            **{name: partial(self._named, *path) for name, path in _NAMED_FAMILIES.items()},
            "addressConfigurations": self._addresses,
            "securityRoles": self._security,
            "acceptorConfigurations": partial(self._transport, "acceptor"),
            "connectorConfigurations": partial(self._transport, "connector"),
            "groupingHandlerConfiguration": self._grouping,
            "HAPolicyConfiguration": self._ha,
        }

    def apply(self, entries: Sequence[Entry]) -> None:
        families = {folded(name): handle for name, handle in self._families.items()}
        for entry in entries:
            first = folded(entry.path[0])
            if first in _REFUSED_FAMILIES:
                self._beans.error(entry, f"{entry.path[0]} cannot be used: {CORE.block(_REFUSED_FAMILIES[first]).reason}")
            elif first in families:
                families[first](entry)
            elif len(entry.path) == 1:
                self._set(self._core, entry, entry.path[0], CORE, tuple(self._families))
            else:
                self._beans.unknown(entry, entry.path[0], [*self._families])
        self._place_colocated()

    def _set(self, content: Content, entry: Entry, name: str, block: Block, more: Sequence[str] = ()) -> None:
        if entry.removes:
            item = self._beans.item(entry, name, block.properties(), more)
            if item is not None:
                content.values.pop(item.target, None)
            return
        found = self._beans.value(entry, name, block.properties(), more)
        if found is not None:
            content.put(*found, (entry.file, entry.line))

    def _child(self, outer: Content, block: Block, entry: Entry, position: int) -> Content | None:
        """The block in ``outer`` that the key names at ``position``, a new one where there is none; None where it is taken away."""
        name = entry.path[position]
        if entry.removes and len(entry.path) == position + 1:
            outer.inside = [each for each in outer.inside if each[0] != block.name or each[1].name != name]
            return None
        same = [each for each in outer.all(block.name) if each.name == name]
        if same:
            return same[-1 if block.name in _LAST_COUNTS else 0]
        made = Content((entry.file, entry.line), {block.key: name}, text="")
        outer.inside.append((block.name, made))
        return made

    def _named(self, outer: str, inner: str, key: str, entry: Entry) -> None:
        block = CORE.block(outer).block(inner)
        expected = f"{entry.path[0]}.{key}"
        if not self._beans.long_enough(entry, 2, expected):
            return
        content = self._child(self._outer(entry, outer), block, entry, 1)
        if content is None or not self._beans.long_enough(entry, 3, expected):
            return
        more = entry.path[2:]
        if folded(more[0]) in _ENDPOINTS and len(more) == 2:
            more = more[1:]
        transformed = block.child("transformer") is not None
        if transformed and folded(more[0]) == folded(_TRANSFORMER):
            self._transformer(content, entry)
        elif len(more) > 1:
            self._beans.unknown(entry, ".".join(more), [])
        elif folded(more[0]) != block.key:
            self._set(content, entry, more[0], block, (_TRANSFORMER,) if transformed else ())

    def _outer(self, entry: Entry, *path: str) -> Content:
        return self._core.one((entry.file, entry.line), *path)

    def _transformer(self, content: Content, entry: Entry) -> None:
        place, rest = (entry.file, entry.line), entry.path[3:]
        transformer = content.one(place, "transformer")
        if len(rest) == 1 and folded(rest[0]) == "classname":
            transformer.put("class_name", entry.value or None, place)
        elif len(rest) == 2 and folded(rest[0]) == "properties":
            transformer.inside.append(("property", Content(place, {"key": rest[1], "value": entry.value})))
        else:
            self._beans.error(entry, f"{'.'.join(entry.path)}: expected {_TRANSFORMER}.className or {_TRANSFORMER}.properties.key")

    def _addresses(self, entry: Entry) -> None:
        expected = "addressConfigurations.address.routingTypes or addressConfigurations.address.queueConfigs.queue.name"
        if not self._beans.long_enough(entry, 2, expected):
            return
        addresses = self._outer(entry, "addresses")
        address = self._child(addresses, ADDRESSES.block("address"), entry, 1)
        if address is None or not self._beans.long_enough(entry, 3, expected):
            return
        member = folded(entry.path[2])
        if member == "routingtypes" or member == "routingtype":
            for text in NAMES.convert(entry.value):
                value = self._beans.convert(replace(entry, value=text), _ROUTING_TYPES)
                if value is not None:
                    address.values["routing_types"] = address.values.get("routing_types", frozenset()) | {value}
        elif member == "queueconfigs" and self._beans.long_enough(entry, 4, expected):
            same = [each for each in addresses.all("address") if each.name == address.name]
            routed = [inner for each in same for inner in (each, *each.all("anycast"), *each.all("multicast"))]
            known = (inner for inner in routed if any(queue.name == entry.path[3] for queue in inner.all("queue")))
            self._queue(next(known, address), address.name, entry)
        elif member != "name":
            self._beans.unknown(entry, entry.path[2], ["routingTypes", "queueConfigs"])

    def _queue(self, outer: Content, address: str | None, entry: Entry) -> None:
        queue = self._child(outer, QUEUE, entry, 3)
        if queue is None or len(entry.path) < 5:
            return
        if folded(entry.path[4]) != "address":
            self._set(queue, entry, entry.path[4], QUEUE)
        elif entry.value != address:
            self._beans.error(entry, f"{'.'.join(entry.path)}: the queue is on the address {address}")

    def _security(self, entry: Entry) -> None:
        expected = "securityRoles.match.role.permission"
        if not self._beans.long_enough(entry, 2, expected):
            return
        setting = self._child(self._outer(entry, "security-settings"), SECURITY_SETTINGS.block("security-setting"), entry, 1)
        if setting is None or not self._beans.long_enough(entry, 4, expected):
            return
        role, kind = entry.path[2], OLD_PERMISSIONS.get(entry.path[3], entry.path[3])
        if kind not in PERMISSIONS:
            self._beans.unknown(entry, kind, PERMISSIONS)
            return
        allowed = False if entry.removes else self._beans.convert(entry, _ALLOWED)
        if allowed is not None:
            values = {"type": kind, "roles": frozenset({role}), "denied": not allowed}
            setting.inside.append(("permission", Content((entry.file, entry.line), values)))

    def _transport(self, what: str, entry: Entry) -> None:
        if not self._beans.long_enough(entry, 2, f"{entry.path[0]}.name.params.key"):
            return
        content = self._child(self._outer(entry, f"{what}s"), CORE.block(f"{what}s").block(what), entry, 1)
        if content is None:
            return
        content.place = (entry.file, entry.line)
        if len(entry.path) == 2:
            content.text = entry.value
        elif folded(entry.path[2]) in ("params", "extraparams") and len(entry.path) == 4:
            content.values.setdefault("parameters", {})[entry.path[3]] = entry.value
        elif folded(entry.path[2]) not in ("factoryclassname", "name"):
            self._beans.unknown(entry, entry.path[2], ["params", "extraParams"])

    def _grouping(self, entry: Entry) -> None:
        self._single(self._core, GROUPING_HANDLER, entry, f"{entry.path[0]}.property", 1)

    def _ha(self, entry: Entry) -> None:
        if len(entry.path) == 1:
            self._policy(entry)
            return
        content, block = self._role(entry)
        names = next((names for bean, names in _COLOCATED_ROLES.items() if folded(bean) == folded(entry.path[1])), None)
        if block.name != _COLOCATED.lower():
            self._property(content, block, entry, 1)
        elif names is None:
            self._property(content, block, entry, 1, tuple(_COLOCATED_ROLES))
        elif len(entry.path) == 2:
            self._colocated_role(content, names, entry)
        else:
            name = next((name for name, _ in content.inside if name in names), names[0])
            store = self._stores[names[0]][0] if names[0] in self._stores else self._colocated_store()
            role = HA_POLICY.block(store).block(block.name).block(name)
            self._property(content.one((entry.file, entry.line), name), role, entry, 2)

    def _property(self, content: Content, block: Block, entry: Entry, position: int, more: Sequence[str] = ()) -> None:
        """The property of a role that the key names at ``position``."""
        scale_down = block.child("scale-down")
        if scale_down is not None and folded(entry.path[position]) == folded(_SCALE_DOWN):
            expected = ".".join((*entry.path[:position], _SCALE_DOWN, "property"))
            self._single(content, SCALE_DOWN, entry, expected, position + 1)
        elif block.child(MANAGER.name) is MANAGER and folded(entry.path[position]) == folded(_MANAGER):
            self._lock_manager(content, entry)
        elif len(entry.path) == position + 1:
            self._set(content, entry, entry.path[position], block, more if scale_down is None else (*more, _SCALE_DOWN))
        else:
            self._beans.unknown(entry, ".".join(entry.path[position:]), [])

    def _policy(self, entry: Entry) -> None:
        """Another policy, with nothing of the one that was there."""
        path = {folded(name): path for name, path in _POLICIES.items()}.get(folded(entry.value))
        if folded(entry.value) == folded(_COLOCATED):
            path = (_STORE_UNLESS_NAMED, _COLOCATED.lower())
        if path is None:
            self._beans.error(entry, f"{entry.path[0]}: {entry.value!r} is not valid: expected {', '.join((*_POLICIES, _COLOCATED))}")
            return
        policy = self._outer(entry, "ha-policy")
        policy.inside.clear()
        policy.one((entry.file, entry.line), *path)
        self._stores.clear()

    def _colocated_role(self, colocated: Content, names: tuple[str, str], entry: Entry) -> None:
        """Another role in ``colocated``, with nothing of the one that was there."""
        known = {name: path[0] for name, path in _POLICIES.items() if path[1:] == names[:1]}
        store = {folded(name): store for name, store in known.items()}.get(folded(entry.value))
        if store is None:
            self._beans.error(entry, f"{'.'.join(entry.path)}: {entry.value!r} is not valid: expected {' or '.join(known)}")
            return
        colocated.inside = [each for each in colocated.inside if each[0] not in names]
        colocated.one((entry.file, entry.line), names[0])
        self._stores[names[0]] = store, entry

    def _colocated_store(self) -> str:
        """The element around ``colocated``."""
        return next(self._core.all("ha-policy")).inside[0][0]

    def _place_colocated(self) -> None:
        """Put ``colocated`` into the store that its roles have named; backups have the store of the broker unless said."""
        if not self._stores:
            return
        policy, there = next(self._core.all("ha-policy")), self._colocated_store()
        colocated = next(policy.all(there, _COLOCATED.lower()))
        primary = self._stores["primary"][0] if "primary" in self._stores else there
        if "backup" in self._stores:
            backup = self._stores["backup"][0]
        else:
            backup = there if any(name in _COLOCATED_ROLES["backupConfig"] for name, _ in colocated.inside) else primary
        if primary != backup:
            _, entry = next(reversed(self._stores.values()))
            text = f"the role of this broker is one of {primary}, that of its backups one of {backup}: expected the same"
            self._beans.error(entry, f"{'.'.join(entry.path)}: {text}")
        elif primary != there:
            policy.inside = [(primary, Content(colocated.place, inside=[(_COLOCATED.lower(), colocated)]))]

    def _role(self, entry: Entry) -> tuple[Content, Block]:
        """The element of this broker in ``ha-policy``, and its table."""
        content, block = self._outer(entry, "ha-policy"), HA_POLICY
        if not content.inside:
            content.one((entry.file, entry.line), "primary-only")
        while inner := [each for each in content.inside if each[0] not in (SCALE_DOWN.name, MANAGER.name)]:
            name, content = inner[0]
            block = block.block(name)
            if name == _COLOCATED.lower():
                break
        return content, block

    def _lock_manager(self, role: Content, entry: Entry) -> None:
        place, rest = (entry.file, entry.line), entry.path[2:]
        manager = role.one(place, MANAGER.name)
        if len(rest) == 1 and folded(rest[0]) == "classname":
            manager.put("class_name", entry.value or None, place)
        elif len(rest) == 2 and folded(rest[0]) == "properties":
            properties = manager.one(place, "properties")
            properties.inside.append(("property", Content(place, {"key": rest[1], "value": entry.value})))
        else:
            self._beans.error(entry, f"{'.'.join(entry.path)}: expected {_MANAGER}.className or {_MANAGER}.properties.key")

    def _single(self, outer: Content, block: Block, entry: Entry, expected: str, position: int) -> None:
        """A block that is there once: it has no name in the key."""
        if entry.removes and len(entry.path) == position:
            outer.inside = [each for each in outer.inside if each[0] != block.name]
        elif self._beans.long_enough(entry, position + 1, expected):
            self._set(outer.one((entry.file, entry.line), block.name), entry, entry.path[position], block)
