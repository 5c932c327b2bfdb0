"""The answers of the members of a cluster to management: links, waiting messages, and the queues known of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from mqbroker.cli.connection import broker_url
from mqbroker.cli.management import Management, UnknownAttribute, json_object
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import CommandError

PAGE: Final = 1000
"""Rows of a list that one request asks for."""

T = TypeVar("T")
Open = Callable[[ConnectionOptions], AbstractContextManager[Management]]


@dataclass(slots=True)
class Link:
    """The figures of the link of one member to another, and the name of its cluster connection."""

    connection: str
    values: dict[str, Any]

    @property
    def node_id(self) -> str:
        return str(self.values["nodeID"])

    @property
    def state(self) -> str:
        return str(self.values["state"])

    @property
    def backlog(self) -> int:
        return int(self.values["backlog"])

    @property
    def credits(self) -> int | None:
        """Bytes that may be sent to the address that has the least left; None: nothing was counted yet."""
        found = self.values.get("credits") or {}
        return min(map(int, found.values())) if found else None


@dataclass(slots=True)
class Node:
    """One member.  ``error`` tells why the member was not asked or did not answer; then only ``node_id`` and ``place`` are known."""

    node_id: str
    place: str
    name: str = ""
    error: str | None = None
    links: list[Link] = field(default_factory=list)
    links_known: bool = True
    """Does the member answer questions about links and remote queues?  An Artemis does not."""
    bindings: list[dict[str, Any]] = field(default_factory=list)
    twins: list[str] = field(default_factory=list)
    """The places of other brokers with the same node id."""
    members: list[dict[str, Any]] = field(default_factory=list)
    """The topology as this member knows it."""

    def as_json(self) -> dict[str, Any]:
        if self.error is not None:
            return {"nodeID": self.node_id, "primary": self.place, "error": self.error}
        return {
            "nodeID": self.node_id,
            "name": self.name,
            "primary": self.place,
            "members": self.members,
            "links": [{"clusterConnection": link.connection, **link.values} for link in self.links] if self.links_known else None,
            "remoteBindings": self.bindings if self.links_known else None,
            "duplicateNodeID": self.twins,
        }


def topology(broker: Management) -> list[dict[str, Any]]:
    """The members that ``broker`` knows, itself among them."""
    found = json_object(broker.invoke("broker", "listNetworkTopology"))
    return [member for member in found if isinstance(member, dict)] if isinstance(found, list) else []


def ask_node(broker: Management, own_queue: str) -> Node:
    """The answers of ``broker`` about itself.

    ``own_queue`` is the queue for the replies to this command, which is left out.
    """
    node_id = str(broker.attribute("broker", "NodeID"))
    members = topology(broker)
    own = next((str(member.get("primary", "")) for member in members if member.get("nodeID") == node_id), "")
    node = Node(node_id, own, str(broker.attribute("broker", "Name")), members=members)
    for name in broker.attribute("broker", "ClusterConnectionNames") or ():
        resource = f"clusterconnection.{name}"
        try:
            links = json_object(broker.attribute(resource, "LinksAsJSON"))
        except UnknownAttribute:
            node.links_known = False
            return node
        node.links += [Link(str(name), values) for values in links]
        node.twins += list(broker.attribute(resource, "ContestedBy"))
        found = rows(broker, resource, "listRemoteBindings")
        node.bindings += [row | {"clusterConnection": name} for row in found if row.get("name") != own_queue]
    return node


def rows(broker: Management, resource: str, operation: str, options: str = "") -> Iterator[dict[str, Any]]:
    """All rows of one of the ``list…`` operations, page by page."""
    number = 1
    while True:
        found = json_object(broker.invoke(resource, operation, options, number, PAGE))
        data = found.get("data", [])
        yield from data
        if len(data) < PAGE or number * PAGE >= int(found.get("count", 0)):
            return
        number += 1


def each_member(
    connection: ConnectionOptions, broker: Management, opened: Open, ask: Callable[[Management], T]
) -> Iterator[tuple[str, str, T | CommandError]]:
    """Node id and place of each member, ``broker`` first, and the result of ``ask``, or the error of another member that does not answer.

    Other members are reached at their announced places, with the login and the parameters of ``connection``.
    """
    node_id = str(broker.attribute("broker", "NodeID"))
    members = topology(broker)
    if all(member.get("nodeID") != node_id for member in members):
        members.append({"nodeID": node_id})  # an Artemis without a cluster does not know itself
    parameters = broker_url(connection).partition("?")[2]
    members.sort(key=lambda member: (member.get("nodeID") != node_id, str(member.get("primary", ""))))
    for member in members:
        place = str(member.get("primary") or "")
        if member.get("nodeID") == node_id:
            yield node_id, place, ask(broker)
            continue
        url = f"tcp://{place}{f'?{parameters}' if parameters else ''}"
        try:
            with opened(replace(connection, url=url, quiet=True, silent=True)) as other:
                answer: T | CommandError = ask(other)
        except CommandError as error:
            answer = error
        yield str(member.get("nodeID")), place, answer


def ask_all(connection: ConnectionOptions, broker: Management, opened: Open) -> list[Node]:
    """Every member that ``broker`` knows, itself first."""
    found: list[Node] = []
    for node_id, place, answer in each_member(connection, broker, opened, lambda each: ask_node(each, broker.reply_queue)):
        found.append(Node(node_id, place, error=str(answer)) if isinstance(answer, CommandError) else answer)
    return found


def names_of(nodes: Sequence[Node]) -> dict[str, str]:
    """A name for each node, by node id: the broker's name, with the beginning of its id where the name is not unique or not known."""
    known = {node.node_id: node.name for node in nodes}
    for node in nodes:
        for link in node.links:
            known.setdefault(link.node_id, "")
    names = list(known.values())
    return {
        node_id: name if name and names.count(name) == 1 else f"{name}{'/' if name else ''}{node_id[:8]}" for node_id, name in known.items()
    }
