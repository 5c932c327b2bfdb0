"""The blocks of ``core`` about other brokers, and the diverts, each turned into a draft of its part of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from mqbroker.config.broker_xml.bean_names import BeanReader
from mqbroker.config.broker_xml.cluster_drafts import ClusterDrafts, Draft, Ref
from mqbroker.config.broker_xml.reader import Content, Reader
from mqbroker.config.broker_xml.transports import TransportReader, Written
from mqbroker.config.broker_xml.tree import Node
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.properties.cluster_beans import CLUSTER_BEANS
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.cluster import (
    BRIDGES,
    BROADCAST_GROUPS,
    CLUSTER_CONNECTIONS,
    DISCOVERY_GROUPS,
    DISCOVERY_REF,
    DIVERTS,
    GROUPING_HANDLER,
    HA_POLICY,
    SCALE_DOWN,
    TRANSFORMER,
)
from mqbroker.config.schema.model import Block
from mqbroker.config.schema.values import BOOLEAN
from mqclient.urls import UrlError, masked, parse_parameters

_URI_FORMS = "static://(tcp://host:port,…)?name=value or multicast://discovery-group?name=value"


class ClusterSectionReader:
    """Reads the blocks into ``drafts``; connectors that a URL names are added to ``configuration``."""

    def __init__(self, configuration: Configuration, drafts: ClusterDrafts, reader: Reader, transports: TransportReader) -> None:
        self._configuration = configuration
        self._drafts = drafts
        self._reader = reader
        self._transports = transports

    def read(self, core: Content) -> None:
        """Everything in ``core`` that is about other brokers."""
        drafts = self._drafts
        for outer, inner, known in (
            (BROADCAST_GROUPS, "broadcast-group", drafts.broadcast_groups),
            (DISCOVERY_GROUPS, "discovery-group", drafts.discovery_groups),
            (DIVERTS, "divert", drafts.diverts),
            (BRIDGES, "bridge", drafts.bridges),
        ):
            for node in core.blocks.get(outer.name, ()):
                for child, content in self._reader.inside(self._reader.read(node, outer), outer, inner):
                    self._add(known, self._draft(child, content, outer.block(inner)), inner)
        for node in core.blocks.get("cluster-connections", ()):
            self._cluster_connections(node)
        for node in core.blocks.get("grouping-handler", ()):
            drafts.grouping_handler = self._draft(node, self._reader.read(node, GROUPING_HANDLER), GROUPING_HANDLER)
        for node in core.blocks.get("ha-policy", ()):
            self._ha_policy(node)

    def _cluster_connections(self, node: Node) -> None:
        """In the order of the file: the first one is the default one."""
        accepted = self._reader.read(node, CLUSTER_CONNECTIONS).blocks
        for child in node.children:
            if all(child is not each for each in accepted.get(child.name, ())):
                continue
            block = CLUSTER_CONNECTIONS.block(child.name)
            content = self._reader.read(child, block)
            if child.name == "cluster-connection":
                draft = self._draft(child, content, block)
            else:
                draft = self._from_uri(child, content)
            self._add(self._drafts.cluster_connections, draft, "cluster-connection")

    def _add(self, known: dict[str, Draft], draft: Draft | None, what: str) -> None:
        if draft is None:
            return
        earlier = known.get(draft.name)
        if earlier is not None:
            self._reader.findings.error(
                *draft.place, f"there is a second {what} {draft.name} (first on line {earlier.place[1]}): their names are unique"
            )
            return
        known[draft.name] = draft

    def _draft(self, node: Node, content: Content, block: Block) -> Draft | None:
        """What is in ``content``; None without a name, which is an error already."""
        name = content.values.pop("name", None)
        if name is None:
            return None
        draft = Draft(name, (node.file, node.line), content.values, content.lines)
        if "connector-ref" in content.blocks:
            refs = tuple(self._refs(content, block))
            if block.block("connector-ref").repeated:
                draft.put("connectors", refs, refs[0].place if refs else draft.place)
            elif refs:
                draft.put("connector_ref", refs[0].name, refs[0].place)
        for child in content.blocks.get("static-connectors", ()):
            static = block.block("static-connectors")
            inner = self._reader.read(child, static)
            draft.put("static_connectors", tuple(self._refs(inner, static)), (child.file, child.line))
            if "allow_direct_connections_only" in inner.values:
                draft.put("allow_direct_connections_only", inner.values["allow_direct_connections_only"], (child.file, child.line))
        self._discovery_ref(content, draft)
        self._filter_and_transformer(content, block, draft)
        return draft

    def _discovery_ref(self, content: Content, draft: Draft) -> None:
        for node in content.blocks.get("discovery-group-ref", ()):
            group = self._reader.read(node, DISCOVERY_REF).values.get("discovery_group_name")
            if group is not None:
                draft.put("discovery_group", group, (node.file, node.line))

    def _filter_and_transformer(self, content: Content, block: Block, draft: Draft) -> None:
        for node in content.blocks.get("filter", ()):
            inner = self._reader.read(node, block.block("filter"))
            text = self._reader.findings.filter(inner.values.get("string"), node.file, node.line)
            draft.put("filter_string", text, (node.file, node.line))
        for node in content.blocks.get("transformer", ()):
            inner = self._reader.read(node, TRANSFORMER)
            if "class_name" not in inner.values:
                self._reader.error(node, "<transformer> lacks <class-name>: expected which transformer it is")
                continue
            properties = {
                each.values["key"]: each.values.get("value", "")
                for _, each in self._reader.inside(inner, TRANSFORMER, "property")
                if "key" in each.values
            }
            draft.put("transformer_class_name", inner.values["class_name"], (node.file, node.line))
            draft.put("transformer_properties", properties, (node.file, node.line))

    def _refs(self, content: Content, block: Block) -> Iterator[Ref]:
        for node, ref in self._reader.inside(content, block, "connector-ref"):
            names = {*ref.values.values()} | ({ref.text} if ref.text else set())
            if len(names) == 1:
                yield Ref(names.pop(), (node.file, node.line))
            elif names:
                self._reader.error(node, f"<connector-ref> names {', '.join(sorted(names))}: expected one connector")
            elif not node.attributes:
                self._reader.error(node, "<connector-ref> is empty: expected the name of a connector")

    def _from_uri(self, node: Node, content: Content) -> Draft | None:
        name, address = content.values.get("name"), content.values.get("address")
        if name is None or address is None:
            return None
        place = (node.file, node.line)
        draft = Draft(name, place)
        scheme, _, rest = address.partition(":")
        target, _, query = rest.removeprefix("//").partition("?")
        if target.startswith("("):  # the connectors may have parameters of their own
            target, _, query = rest.removeprefix("//").partition(")")
            query = query.partition("?")[2]
        try:
            parameters = parse_parameters(query)
        except UrlError as error:
            self._reader.error(node, f"<cluster-connection-uri address>: {error}")
            return None
        if scheme == "multicast" and target:
            draft.put("discovery_group", unquote(target), place)
        elif scheme == "static" and target:
            draft.put("static_connectors", tuple(self._static(node, name, target.strip("()"))), place)
        else:
            self._reader.error(node, f"<cluster-connection-uri address>: {masked(address)!r} is not valid: expected {_URI_FORMS}")
            return None
        beans = BeanReader(self._reader.findings)
        for key, value in parameters.items():
            found = beans.value(Entry((f"cluster-connection-uri {name}", key), value, *place), key, CLUSTER_BEANS)
            if found is not None:
                draft.put(*found, place)
        return draft

    def _static(self, node: Node, name: str, text: str) -> Iterator[Ref]:
        """The connectors of a URL: names of known ones, or URLs, which become connectors ``<name of the connection>.0`` and so on."""
        for number, part in enumerate(text.split(",")):
            part = part.strip()
            if "://" not in part:
                yield Ref(part, (node.file, node.line))
                continue
            added = f"{name}.{number}"
            uri = self._transports.connector(Written(part, added, node.file, node.line))
            if uri is not None:
                self._configuration.connectors[added] = uri
                yield Ref(added, (node.file, node.line))

    def _ha_policy(self, node: Node) -> None:
        content = self._reader.read(node, HA_POLICY)
        if len(node.children) > 1:
            self._reader.error(node, f"<ha-policy> holds {', '.join(child.name for child in node.children)}: expected one of them")
            return
        for name in ("primary-only", "live-only"):
            for _, policy in self._reader.inside(content, HA_POLICY, name):
                for child, inner in self._reader.inside(policy, HA_POLICY.block(name), "scale-down"):
                    self._drafts.scale_down = self._scale_down(child, inner)

    def _scale_down(self, node: Node, content: Content) -> Draft:
        draft = Draft("", (node.file, node.line), content.values, content.lines)
        if content.text is not None:
            try:
                draft.put("enabled", BOOLEAN.convert(content.text), draft.place)
            except ValueError:
                self._reader.error(node, f"<scale-down>: {content.text!r} is not valid: expected {BOOLEAN.expected}, or elements")
        connectors = SCALE_DOWN.block("connectors")
        for child, inner in self._reader.inside(content, SCALE_DOWN, "connectors"):
            draft.put("connectors", tuple(self._refs(inner, connectors)), (child.file, child.line))
        self._discovery_ref(content, draft)
        return draft
