"""Older and shorter forms of a block, converted to the present form before overrides are applied."""

from __future__ import annotations

from urllib.parse import unquote

from mqbroker.config.broker_xml.bean_names import BeanReader
from mqbroker.config.broker_xml.reader import Content, Ref
from mqbroker.config.model.cluster_elements import CLUSTER_CONNECTION
from mqbroker.config.problems import Findings
from mqbroker.config.properties.entries import Entry
from mqclient.urls import UrlError, masked, parse_parameters

_URI_FORMS = "static://(tcp://host:port,…)?name=value or multicast://discovery-group?name=value"


def put_into_addresses(core: Content, jms: Content | None, findings: Findings) -> None:
    """Make the queues of ``queues`` and of the section ``jms`` queues of ``addresses``."""
    for queue in core.all("queues", "queue"):
        findings.warn(*queue.place, f"AMQ222307: the queue {queue.name} in <queues> is multicast; write it in <addresses>")
        _add(core, queue.values.pop("address", queue.name), "multicast", queue.place, queue)
    if jms is not None:
        for topic in jms.all("topic"):
            _add(core, topic.name, "multicast", topic.place)
        for queue in jms.all("queue"):
            _add(core, queue.name, "anycast", queue.place, queue)


def _add(core: Content, address: str | None, kind: str, place: tuple[str, int], queue: Content | None = None) -> None:
    if address is not None:
        added = Content(place, {"name": address}, inside=[(kind, Content(place, inside=[("queue", queue)] if queue else []))])
        core.one(place, "addresses").inside.append(("address", added))


def read_cluster_uris(core: Content, findings: Findings) -> None:
    """Make a ``cluster-connection`` of each ``cluster-connection-uri``, in its place: the first of all is the default one."""
    for connections in core.all("cluster-connections"):
        read = [(name, _from_uri(core, each, findings) if name == "cluster-connection-uri" else each) for name, each in connections.inside]
        connections.inside = [("cluster-connection", each) for _, each in read if each is not None]


def _from_uri(core: Content, uri: Content, findings: Findings) -> Content | None:
    name, address = uri.name, uri.values.get("address")
    if name is None or address is None:
        return None
    content = Content(uri.place, {"name": name})
    scheme, _, rest = address.partition(":")
    target, _, query = rest.removeprefix("//").partition("?")
    if target.startswith("("):  # the connectors may have parameters of their own
        target, _, query = rest.removeprefix("//").partition(")")
        query = query.partition("?")[2]
    try:
        parameters = parse_parameters(query)
    except UrlError as error:
        findings.error(*uri.place, f"<cluster-connection-uri address>: {error}")
        return None
    if scheme == "multicast" and target:
        content.put("discovery_group", unquote(target), uri.place)
    elif scheme == "static" and target:
        content.put("static_connectors", _static(core, uri, target.strip("()")), uri.place)
    else:
        findings.error(*uri.place, f"<cluster-connection-uri address>: {masked(address)!r} is not valid: expected {_URI_FORMS}")
        return None
    beans = BeanReader(findings)
    for key, value in parameters.items():
        found = beans.value(Entry((f"cluster-connection-uri {name}", key), value, *uri.place), key, CLUSTER_CONNECTION.properties())
        if found is not None:
            content.put(*found, uri.place)
    return content


def _static(core: Content, uri: Content, text: str) -> tuple[Ref, ...]:
    """The connectors of a URL: names of known ones, or URLs, which become connectors ``<name of the connection>.0`` and so on."""
    names = [part.strip() for part in text.split(",")]
    for number, part in enumerate(names):
        if "://" in part:
            names[number] = f"{uri.name}.{number}"
            core.one(uri.place, "connectors").inside.append(("connector", Content(uri.place, {"name": names[number]}, text=part)))
    return tuple(Ref(name, uri.place) for name in names)
