"""Message groups over a cluster (Artemis manual, "Clustered Grouping"): the common part of LOCAL and REMOTE grouping handlers.

A *decision* names the queue, by its name in the whole cluster, that gets the messages of one group among the queues of one routing name.
The LOCAL handler alone decides.  Source of the notifications between handlers: ``protocol-spec/``, chapter "Cluster connections".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.queues.groups import GROUP_ID_KEY
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.bindings_group import BindingsGroup, accepts
from mqbroker.messaging.routing.remote import NODE_ID_LENGTH, RemoteBinding
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.wire.properties import INT, NULL, STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.ports import Cancellable
    from mqbroker.messaging.routing.diverts import Divert
    from mqbroker.messaging.routing.routing import Binding, Route

DECISIONS_MAX = 100_000
"""Decisions that a handler knows; beyond that the least recently used one is forgotten."""

KEY_LENGTH_MAX = 4096
"""Characters of a group id and a routing name together; messages with longer ones are routed as if they had no group."""

PROPOSAL, PROPOSAL_RESPONSE, UNPROPOSAL = "PROPOSAL", "PROPOSAL_RESPONSE", "UNPROPOSAL"
KINDS = (PROPOSAL, PROPOSAL_RESPONSE, UNPROPOSAL)

_GROUP_ID, _VALUE, _ALTERNATIVE = "_JBM_ProposalGroupId", "_JBM_ProposalValue", "_JBM_ProposalAltValue"

Properties = Mapping[str, TypedValue]


@dataclass(frozen=True, slots=True)
class Place:
    """The broker of a handler.  ``tell(kind, headers)`` sends a notification, ``warn(text)`` writes to the log, not too often."""

    core: MessagingCore
    node_id: str
    tell: Callable[[str, Properties], object]
    warn: Callable[[str], object]


class Proposal:
    """A received notification about a decision.  Raises ValueError for a notification that cannot be followed.

    ``value`` is the proposed queue, ``answer`` the queue that the LOCAL handler decided.
    """

    __slots__ = ("answer", "distance", "key", "value")

    def __init__(self, properties: Properties) -> None:
        self.key = _text(properties, _GROUP_ID)
        self.value = _text(properties, _VALUE)
        self.answer = _text(properties, _ALTERNATIVE) if properties.get(_ALTERNATIVE, (NULL, None))[0] != NULL else self.value
        kind, distance = properties.get("_AMQ_Distance", (NULL, None))
        if not isinstance(distance, int) or kind == NULL:
            raise ValueError("it has no distance")
        self.distance = distance


def _text(properties: Properties, key: str) -> str:
    kind, value = properties.get(key, (NULL, None))
    if kind != STRING or not isinstance(value, str) or not 0 < len(value) <= KEY_LENGTH_MAX:
        raise ValueError(f"{key} is not a text of 1 to {KEY_LENGTH_MAX} characters")
    return value


class Decision(Protocol):
    """A decision about one group: the queue's name in the whole cluster."""

    name: str


class Pending:
    """A group whose messages wait for the decision (REMOTE), or for the decided queue.

    ``name`` is the proposed queue, ``awaited`` the decided one while it is not known here.
    """

    __slots__ = ("awaited", "name", "rounds", "timer", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.awaited: str | None = None
        self.rounds = 0
        self.timer: Cancellable | None = None
        self.waiting: list[Callable[[], object]] = []


class GroupingHandler(ABC):
    """Keeps each message group at one queue of a cluster (a :class:`mqbroker.messaging.routing.grouping.Grouping`).

    All calls come inside a turn.

    ``messages_ungrouped`` counts messages that were routed without a decision, because there was none in time.
    """

    def __init__(self, configuration: GroupingHandlerConfiguration, place: Place) -> None:
        self.ticket = 0
        self.messages_ungrouped = 0
        self.configuration = configuration
        self.core = place.core
        self.clock = place.core.clock
        self._node_id = place.node_id
        self._send = place.tell
        self._warn = place.warn
        self._timeout = configuration.timeout / 1000
        self._decisions: Mapping[str, Decision]
        """By group key; the decision that was used last is the last one."""
        self._pending: dict[str, Pending] = {}
        self._awaited: dict[str, dict[str, None]] = {}
        """Keys of the groups that wait for a queue, by the name of the queue."""

    # --- routing

    def select(self, route: Route, message: Message, may_wait: bool) -> Sequence[Binding]:
        """The bindings that get ``message``: with ``may_wait`` false, the proposed ones where there is no decision yet."""
        diverts = route.exclusive(message)
        if diverts:
            return diverts
        group_id = message.raw_property(GROUP_ID_KEY)
        if not isinstance(group_id, str):
            return route.select(message)
        chosen: list[Binding] = []
        undecided: Pending | None = None
        for group in route.groups():
            found = self._select(group, group_id, message)
            if isinstance(found, Pending):
                undecided = undecided or found
                found = self._take(group, found.name, message)
            if found is not None:
                chosen.append(found)
        if undecided is not None:
            if may_wait:
                raise Undecided(undecided.waiting.append)
            self.messages_ungrouped += 1
        return chosen

    def _select(self, group: BindingsGroup, group_id: str, message: Message) -> Queue | RemoteBinding | Divert | Pending | None:
        key = f"{group_id}.{group.name}"
        if not _shared(group):
            return group.choose(message)
        if len(key) > KEY_LENGTH_MAX:
            self._warn(f"a message to {message.address} has a group id of {len(group_id)} characters: it is routed without grouping")
            return group.choose(message)
        decided = self.decide(key, lambda: self._name_of(group.choose(message)))
        if decided is None or isinstance(decided, Pending):
            return decided
        return self._take(group, decided, message)

    def _take(self, group: BindingsGroup, name: str, message: Message) -> Queue | RemoteBinding | Divert | None:
        """The queue of this name, or another one when that queue does not accept the message."""
        for binding in group.bindings:
            if self._name_of(binding) == name:
                if accepts(binding, message) if isinstance(binding, Queue) else binding.matches(message):
                    return binding
                break
        return group.choose(message)

    def _name_of(self, binding: Queue | RemoteBinding | Divert | None) -> str | None:
        if isinstance(binding, Queue):
            return f"{binding.name}{self._node_id}"
        return binding.cluster_name if isinstance(binding, RemoteBinding) else None

    def bound(self, name: str) -> bool:
        """Is the queue of this name known here, with or without a link to its broker?"""
        if name.endswith(self._node_id):
            return name[:-NODE_ID_LENGTH] in self.core.queues
        return self.core.routing.remote(name) is not None

    @abstractmethod
    def decide(self, key: str, choose: Callable[[], str | None]) -> str | Pending | None:
        """The queue of a group; without a decision ``choose`` gives the next one in turn.  None: no queue accepts the message."""

    @property
    def decisions(self) -> int:
        """The number of decisions known here."""
        return len(self._decisions)

    def decided(self, key: str) -> str | None:
        """The queue of a group; None without a decision."""
        decision = self._decisions.get(key)
        return None if decision is None else decision.name

    # --- waiting

    @property
    def waiting(self) -> int:
        """Groups whose messages wait."""
        return len(self._pending)

    def _start_timer(self, key: str, pending: Pending, seconds: float) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        pending.timer = self.clock.call_later(seconds, self.core.turn.run, self._late, key)

    def _wait_for(self, key: str, pending: Pending, name: str) -> None:
        """The decision is known, but its queue is not."""
        pending.awaited = name
        self._awaited.setdefault(name, {})[key] = None

    def _resolve(self, key: str) -> None:
        """Let the messages of the group be sent again."""
        pending = self._pending.pop(key, None)
        if pending is None:
            return
        if pending.timer is not None:
            pending.timer.cancel()
        self._forget_awaited(key, pending)
        for function in pending.waiting:
            # Not at once: the caller may be in the middle of other work.
            self.clock.call_later(0, function)

    def _forget_awaited(self, key: str, pending: Pending) -> None:
        name, pending.awaited = pending.awaited, None
        if name is not None:
            keys = self._awaited[name]
            keys.pop(key, None)
            if not keys:
                del self._awaited[name]

    @abstractmethod
    def _late(self, key: str) -> None:
        """No answer, or no queue, has come in time."""

    # --- notifications

    def notified(self, kind: str, headers: Properties) -> None:
        """This broker has sent a notification."""
        if kind == "BINDING_ADDED":
            name = headers.get("_AMQ_ClusterName", (NULL, None))[1]
            if self._awaited and isinstance(name, str):
                for key in list(self._awaited.get(name, ())):
                    self._found(key, name)
        elif kind == "BINDING_REMOVED":
            name = headers.get("_AMQ_ClusterName", (NULL, None))[1]
            if isinstance(name, str):
                self._removed(name)

    @abstractmethod
    def _found(self, key: str, name: str) -> None:
        """The queue that a group waits for has become known."""

    def _removed(self, name: str) -> None:
        """A queue is gone, or is reached by another way now."""

    @abstractmethod
    def told(self, kind: str, properties: Properties, node_id: str) -> None:
        """A notification of the member ``node_id`` has come.  Raises ValueError when it cannot be followed."""

    def linked(self, node_id: str) -> None:
        """The link to a member has come up: notifications of the member may have been missed."""

    def repeat(self) -> None:
        """A member asks for everything again: it may have missed notifications of this broker."""

    def _tell(self, kind: str, key: str, value: str, alternative: TypedValue | None = None, distance: int = 0) -> None:
        headers: dict[str, TypedValue] = {
            _GROUP_ID: (STRING, key),
            _VALUE: (STRING, value),
            "_AMQ_Binding_Type": (INT, 0),
            "_AMQ_Address": (STRING, self.configuration.address),
            "_AMQ_Distance": (INT, distance),
        }
        if alternative is not None:
            headers[_ALTERNATIVE] = alternative
        self._send(kind, headers)

    # --- life

    def start(self) -> None:
        """Begin the periodic work."""

    def stop(self) -> None:
        """End every timer; senders that wait are not woken."""
        for pending in self._pending.values():
            if pending.timer is not None:
                pending.timer.cancel()


class GroupingLink:
    """The handler as the link to one member sees it."""

    def __init__(self, handler: GroupingHandler, node_id: str) -> None:
        self._handler = handler
        self._node_id = node_id

    def linked(self) -> None:
        self._handler.linked(self._node_id)

    def told(self, kind: str, properties: Properties) -> None:
        self._handler.told(kind, properties, self._node_id)


def _shared(group: BindingsGroup) -> bool:
    """May several queues have the messages of the group?  Messages of temporary queues and of diverts are not shared."""
    if len(group.bindings) == 1 and isinstance(group.bindings[0], Queue):
        definition = group.bindings[0].definition
        return not (definition.temporary or definition.internal)
    return all(isinstance(binding, (Queue, RemoteBinding)) for binding in group.bindings)
