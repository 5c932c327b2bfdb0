"""Bringing Artemis's XML into a running broker (``mqbroker data imp``).

A message goes to exactly the queues that held it, by their ids: as Artemis's own import does it, which asks for the ids by management.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from mqbroker.cli.data.routed import to_queues
from mqbroker.cli.data.xml_messages import attribute, read_body, read_message
from mqbroker.cli.data.xml_reader import Node, XmlFormatError, read_nodes
from mqbroker.cli.management import MissingResource
from mqbroker.cli.status import CommandError
from mqbroker.config.schema.values import ROUTING_TYPES
from mqclient.blocking import Runner
from mqclient.core.api import ClientMessage, ClientProducer, ClientSession, QueueConfiguration
from mqclient.errors import MQError
from mqclient.wire.message import KEY_DUPLICATE_ID

BATCH: Final = 500
"""Messages in one transaction."""
_ROUTING_NAMES: Final = {number: name for name, number in ROUTING_TYPES.items()}
_LEGACY_PREFIXES: Final = {"jms.queue.": "ANYCAST", "jms.topic.": "MULTICAST", "jms.tempqueue.": "ANYCAST", "jms.temptopic.": "MULTICAST"}


@dataclass(slots=True)
class Counts:
    """The numbers of imported things."""

    addresses: int = 0
    queues: int = 0
    messages: int = 0


class Importer:
    """Creates missing addresses and queues and sends the messages, over two sessions of the core client: ``sender`` is transacted.

    ``queue_id`` gives the id that a queue has in the broker.
    """

    def __init__(
        self, runner: Runner, admin: ClientSession, sender: ClientSession, legacy_prefixes: bool, queue_id: Callable[[str], int]
    ) -> None:
        self._call: Callable[..., Any] = runner.call
        self._admin = admin
        self._sender = sender
        self._legacy_prefixes = legacy_prefixes
        create_producer: Callable[..., Any] = sender.create_producer
        self._producer: ClientProducer = self._call(create_producer)
        self._addresses: dict[str, str] = {}
        """Address by queue name."""
        self._ask_id = queue_id
        self._ids: dict[str, int] = {}
        self._duplicate_ids: set[int] = set()
        """A hash of each duplicate id with its address."""
        self._line = 0
        self._uncommitted = 0
        self.counts = Counts()

    def run(self, file: Path, sort: bool, imported: Callable[[], None]) -> Counts:
        """Import the whole file; ``imported`` is called after each message.

        Raises :class:`CommandError` for a file that cannot be read, naming the line, and for queues that are not those of the file.  Errors
        of the broker come through; the line, and how many messages are there, are printed before.  Messages committed before stay.
        """
        try:
            with file.open("rb") as stream:
                messages: Iterator[Node] = self._bindings(stream)
                if sort:
                    messages = iter(sorted(messages, key=_message_id))
                for node in messages:
                    self._line = node.line
                    self._message(node)
                    imported()
            self._commit()
            self._check_queues()
        except (OSError, XmlFormatError) as error:
            raise CommandError(f"{file}: {error}; {self._told()}") from error
        except (MQError, CommandError):
            click.echo(f"{file}, line {self._line}: {self._told()}", err=True)
            raise
        return self.counts

    def _told(self) -> str:
        return f"{self.counts.messages - self._uncommitted} messages were imported before"

    def _bindings(self, stream: io.BufferedReader) -> Iterator[Node]:
        """Create addresses and queues on the way; yields the messages."""
        for node in read_nodes(stream, "activemq-journal", ("address-binding", "queue-binding", "binding", "message")):
            self._line = node.line
            if node.name == "message":
                yield node
            elif node.name == "address-binding":
                self._address(node)
            else:
                self._queue(node)

    def _plain(self, name: str) -> tuple[str, str | None]:
        """A name without the prefix of old clients, and the routing type that the prefix meant."""
        if not self._legacy_prefixes:
            for prefix, routing_type in _LEGACY_PREFIXES.items():
                if name.startswith(prefix):
                    return name[len(prefix) :], routing_type
        return name, None

    def _address(self, node: Node) -> None:
        name, legacy_type = self._plain(attribute(node, "name"))
        texts = [legacy_type] if legacy_type else [text.strip() for text in attribute(node, "routing-types").split(",") if text.strip()]
        types = [_routing_type(text, node) for text in texts]
        found = self._call(self._admin.address_query, name)
        if not found.exists:
            self._call(self._admin.create_address, name, types)
            self.counts.addresses += 1

    def _queue(self, node: Node) -> None:
        name, _ = self._plain(attribute(node, "name", attribute(node, "queue-name", "")))
        address, legacy_type = self._plain(attribute(node, "address"))
        self._addresses[name] = address
        stated = legacy_type or attribute(node, "routing-type", "")
        routing_type = _routing_type(stated or "ANYCAST", node)
        found = self._call(self._admin.queue_query, name)
        if found.exists:
            # The broker would drop messages of another address, and those that say another routing type, and tell nobody.
            if found.address != address:
                raise CommandError(f"the queue {name} belongs to the address {found.address} in the broker, and to {address} in the file")
            if stated and found.routing_type != routing_type:
                raise CommandError(f"the queue {name} is {_ROUTING_NAMES[found.routing_type]} in the broker, and {stated} in the file")
            return
        if not self._call(self._admin.address_query, address).exists:
            self._call(self._admin.create_address, address, [routing_type])
            self.counts.addresses += 1
        filter_string = attribute(node, "filter-string", "") or None
        self._call(
            self._admin.create_queue,
            QueueConfiguration(name=name, address=address, routing_type=routing_type, filter_string=filter_string, durable=True),
        )
        self.counts.queues += 1

    def _message(self, node: Node) -> None:
        found = read_message(node)
        targets: dict[str, list[int]] = {}
        for queue in found.queues:
            name, _ = self._plain(queue)
            address = self._addresses.get(name)
            if address is None:
                raise XmlFormatError(f"line {found.line}: the message names the queue {queue}, which the file does not define before")
            targets.setdefault(address, []).append(self._id(name))
        for address, ids in targets.items():
            message = to_queues(found.message, ids, read_body(node), found.large)
            self._tell_apart(message, address)
            try:
                self._call(self._producer.send, message, address)
            except ValueError as error:
                raise XmlFormatError(f"line {found.line}: {error}") from error
        self.counts.messages += 1
        self._uncommitted += 1
        if self._uncommitted >= BATCH:
            self._commit()

    def _tell_apart(self, message: ClientMessage, address: str) -> None:
        """Take the duplicate id out of a message if one before it has the same: the broker takes an id only once.

        Copies that a broker has made, such as dead letters of two queues, have the id of the one message that they are copies of.
        """
        value = message.get(KEY_DUPLICATE_ID)
        if value is None:
            return
        known = hash((address, value.encode("utf-16-le", "surrogatepass") if isinstance(value, str) else value))
        if known in self._duplicate_ids:
            del message.properties[KEY_DUPLICATE_ID]
        self._duplicate_ids.add(known)

    def _check_queues(self) -> None:
        """Raises CommandError where a queue was deleted meanwhile, perhaps automatically: the broker has dropped what came for it then.

        No other queue gets its id.
        """
        for name, queue_id in self._ids.items():
            try:
                is_there = self._ask_id(name) == queue_id
            except MissingResource:
                is_there = False
            if not is_there:
                raise CommandError(f"the queue {name} was deleted meanwhile: messages for it may be lost")

    def _id(self, queue: str) -> int:
        if queue not in self._ids:
            self._ids[queue] = self._ask_id(queue)
        return self._ids[queue]

    def _commit(self) -> None:
        if self._uncommitted:
            self._call(self._sender.commit)
            self._uncommitted = 0


def _message_id(node: Node) -> int:
    try:
        return int(attribute(node, "id", "0"))
    except ValueError as error:
        raise XmlFormatError(f"line {node.line}: <message>: {error}") from error


def _routing_type(text: str, node: Node) -> int:
    if text not in ROUTING_TYPES:
        raise XmlFormatError(f"line {node.line}: '{text}' is not a routing type, expected ANYCAST or MULTICAST")
    return ROUTING_TYPES[text]
