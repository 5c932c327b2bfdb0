"""Scale-down: a broker that leaves gives everything that it has kept to another one (Artemis manual, "High Availability and Failover").

Nothing is lost where that is not possible, or is interrupted: what the other broker does not have stays on the disk, and goes with the next
orderly stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.cluster.links.outgoing import StoreAndForward, link_id, node_id_bytes
from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.config.model.internal_names import store_and_forward_prefix
from mqbroker.ha.branches import move_branch
from mqbroker.ha.duplicate_ids import DuplicateIdMove
from mqbroker.ha.messages import Encode, ForwardedMessages, QueueMessages
from mqbroker.ha.moving import IN_FLIGHT_MESSAGES_MAX, QueueMove
from mqbroker.ha.target import Target
from mqbroker.messaging.delivery.branches import xid_text
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.remote import NODE_ID_LENGTH
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.core.connection.connection import describe
from mqclient.core.runtime import Runtime, sleep
from mqclient.core.settings import LocatorSettings
from mqclient.errors import MQError, NotConnectedError
from mqclient.wire.primitives import TransportConfiguration
from mqclient.xa import XAError

if TYPE_CHECKING:
    from mqbroker.server.server import Server

FIND_TIMEOUT_MS = 10_000
"""How long one broker may take to answer before another one is asked."""

RECONNECT_ATTEMPTS = 30
"""Attempts to reach a target that was lost on the way, without a message moved in between."""

QUEUE_ATTEMPTS = 5
"""How often a link may end with the same queue, without a message moved, before that queue stays."""

RECONNECT_SECONDS = 1.0
PROGRESS_SECONDS = 5.0
ROUNDS_MAX = 10
"""Rounds over all queues of a broker that leaves: messages may come to a queue that was moved already, as dead letters do."""

log = Logger(namespace="mqbroker.ha")


@dataclass(slots=True)
class Progress:
    """The numbers of what has been moved up to now; ``queues`` counts messages by the name of their queue."""

    queues: dict[str, int] = field(default_factory=dict)
    branches: int = 0
    duplicate_ids: int = 0

    @property
    def messages(self) -> int:
        return sum(self.queues.values())


class ScaleDown:
    """The work of a broker that leaves: finds a target, and moves queues, prepared XA branches and duplicate ids to it.

    ``places()`` are the connectors of possible targets, the best first; it is called while the broker still is a member of its cluster.
    ``settings`` are those of the connection to the target, which ends when it fails.
    """

    def __init__(
        self,
        server: Server,
        runtime: Runtime,
        configuration: ScaleDownConfiguration,
        settings: LocatorSettings,
        places: Callable[[], Sequence[TransportConfiguration]],
    ) -> None:
        options = server.configuration
        self.progress = Progress()
        self.complete = False
        """Has everything been moved that the target takes?"""
        self.problem = ""
        """Why there is no target."""
        self.target: Target | None = None
        self._server = server
        self._runtime = runtime
        self._configuration = configuration
        self._settings = replace(settings, call_timeout=min(settings.call_timeout, FIND_TIMEOUT_MS), reconnect_attempts=0)
        self._places = places
        self._credentials = ClusterCredentials(options.cluster_user, options.cluster_password)
        self._node_id = node_id_bytes(server.node_id)
        interval = configuration.commit_interval
        self._window = min(interval, IN_FLIGHT_MESSAGES_MAX) if interval > 0 else IN_FLIGHT_MESSAGES_MAX
        self._prefix = store_and_forward_prefix(options.internal_naming_prefix)
        self._move: QueueMove | None = None
        self._at: str | None = None
        """The queue that is moved, also after the link was lost with it."""
        self._left: dict[str, str] = {}
        """The reason why a queue stays here, by the name of the queue."""
        self._members: set[bytes] = set()
        self._cut = False
        self._report: Cancellable | None = None

    # --- the target

    async def find(self) -> str | None:
        """Connect to a target, unless there is one.  Returns its node id; None, with :attr:`problem`, when no broker can be the target."""
        if self.target is not None and self.target.usable:
            return self.target.node_id
        failures: list[str] = []
        self._members = self._known_members()
        for place in self._places():
            try:
                self.target = await self._connect(place)
            except (MQError, ValueError) as error:  # ValueError: the connector cannot be used
                failures.append(f"{describe(place)}: {error}")
                continue
            log.info("scale-down: messages go to {node} at {place}", node=self.target.node_id, place=describe(place))
            return self.target.node_id
        self.problem = "; ".join(failures) or "no other broker is known that may take them"
        return None

    def tell_problem(self) -> None:
        """Say why there is no target."""
        log.error("AMQ222181: scale-down is not possible, messages stay on the disk of this broker: {reason}", reason=self.problem)

    def leave(self) -> None:
        """End the connection to the target, if there is one."""
        if self.target is not None:
            self.target.leave()

    def _known_members(self) -> set[bytes]:
        """The node ids of all members, also of those that are down: a store-and-forward queue waits for these."""
        cluster = self._server.cluster
        connections = () if cluster is None else cluster.connections.values()
        names = {member.node_id for connection in connections for member in connection.topology}
        names |= {queue[-NODE_ID_LENGTH:] for queue in self._server.messaging.core.queues if queue.startswith(self._prefix)}
        return set(_node_ids(names))

    async def _connect(self, place: TransportConfiguration) -> Target:
        return await Target.connect(self._runtime, place, self._settings, self._credentials, self._may_take)

    def _may_take(self, node_id: str, group: str | None) -> str | None:
        if node_id == self._server.node_id:
            return "it is this broker itself"
        wanted = self._configuration.group_name
        if wanted is not None and group != wanted:
            return f"its scale-down group is {group}, not {wanted}"
        if self.target is not None and node_id != self.target.node_id:
            return f"another broker is there now, {node_id}"
        return None

    def cut_short(self) -> None:
        """Send nothing more; everything that has not been moved stays on the disk."""
        if self._cut:
            return
        self._cut = True
        log.warn("scale-down was cut short: messages that have not been moved stay on the disk of this broker")
        self._interrupt(NotConnectedError("scale-down was cut short"))

    def _interrupt(self, error: MQError) -> None:
        if self._move is not None:
            self._move.stop(error)
        elif self._cut and self.target is not None:
            self.target.leave()

    # --- the whole work

    def run(self) -> Deferred[None]:
        """Move everything; no client is served any more.  Completes, and never fails, when nothing more can be moved."""
        return Deferred.fromCoroutine(self._run())

    async def _run(self) -> None:
        clock = self._server.clock
        began = clock.monotonic()
        self._report = clock.call_later(PROGRESS_SECONDS, self._tell_progress)
        try:
            self.complete = await self._insist()
        except Exception:
            log.failure("scale-down failed; messages that have not been moved stay on the disk of this broker")
        finally:
            self._report.cancel()
        self.leave()
        self._tell_end(clock.monotonic() - began)

    async def _insist(self) -> bool:
        """Go on with the same target after a failure, as long as the target comes back in time.  Returns whether everything was moved."""
        failures = 0
        while not self._cut:
            before = self.progress.messages
            target = self.target
            assert target is not None
            self._at = None
            try:
                if not target.usable:
                    target = self.target = await self._connect(target.connector)
                await self._move_everything(target)
                await target.close()
                return True
            except MQError as error:
                target.leave()
                if self._cut:
                    break
                failures = 1 if self.progress.messages > before else failures + 1
                if self._at is not None and failures >= QUEUE_ATTEMPTS:
                    # One queue that cannot be sent, or is refused, must not keep the others here.
                    self._left[self._at] = str(error)
                    failures = 0
                if failures > RECONNECT_ATTEMPTS:
                    log.error("AMQ222181: scale-down ends before everything is moved: {error}", error=str(error))
                    break
                log.warn("scale-down is interrupted: {error}; the target is tried again", error=str(error))
                await sleep(self._runtime, RECONNECT_SECONDS)
        return False

    async def _move_everything(self, target: Target) -> None:
        target.on_lost(self._interrupt)
        await self._make_queues(target)
        for _ in range(ROUNDS_MAX):
            before = self.progress.messages
            for queue in self._queues():
                await self._move_queue(target, queue)
            if self.progress.messages == before:
                break
        await self._move_branches(target)
        await self._move_duplicate_ids(target)
        target.announce(self._server.node_id)

    # --- queues

    async def _make_queues(self, target: Target) -> None:
        """Make all durable queues at the target, also empty ones: other brokers may hold messages for them."""
        for queue in sorted(self._server.messaging.core.queues.values(), key=lambda each: each.queue_id):
            definition = queue.definition
            if queue.deleted or definition.internal or not definition.durable or queue.name in self._left:
                continue
            self._check_cut()
            try:
                await target.make_queue(definition)
            except MQError as error:
                if not target.usable:
                    raise
                self._left[queue.name] = str(error)

    def _queues(self) -> Iterator[Queue]:
        """The queues with messages that are to be moved, always in the same order."""
        queues = self._server.messaging.core.queues.values()
        for queue in sorted(queues, key=lambda each: (each.definition.address, each.queue_id)):
            if queue.definition.temporary or queue.name in self._left or queue.deleted:
                continue
            if queue.references.count or queue.scheduled.count or queue.paged:
                yield queue

    async def _move_queue(self, target: Target, queue: Queue) -> None:
        try:
            encode = await self._encoder(target, queue)
        except MQError as error:
            if not target.usable:
                raise
            self._left[queue.name] = str(error)
            return
        self._check_cut()
        if queue.log is not None and queue.log.readers and queue.name not in self.progress.queues:
            log.warn(
                "scale-down: queue {queue} has readers ({readers}); its messages go to the target, but the readers do not",
                queue=queue.name,
                readers=", ".join(queue.log.readers),
            )
        move = self._move = QueueMove(self._server.messaging, queue, encode, target.session, self._window)
        self._at = queue.name
        moved = self.progress.queues.get(queue.name, 0)
        try:
            await move.run()
            self._at = None
        finally:
            self._move = None
            self.progress.queues[queue.name] = moved + move.moved
        if move.kept:
            self._left[queue.name] = f"the target refuses {move.kept} messages"
        elif queue.paged:
            self._left[queue.name] = "its pages cannot be read"

    async def _encoder(self, target: Target, queue: Queue, acknowledged: bool = False) -> Encode:
        size = self._settings.min_large_message_size
        if not queue.name.startswith(self._prefix):
            return QueueMessages(queue, await target.queue_id(queue.definition), self._node_id, size, acknowledged=acknowledged)
        third = queue.name[-NODE_ID_LENGTH:]
        if third == target.node_id:
            # With the duplicate ids of the bridge, which may have sent some of the messages already.
            own_id = link_id(self._server.node_id, queue.name, self._server.configuration.cluster_connections)
            bridged = StoreAndForward(queue.name, own_id, size)
            return lambda reference: bridged(reference.message)
        try:
            return ForwardedMessages(queue, node_id_bytes(third), self._node_id, size)
        except ValueError as error:
            raise NotConnectedError(str(error)) from error

    def _check_cut(self) -> None:
        if self._cut:
            raise NotConnectedError("scale-down was cut short")

    # --- branches and duplicate ids

    async def _move_branches(self, target: Target) -> None:
        branches = self._server.messaging.branches
        prepared = branches.prepared()
        if not prepared:
            return
        session = await target.open_branch_session(self._credentials)
        try:
            known = {xid.to_wire() for xid in await session.xa_resource.recover()}
        except XAError as error:
            raise NotConnectedError(str(error)) from error
        for branch in prepared:
            self._check_cut()
            try:
                if branch.xid not in known:
                    await move_branch(session, branch, partial(self._encoder, target))
            except (XAError, MQError) as error:
                if not target.usable:
                    raise NotConnectedError(str(error)) from error
                log.warn("XA branch {xid} cannot be moved: {error}", xid=xid_text(branch.xid), error=str(error))
                continue
            self._server.turn.run(branches.moved, branch)
            self.progress.branches += 1

    async def _move_duplicate_ids(self, target: Target) -> None:
        move = DuplicateIdMove(target, self._members)
        for cache in self._server.messaging.core.duplicate_id_caches():
            self._check_cut()
            await move.move(cache)
        self.progress.duplicate_ids = move.moved

    # --- the log

    def _tell_progress(self) -> None:
        self._report = self._server.clock.call_later(PROGRESS_SECONDS, self._tell_progress)
        moved = self.progress.messages + (0 if self._move is None else self._move.moved)
        log.info("scale-down: {count} messages have been moved, {left} are waiting", count=moved, left=self._waiting())

    def _waiting(self) -> int:
        return sum(queue.total_count for queue in self._server.messaging.core.queues.values() if not queue.definition.temporary)

    def _tell_end(self, seconds: float) -> None:
        progress = self.progress
        for name, count in progress.queues.items():
            log.info("scale-down: {count} messages of queue {queue} have been moved", count=count, queue=name)
        core = self._server.messaging.core
        lost = sum(queue.message_count for queue in core.queues.values() if queue.definition.temporary)
        if lost:
            log.warn("scale-down: {count} messages of temporary queues are lost with this broker", count=lost)
        for name, reason in self._left.items():
            count = core.queues[name].message_count if name in core.queues else 0
            log.warn("scale-down: queue {queue} stays here with {count} messages: {reason}", queue=name, count=count, reason=reason)
        left, branches = self._waiting(), len(self._server.messaging.branches.prepared())
        outcome = "complete"
        if not self.complete or left or branches:
            outcome = f"not complete, {left} messages{f' and {branches} XA branches' if branches else ''} stay on the disk of this broker"
        log.info(
            "scale-down to {node}: {count} messages of {queues} queues, {branches} XA branches and {ids} duplicate ids "
            "in {seconds:.1f} s; {outcome}",
            node="nobody" if self.target is None else self.target.node_id,
            count=progress.messages,
            queues=len(progress.queues),
            branches=progress.branches,
            ids=progress.duplicate_ids,
            seconds=seconds,
            outcome=outcome,
        )


def _node_ids(names: Iterable[str]) -> Iterator[bytes]:
    """The node ids among ``names``: a client may have named its queue as if it were one of those that wait for a member."""
    for name in names:
        try:
            yield node_id_bytes(name)
        except ValueError:
            continue
