"""Temporary destinations, known to all members, so that a message for one is taken everywhere [B7.5].

They are none of the change record: the broker whose client has made one, its *home*, tells the others of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.messaging.ports import Cancellable, Inherited
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.server import Server

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


def inherited_destinations(inherited: Iterable[Inherited]) -> dict[str, str]:
    """The temporary destinations of brokers that were taken over, by name, as the store keeps them."""
    return {name: text for each in inherited for (kind, name), text in each.found.settings.items() if kind == KIND}


class _Made(NamedTuple):
    """A temporary destination.  Its home is the broker that its client came to last; ``since`` (ms since 1970) says when."""

    definition: QueueDefinition
    since: int

    def form(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: value for name, value in asdict(self.definition).items() if value is not None} | {"since": self.since}

    @classmethod
    def of(cls, form: Any) -> _Made:
        """Raises ValueError for a form that is none of a temporary destination."""
        try:
            values = dict(form)
            since = int(values.pop("since"))
            definition = QueueDefinition(**values)
        except (TypeError, KeyError) as error:
            raise ValueError(f"{form!r} is no temporary destination: {error}") from error
        if not (definition.temporary and isinstance(definition.name, str) and definition.name == definition.address):
            raise ValueError(f"{definition.name!r} is no temporary destination")
        return cls(replace(definition, durable=False), since)


class TemporaryDestinations:
    """The temporary destinations of this broker's clients, and those of other members.

    ``kept`` are the settings of the store.  A client that comes back gets its destination again, at this broker or another one, within
    ``reconnect_s`` after the home was lost.
    """

    def __init__(self, server: Server, peers: Peers, reconnect_s: float, kept: Mapping[tuple[str, str], str]) -> None:
        self._server = server
        self._peers = peers
        self._reconnect_s = reconnect_s
        self._kept = {name: text for (kind, name), text in kept.items() if kind == KIND}
        self._own: dict[str, _Made] = {}
        self._homes: dict[str, tuple[str, int]] = {}
        """The homes of other members' destinations (node id), by name, and since when they are that (ms)."""
        self._timers: dict[str, Cancellable] = {}
        """When the destinations of a home that is away end, by its node id; those of this broker's own clients by its own."""
        self._awaited: dict[str, None] = {}
        """The destinations of clients that this broker had before its start, and that have not come back yet; they end in this order."""
        self._moved: dict[str, tuple[_Made, str]] = {}
        """Destinations of clients that are at another member already, while their connection here has not ended yet."""
        self._ending: list[Callable[[], None]] = []

    # --- life

    def start(self) -> None:
        """Make what there was before, for the clients to come back to."""
        server = self._server
        for name, text in self._kept.items():
            try:
                made = _Made.of(json.loads(text))
                self._define(made.definition)
            except (ValueError, MQError) as error:
                log.warn("the temporary destination {name} is not there any more: {reason}", name=name, reason=str(error))
                self._forget(name)
                continue
            self._own[name] = made
            self._awaited[name] = None
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

    def inherit(self, settings: Mapping[str, str]) -> None:
        """This broker has taken over another one: the clients of its destinations have the reconnect time to come here.

        ``settings`` are this broker's own in the store already.
        """
        for name, text in settings.items():
            if name in self._own:
                continue
            try:
                made = _Made.of(json.loads(text))
                if name not in self._server.messaging.core.queues:
                    self._define(made.definition)
            except (ValueError, MQError) as error:
                log.warn("the temporary destination {name} is not taken over: {reason}", name=name, reason=str(error))
                self._forget(name)
                continue
            self._homes.pop(name, None)
            self._own[name] = made
            self._awaited[name] = None
        own = self._server.node_id
        if self._awaited:
            timer = self._timers.pop(own, None)
            if timer is not None:
                timer.cancel()
            self._wait(own)

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
        made = self._own[definition.name] = _Made(definition, self._server.clock.wall_ms())
        batch = self._server.store.begin()
        batch.put_setting(KIND, definition.name, json.dumps(made.form()))
        self._server.store.commit(batch)
        self._tell(made=[made])

    def _forget(self, name: str) -> None:
        batch = self._server.store.begin()
        batch.delete_setting(KIND, name)
        self._server.store.commit(batch)

    def _taken_back(self, queue: Queue) -> None:
        """A client has come back to its destination, perhaps from another broker."""
        if self._homes.pop(queue.name, None) is not None:
            self._keep(queue.definition)
        self._awaited.pop(queue.name, None)

    def _deleted(self, queue: Queue) -> None:
        name = queue.name
        self._homes.pop(name, None)
        self._server.departing.expect_no_more(queue)
        if self._own.pop(name, None) is not None:
            self._awaited.pop(name, None)
            self._forget(name)
            self._tell(ended=[name])
            moved = self._moved.pop(name, None)
            if moved is not None:
                # The queue is in the middle of its end now.
                self._server.clock.call_later(0, self._server.turn.run, self._follow, *moved)

    def _follow(self, made: _Made, home: str) -> None:
        """A client that is at ``home`` by now has lost its connection here."""
        self._learn(made, home)
        self._await(home)

    def _await(self, home: str) -> None:
        """The link to ``home`` may be lost, or not be there yet: without one nobody would tell that the destinations have ended."""
        if home not in self._peers.by_id and home not in self._timers:
            self._wait(home)

    def _tell(self, made: Iterable[_Made] = (), ended: Iterable[str] = ()) -> None:
        forms, names = [each.form() for each in made], list(ended)
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
        made = [_Made.of(form) for form in told["made"]]
        for name in told["ended"]:
            self._end_at(str(name), home)
        for each in made:
            self._learn(each, home)
        if made:
            self._await(home)
        if told["names"] is not None:
            known = set(told["names"])
            for name in [*self._at(home), *self._moved]:
                if name not in known:
                    self._end_at(name, home)

    def _end_at(self, name: str, home: str) -> None:
        """The member has ended a destination, if it was there."""
        if name in self._moved and self._moved[name][1] == home:
            del self._moved[name]
        elif name in self._at(home):
            self._end(name)

    def _at(self, home: str) -> list[str]:
        """The destinations of a member."""
        return [name for name, (other, _) in self._homes.items() if other == home]

    def _learn(self, made: _Made, home: str) -> None:
        definition, since = made
        name = definition.name
        own = self._own.get(name)
        if own is not None:
            if own.since > since:
                return  # the client was there before it came here
            if name not in self._awaited:
                self._moved[name] = made, home
                return
            self._awaited.pop(name, None)
            del self._own[name]
            self._forget(name)
        known = self._homes.get(name)
        if known is None or known[1] <= since:
            self._homes[name] = home, since
        if known is not None:
            return
        queue = self._server.messaging.core.queues.get(name)
        try:
            if queue is None:
                self._define(definition)
            else:
                self._adopt(queue)
        except MQError as error:
            del self._homes[name]
            log.warn("the temporary destination {name} of {home} is not known here: {reason}", name=name, home=home, reason=str(error))

    def _define(self, definition: QueueDefinition) -> None:
        queue = self._server.messaging.administration.define_queue(definition)
        self._server.departing.expect(queue)

    def _adopt(self, queue: Queue) -> None:
        """Keep a queue that a link has made for a consumer at its home, before the home could tell: it does not end with that link."""
        for connection in self._server.connections.values():
            connection.temporary_queues.pop(queue, None)
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
        forms = [each.form() for each in self._own.values()]
        for first in range(0, len(forms), TOLD_MAX):
            self._ask(peer, forms[first : first + TOLD_MAX], [])
        self._ask(peer, [], [], list(self._own))

    def _unlinked(self, peer: Peer) -> None:
        if self._at(peer.node_id):
            self._wait(peer.node_id)

    def _wait(self, node_id: str) -> None:
        server = self._server
        self._timers[node_id] = server.clock.call_later(self._reconnect_s, server.turn.run, self._too_late, node_id)

    def _too_late(self, node_id: str) -> None:
        """The home, or the clients of this broker, are not back in time."""
        del self._timers[node_id]
        for name in list(self._awaited) if node_id == self._server.node_id else self._at(node_id):
            log.info("the temporary destination {name} ends: its connection has not come back", name=name)
            self._end(name)
