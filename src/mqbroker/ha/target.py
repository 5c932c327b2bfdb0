"""The broker that takes over the messages of a leaving broker: the connection to it, and the questions to it.

Source: the Artemis manual, chapter "High Availability and Failover"; ``protocol-spec/``, chapters "Cluster packets" and "Management".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mqbroker.cluster.links.opening import LossListener, show_password
from mqbroker.messaging.queues.definitions import QueueDefinition
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime, new_uuid
from mqclient.core.settings import LocatorSettings, QueueConfiguration
from mqclient.errors import IllegalStateError, MQError, NotConnectedError, QueueExistsError
from mqclient.management import Management
from mqclient.wire.packets import ScaleDownAnnouncement
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.session.session import Session


class Target:
    """A connection to the broker that takes the messages over.  Its methods raise MQError."""

    def __init__(self, locator: Locator, factory: SessionFactory, session: Session) -> None:
        self.node_id = factory.node_id or ""
        self.connector = factory.connector
        self.session = session
        """The session for the messages; it ends with its connection."""
        self._locator = locator
        self._factory = factory
        self._management: Management | None = None

    @classmethod
    async def connect(
        cls,
        runtime: Runtime,
        connector: TransportConfiguration,
        settings: LocatorSettings,
        credentials: ClusterCredentials,
        may_take: Callable[[str, str | None], str | None],
    ) -> Target:
        """Connect, and show the cluster's password.

        ``may_take(node id, scale-down group)`` gives the reason why a broker cannot be the target, None when it can.
        """
        locator = Locator(runtime, [connector], settings, greet=lambda connection: show_password(connection, credentials), follow=False)
        try:
            factory = await locator.create_session_factory()
            session = await factory.create_session(credentials.user, credentials.password, pre_acknowledge=True)
            session.open_encoded_sends()
            target = cls(locator, factory, session)
            await target._learn_node_id()
            member = locator.topology.get(target.node_id)
            reason = may_take(target.node_id, None if member is None else member.scale_down_group_name)
            if reason is not None:
                raise NotConnectedError(f"the broker at {describe(connector)} cannot be the target: {reason}")
        except BaseException:
            locator.leave()
            raise
        return target

    async def _learn_node_id(self) -> None:
        """A broker that is reached at another place than the announced one, as within a process, is asked for it."""
        if not self.node_id:
            self.node_id = str(await (await self._managed()).attribute("broker", "NodeID"))

    @property
    def usable(self) -> bool:
        return not (self.session.closed or self._factory.closed)

    def on_lost(self, lost: Callable[[MQError], object]) -> None:
        """``lost`` is called when the connection fails."""
        self._factory.add_failure_listener(LossListener(lost))

    async def open_branch_session(self, credentials: ClusterCredentials) -> Session:
        """A session for branches of XA transactions."""
        session = await self._factory.create_session(credentials.user, credentials.password, xa=True)
        session.open_encoded_sends()
        return session

    async def make_queue(self, definition: QueueDefinition) -> bool:
        """Make the queue if there is none of its name.  Returns whether it takes messages: one that is disabled drops them.

        Raises IllegalStateError when it exists with another address or routing type.
        """
        session = self.session
        found = await session.queue_query(definition.name)
        if not found.exists:
            try:
                await session.create_queue(queue_configuration(definition))
                return True
            except QueueExistsError:
                # A client of the target was quicker, and its queue may be the same.
                found = await session.queue_query(definition.name)
                if not found.exists:
                    raise
        if (found.address, found.routing_type) != (definition.address, definition.routing_type):
            raise IllegalStateError(
                f"its queue {definition.name} is another one: on address {found.address}, with routing type {found.routing_type}"
            )
        return found.enabled is not False

    async def queue_id(self, definition: QueueDefinition) -> int:
        """The number of the queue of this name at the target, made if there is none.

        Raises IllegalStateError as :meth:`make_queue`, and for a queue that would drop messages.
        """
        if not await self.make_queue(definition):
            raise IllegalStateError(f"its queue {definition.name} is disabled, and takes no messages")
        number = await (await self._managed()).attribute(f"queue.{definition.name}", "ID")
        if isinstance(number, bool) or not isinstance(number, int):
            raise IllegalStateError(f"it gives {number!r} as the number of its queue {definition.name}")
        return number

    async def remember(self, cache: str, duplicate_ids: Sequence[str | list[int]]) -> None:
        """Add duplicate ids to a cache of the target.  Raises ManagementError when the target refuses them."""
        await (await self._managed()).invoke("broker", "updateDuplicateIdCache", cache, list(duplicate_ids))

    async def exclusively_diverted(self) -> list[str]:
        """The addresses of the target's exclusive diverts; they may have wildcards."""
        management = await self._managed()
        names: list[str] = await management.attribute("broker", "DivertNames")
        exclusive = [f"divert.{name}" for name in names if await management.attribute(f"divert.{name}", "Exclusive")]
        return [str(await management.attribute(divert, "Address")) for divert in exclusive]

    def announce(self, node_id: str) -> None:
        """The target has everything: clients of ``node_id`` may fail over to it."""
        connection = self._factory.connection
        if connection is not None:
            connection.cluster_channel.send(ScaleDownAnnouncement(self.node_id, node_id))

    async def close(self) -> None:
        """Close in order: everything that was sent has arrived when this is done."""
        await self._locator.close()

    def leave(self) -> None:
        """Close at once."""
        self._locator.leave()

    async def _managed(self) -> Management:
        if self._management is None:
            replies = f"activemq.management.{new_uuid(self.session.runtime)}"
            self._management = await Management.open(self.session, replies, self.session.settings.call_timeout)
        return self._management


def queue_configuration(definition: QueueDefinition) -> QueueConfiguration:
    """The request to make the same queue at another broker."""
    return QueueConfiguration(
        name=definition.name,
        address=definition.address,
        routing_type=definition.routing_type,
        filter_string=definition.filter_string,
        durable=definition.durable,
        auto_created=definition.auto_created,
        max_consumers=definition.max_consumers,
        purge_on_no_consumers=definition.purge_on_no_consumers,
        exclusive=definition.exclusive,
        last_value=definition.last_value,
        last_value_key=definition.last_value_key,
        ring_size=definition.ring_size,
        non_destructive=definition.non_destructive,
        consumers_before_dispatch=definition.consumers_before_dispatch,
        delay_before_dispatch=definition.delay_before_dispatch,
        group_rebalance=definition.group_rebalance,
        group_rebalance_pause_dispatch=definition.group_rebalance_pause_dispatch,
        group_buckets=definition.group_buckets,
        group_first_key=definition.group_first_key,
        auto_delete=definition.auto_delete,
        auto_delete_delay=definition.auto_delete_delay,
        auto_delete_message_count=definition.auto_delete_message_count,
    )
