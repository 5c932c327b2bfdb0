"""Temporary destinations, known to all members, so that a message for one is taken everywhere [B7.5].

They are none of the change record: the broker whose client has made one, its *home*, tells the others of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.server_state import ServerState

KIND = "imq-temporary"
"""The kind of the settings by which the store keeps the temporary destinations of this broker; the key is the name."""

RECONNECT_SECONDS = 10.0
"""The reconnect interval of a connection (``JMQInterval`` of OpenMQ); its temporary destinations are kept for several of them."""

TOLD_MAX = 500
"""Temporary destinations in one request: some hundred kilobytes."""

log = Logger(namespace="mqbroker.imq")


def is_destination(definition: QueueDefinition, cluster_user: str) -> bool:
    """Is this the queue of a temporary destination?  One on another address is a subscription, and those of other brokers are theirs."""
    return definition.temporary and definition.name == definition.address and definition.user != cluster_user


class TemporaryDestinations:
    """Those of this broker's clients, and those of other members.

    ``kept`` are the settings of the store.  A client that comes back gets its destination again, at this broker or another one, within
    ``reconnect_s`` after the home was lost.
    """

    def __init__(self, server: ServerState, peers: Peers, reconnect_s: float, kept: Mapping[tuple[str, str], str]) -> None:
        self._server = server
        self._peers = peers
        self._reconnect_s = reconnect_s
        self._kept = {name: text for (kind, name), text in kept.items() if kind == KIND}
        self._own: dict[str, QueueDefinition] = {}
        self._homes: dict[str, str] = {}
        """The node ids of the homes of other members' destinations, by name."""
        self._timers: dict[str, Cancellable] = {}
        """When the destinations of a home that is away end, by its node id; those of this broker's own clients by its own."""
        self._awaited: set[str] = set()
        """The destinations of clients that this broker had before its start, and that have not come back yet."""
        self._moved: dict[str, tuple[QueueDefinition, str]] = {}
        """Destinations of clients that are at another member already, while their connection here has not ended yet."""
        self._ending: list[Callable[[], None]] = []

    # --- life

    def start(self) -> None:
        """Make what there was before, for the clients to come back to."""
        server = self._server
        for name, text in self._kept.items():
            try:
                definition = _definition(json.loads(text))
                self._define(definition)
            except (ValueError, MQError) as error:
                log.warn("the temporary destination {name} is not there any more: {reason}", name=name, reason=str(error))
                self._forget(name)
                continue
            self._own[name] = definition
            self._awaited.add(name)
        if self._awaited:
            self._wait(server.node_id)
        self._ending = [
            self._peers.linked.subscribe(self._linked),
            self._peers.unlinked.subscribe(self._unlinked),
            server.messaging.core.queue_deleted.subscribe(self._deleted),
            server.departing.taken_back.subscribe(self._taken_back),
        ]
        for peer in list(self._peers.by_id.values()):
            self._linked(peer)

    def stop(self) -> None:
        """The broker stops, and its connections with it: what the clients have is kept for them."""
        while self._ending:
            self._ending.pop()()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # --- destinations of this broker

    def made(self, definition: QueueDefinition) -> None:
        """A client of this broker has made a queue."""
        if is_destination(definition, self._server.configuration.cluster_user):
            self._keep(definition)

    def _keep(self, definition: QueueDefinition) -> None:
        self._own[definition.name] = definition
        batch = self._server.store.begin()
        batch.put_setting(KIND, definition.name, json.dumps(_form(definition)))
        self._server.store.commit(batch)
        self._tell(made=[definition])

    def _forget(self, name: str) -> None:
        batch = self._server.store.begin()
        batch.delete_setting(KIND, name)
        self._server.store.commit(batch)

    def _taken_back(self, queue: Queue) -> None:
        """A client has come back to its destination, perhaps from another broker."""
        if self._homes.pop(queue.name, None) is not None:
            self._keep(queue.definition)
        self._awaited.discard(queue.name)

    def _deleted(self, queue: Queue) -> None:
        name = queue.name
        self._homes.pop(name, None)
        self._server.departing.expect_no_more(queue)
        if self._own.pop(name, None) is not None:
            self._awaited.discard(name)
            self._forget(name)
            self._tell(ended=[name])
            moved = self._moved.pop(name, None)
            if moved is not None:
                # The queue is in the middle of its end now.
                self._server.clock.call_later(0, self._server.turn.run, self._learn, *moved)

    def _tell(self, made: Iterable[QueueDefinition] = (), ended: Iterable[str] = ()) -> None:
        forms, names = [_form(each) for each in made], list(ended)
        for peer in list(self._peers.by_id.values()):
            self._ask(peer, forms, names)

    def _ask(self, peer: Peer, made: list[dict[str, Any]], ended: list[str], names: list[str] | None = None) -> None:
        told = {"made": made, "ended": ended, "names": names}
        peer.ask("temporary", self._server.node_id, told).addErrback(self._not_told, peer)

    @staticmethod
    def _not_told(failure: Failure, peer: Peer) -> None:
        log.warn("{peer} was not told of temporary destinations: {reason}", peer=peer.name, reason=failure.getErrorMessage())

    # --- destinations of other members

    @property
    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """The operations of other members that this part answers."""
        return {"temporary": self.answer_temporary}

    def answer_temporary(self, node_id: Any, told: Any) -> None:
        """The member ``node_id`` has made destinations, or ended some; ``names`` are all that it has."""
        home = str(node_id)
        definitions = [_definition(form) for form in told["made"]]
        for name in told["ended"]:
            if self._homes.get(str(name)) == home:
                self._end(str(name))
        for definition in definitions:
            self._learn(definition, home)
        if told["names"] is not None:
            known = set(told["names"])
            for name in [name for name, other in self._homes.items() if other == home and name not in known]:
                self._end(name)

    def _learn(self, definition: QueueDefinition, home: str) -> None:
        name = definition.name
        if name in self._own:
            if name not in self._awaited:
                self._moved[name] = definition, home
                return
            self._awaited.discard(name)
            del self._own[name]
            self._forget(name)
        known = name in self._homes
        self._homes[name] = home
        if known:
            return
        queue = self._server.messaging.core.queues.get(name)
        try:
            if queue is None:
                self._define(definition)
            else:
                self._server.departing.expect(queue)
        except MQError as error:
            del self._homes[name]
            log.warn("the temporary destination {name} of {home} is not known here: {reason}", name=name, home=home, reason=str(error))

    def _define(self, definition: QueueDefinition) -> None:
        queue = self._server.messaging.administration.define_queue(definition)
        self._server.departing.expect(queue)

    def _end(self, name: str) -> None:
        self._homes.pop(name, None)
        queue = self._server.messaging.core.queues.get(name)
        if queue is not None:
            self._server.messaging.administration.delete_queue(queue, remove_consumers=True)

    # --- links

    def _linked(self, peer: Peer) -> None:
        timer = self._timers.pop(peer.node_id, None)
        if timer is not None:
            timer.cancel()
        forms = [_form(each) for each in self._own.values()]
        for first in range(0, len(forms), TOLD_MAX):
            self._ask(peer, forms[first : first + TOLD_MAX], [])
        self._ask(peer, [], [], list(self._own))

    def _unlinked(self, peer: Peer) -> None:
        if peer.node_id in self._homes.values():
            self._wait(peer.node_id)

    def _wait(self, node_id: str) -> None:
        server = self._server
        self._timers[node_id] = server.clock.call_later(self._reconnect_s, server.turn.run, self._too_late, node_id)

    def _too_late(self, node_id: str) -> None:
        """The home, or the clients of this broker, are not back in time."""
        del self._timers[node_id]
        if node_id == self._server.node_id:
            names = list(self._awaited)
        else:
            names = [name for name, home in self._homes.items() if home == node_id]
        for name in names:
            log.info("the temporary destination {name} ends: its connection has not come back", name=name)
            self._end(name)


def _form(definition: QueueDefinition) -> dict[str, Any]:
    return {name: value for name, value in asdict(definition).items() if value is not None}


def _definition(form: Any) -> QueueDefinition:
    """Raises ValueError for a form that is none of a temporary destination."""
    try:
        definition = QueueDefinition(**form)
    except TypeError as error:
        raise ValueError(f"{form!r} is no queue: {error}") from error
    if not (definition.temporary and isinstance(definition.name, str) and definition.name == definition.address):
        raise ValueError(f"{definition.name!r} is no temporary destination")
    return replace(definition, durable=False)
