"""A replica on one active broker: it registers, repeats the active broker's writes, and learns when it may take over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.cluster.links.opening import LossListener, ask_product
from mqbroker.ha.proof.copy_record import CopyRecord, OtherCopy
from mqbroker.ha.replication.connectors import connector_text
from mqbroker.ha.replication.packets import (
    FAIL_OVER,
    VERSION,
    Answered,
    Changes,
    Complete,
    Completed,
    Hello,
    Ready,
    Said,
    ScheduledFailover,
    Welcome,
    packet_frame,
    read_packet,
)
from mqbroker.ha.replication.questions import Questions
from mqbroker.server.transport.cluster_channel import PRODUCT, ClusterCredentials
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime, wait_at_most
from mqclient.errors import ConnectionTimedOutError, MalformedPacketError, MQError, NotConnectedError
from mqclient.wire.frames import HEADER_SIZE, REPLICATION_CHANNEL
from mqclient.wire.packets import BackupRegistration, BackupRegistrationFailed, NodeAnnounce

if TYPE_CHECKING:
    from mqbroker.ha.proof.copy_keeper import Copying
    from mqbroker.storage.mirror.changes import Buffer
    from mqbroker.storage.mirror.replica_folder import ReplicaFolder
    from mqclient.core.api import LocatorSettings
    from mqclient.core.connection.connection import Connection
    from mqclient.protocol.topology import Topology
    from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.ha")


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a replica.  ``node_id`` is empty for one that takes any node."""

    credentials: ClusterCredentials
    connector: TransportConfiguration
    wants_failback: bool
    copy_id: str
    node_id: str
    group_name: str | None


class FollowingOwner(Protocol):
    """The passive broker."""

    def begin_copy(self, welcome: Welcome) -> Deferred[Copying]:
        """Note durably that the former files are of no use, and take the node id of the active broker."""

    def make_folder(self, answer: Callable[[int], object], failed: Callable[[str], object]) -> ReplicaFolder: ...

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        """The answer to a question of the proof.  Raises MalformedPacketError."""

    def in_sync(self) -> None:
        """The copy is complete."""

    def take_over(self) -> None:
        """The active broker has written everything, and lets this one go on."""

    def lost(self, reason: str) -> None:
        """The connection to an active broker that had taken this replica is over."""


class Following:
    """One attempt to be the replica of the broker at ``place``, from the connection to its end."""

    def __init__(
        self,
        runtime: Runtime,
        settings: LocatorSettings,
        topology: Topology,
        place: TransportConfiguration,
        registration: Registration,
        owner: FollowingOwner,
    ) -> None:
        self.refusal: BackupRegistrationFailed | None = None
        self.taken = 0
        """Bytes of the stream of changes."""
        self._runtime = runtime
        self._settings = settings
        self._topology = topology
        self._place = place
        self._registration = registration
        self._owner = owner
        self._connection: Connection | None = None
        self._welcomed: Any = None
        """Wakes who waits for the answer to the registration; None before that is sent."""
        self._welcome: Welcome | None = None
        self._other: OtherCopy | None = None
        """The active copy, as it is noted when this one is complete."""
        self._over: Any = runtime.create_future()
        self._copying: Copying | None = None
        self._folder: ReplicaFolder | None = None
        self._is_completing = False
        self._is_leaving = False
        self._questions = Questions(self._say, owner.answer)

    async def run(self) -> None:
        """Connect, and stay connected as long as possible.  Raises MQError when the broker there does not take this replica."""
        locator = Locator(self._runtime, [self._place], self._settings, topology=self._topology, greet=self._greet, follow=False)
        try:
            factory = await locator.create_session_factory()
            factory.add_failure_listener(LossListener(self._lost))
            if factory.closed:
                self._lost(NotConnectedError("the connection was lost"))
            await self._over
        finally:
            self._questions.end("the connection to the other copy is over")
            await locator.close()

    def end(self) -> None:
        """Leave the active broker."""
        self._is_leaving = True
        if self._welcomed is not None:
            self._runtime.reject(self._welcomed, self._stops())
        self._runtime.resolve(self._over, None)

    @staticmethod
    def _stops() -> NotConnectedError:
        return NotConnectedError("this broker stops")

    # --- registration

    async def _greet(self, connection: Connection) -> None:
        registration = self._registration
        if await ask_product(connection, registration.credentials, PRODUCT) != PRODUCT:
            raise NotConnectedError(f"the broker at {describe(self._place)} has no replicas of this kind")
        if self._is_leaving:
            raise self._stops()
        self._welcomed = self._runtime.create_future()
        self._connection = connection
        connection.open_channel(REPLICATION_CHANNEL, self)
        connection.cluster_channel.listen(BackupRegistrationFailed, self._refused)
        connection.cluster_channel.on_close = partial(self._runtime.reject, self._welcomed)
        credentials = registration.credentials
        connection.cluster_channel.send(
            BackupRegistration(credentials.user, credentials.password, registration.wants_failback, registration.connector)
        )
        self._say(Hello(VERSION, registration.copy_id, registration.node_id))
        late = ConnectionTimedOutError(f"the broker at {describe(self._place)} has neither taken nor refused this replica in time")
        await wait_at_most(self._runtime, self._welcomed, self._settings.call_timeout / 1000, late)

    def _refused(self, packet: BackupRegistrationFailed) -> None:
        self.refusal = packet
        place = describe(self._place)
        self._runtime.reject(self._welcomed, NotConnectedError(f"the broker at {place} does not take this replica ({packet.problem})"))

    # --- what the connection tells

    def frame_received(self, packet_type: int, frame: bytes) -> None:
        packet = read_packet(packet_type, memoryview(frame)[HEADER_SIZE:])
        if isinstance(packet, Changes):
            self._changed(packet.data)
        elif isinstance(packet, Welcome):
            self._accepted(packet)
        elif isinstance(packet, Complete):
            self._complete(packet)
        elif isinstance(packet, ScheduledFailover):
            if packet.value == FAIL_OVER and self._is_completing and not self._is_leaving:
                self._owner.take_over()
        elif not self._questions.received(packet):
            raise MalformedPacketError(type(packet).__name__, "type", "an active broker does not send it")

    def flush_confirmations(self) -> None:
        """Nothing to do: this channel has no confirmations."""

    def link_paused(self) -> None:
        """Answers are few and short."""

    def link_resumed(self) -> None:
        """See :meth:`link_paused`."""

    # --- the copy

    def _changed(self, data: Buffer) -> None:
        if self._folder is not None:
            self.taken += len(data)
            self._folder.take(data)
        elif not self._is_leaving:
            raise MalformedPacketError("Changes", "data", "the stream of changes has not begun")

    def _accepted(self, packet: Welcome) -> None:
        if self._welcome is not None or packet.version != VERSION:
            raise MalformedPacketError("Welcome", "version", "it comes twice, or is not known")
        if not packet.node_id or self._registration.node_id not in ("", packet.node_id):
            raise MalformedPacketError("Welcome", "node_id", f"{packet.node_id[:100]!r} is not {self._registration.node_id}")
        try:
            self._other = OtherCopy(packet.copy_id, connector_text(packet.connector))
        except ValueError as error:
            raise MalformedPacketError("Welcome", "copy_id", str(error)) from error
        self._welcome = packet
        log.info("AMQ221109: replica of the node {node}, active at {place}", node=packet.node_id, place=describe(self._place))
        begun = self._owner.begin_copy(packet)
        begun.addCallback(self._begun).addErrback(lambda failure: self._fail(failure.getErrorMessage()))
        self._runtime.resolve(self._welcomed, None)

    def _begun(self, copying: Copying) -> None:
        if self._is_leaving:
            return
        self._copying = copying
        self._folder = self._owner.make_folder(self._answer, self._fail)
        self._say(Ready())

    def _answer(self, number: int) -> None:
        """Clients of the active broker may wait for this one."""
        if self._connection is not None:
            self._connection.write_frame_at_once(packet_frame(Answered(number)))

    def _complete(self, packet: Complete) -> None:
        if self._copying is None or self._other is None or self._is_completing:
            raise MalformedPacketError("Complete", "sequence", "there is no copy that could be complete")
        if self._is_leaving:
            return
        self._is_completing = True
        completed = self._copying.complete(packet.sequence, self._other)
        completed.addCallback(self._completed).addErrback(lambda failure: self._fail(failure.getErrorMessage()))

    def _completed(self, record: CopyRecord) -> None:
        if self._is_leaving:
            return
        log.info("AMQ221024: this replica is in sync, sequence {sequence}", sequence=record.sequence)
        self._say(Completed())
        welcome, connection, registration = self._welcome, self._connection, self._registration
        assert welcome is not None and connection is not None
        now = self._runtime.wall_clock_ms()
        announcement = NodeAnnounce(welcome.node_id, registration.group_name, True, now, registration.connector, None, None)
        connection.cluster_channel.send(announcement)
        self._owner.in_sync()

    def leave_folder(self, done: Callable[[], object]) -> None:
        """Answer the active broker no more; ``done`` is called when the files are closed.  The connection stays, for questions."""
        self._is_leaving = True
        if self._folder is None:
            done()
        else:
            folder, self._folder = self._folder, None
            folder.close(done)

    # --- questions, and the end

    def ask(self, handler: str, question: bytes) -> Deferred[bytes] | None:
        """Ask the active broker; None without a connection to it, and the result fails with UnreachableError when the connection ends."""
        return None if self._welcome is None or self._questions.over else self._questions.ask(handler, question)

    def _say(self, packet: Said) -> None:
        if self._connection is not None:
            self._connection.write_frame(packet_frame(packet))

    def _fail(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.fail(MQError(f"this replica cannot go on: {reason}"))

    def _lost(self, error: MQError) -> None:
        self._questions.end(f"the connection to the other copy is lost: {error}")
        if self._welcome is not None and not self._runtime.is_done(self._over):
            self._owner.lost(str(error))
        self._runtime.resolve(self._over, None)
