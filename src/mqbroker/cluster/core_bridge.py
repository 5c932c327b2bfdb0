"""Core bridges: the bridges that broker.xml or management asks for, outside of clusters (Artemis manual, "Core Bridges")."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from mqbroker.cluster.links.bridge import Bridge
from mqbroker.cluster.links.bridge_machine import stopping as being_stopped
from mqbroker.cluster.links.forwarder import Forwarder, ForwardingSettings
from mqbroker.cluster.links.outgoing import CoreBridgeMessages, node_id_bytes
from mqbroker.config.masking import codec_key, decode_masked, encode_masked
from mqbroker.config.model.cluster import BridgeConfiguration, TransformerConfiguration
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.transformers import load_transformer
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.server import Server
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.runtime import Runtime
from mqclient.core.session.session import Session
from mqclient.errors import InvalidFilterExpressionError, MQError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.cluster")

Connectors = Callable[[], Sequence[TransportConfiguration]]


def credentials(configuration: BridgeConfiguration, cluster_user: str, cluster_password: str) -> tuple[str, str | None]:
    """User and password of a bridge: without a user the built-in cluster user; the configured cluster user has its own password."""
    user, password = configuration.user, configuration.password
    if user is None:
        return DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD if password is None else password
    if password is None and user == cluster_user:
        return user, cluster_password
    return user, password


class CoreBridge:
    """One of the ``concurrency`` bridges of a configuration (a :class:`~mqbroker.cluster.links.bridge.BridgeEvents`).

    Raises ValueError for a filter or transformer that cannot be used.
    """

    def __init__(
        self, name: str, server: Server, runtime: Runtime, queue: Queue, configuration: BridgeConfiguration, connectors: Connectors
    ) -> None:
        self.name = name
        self.configuration = configuration
        self._server = server
        self._hide_metrics: Callable[[], None] = lambda: None
        self._running = False
        self._restarts = False
        """Was the bridge started again while it stops?"""
        try:
            selector = parse_filter(configuration.filter_string)
        except InvalidFilterExpressionError as error:
            raise ValueError(f"bridge {name}: filter {configuration.filter_string!r}: {error}") from error
        transform = (
            None if configuration.transformer is None else load_transformer(configuration.transformer, f"bridge {configuration.name}")
        )
        node_id = node_id_bytes(server.node_id) if configuration.use_duplicate_detection else None
        messages = CoreBridgeMessages(
            node_id, configuration.min_large_message_size, configuration.forwarding_address, configuration.routing_type, transform
        )
        links = max(configuration.concurrency, 1)
        forwarding = ForwardingSettings(configuration.pending_ack_timeout, configuration.retry_interval, links)
        self.forwarder = Forwarder(server, queue, forwarding, messages, selector, self._queue_deleted)
        options = server.configuration
        user, password = credentials(configuration, options.cluster_user, options.cluster_password)
        settings = replace(configuration, user=user, password=password)
        self.bridge = Bridge(name, runtime, connectors, settings, self.forwarder, self, follows=True)

    # --- for management (a ManagedBridge)

    @property
    def state(self) -> str:
        """stopped, connecting, started, paused, waiting, stopping or failed."""
        return self.bridge.state

    @property
    def linked(self) -> bool:
        return self.bridge.connected_to is not None

    @property
    def messages_pending(self) -> int:
        return self.forwarder.pending

    @property
    def messages_acknowledged(self) -> int:
        return self.forwarder.messages_acknowledged

    def start(self) -> None:
        """Begin to connect; also after it was stopped or has given up."""
        if self.forwarder.queue.deleted:
            raise ValueError(f"bridge {self.name} cannot start: queue {self.configuration.queue_name} is deleted")
        if self.bridge.state == being_stopped.name:
            self._restarts = True
        else:
            self._began()
        self.bridge.start()

    def stop(self) -> Deferred[None]:
        """Let outstanding acknowledgements arrive, and close the link."""
        self._restarts = False
        stopping = self.bridge.state == being_stopped.name
        stopped = self.bridge.stop()
        return stopped if stopping else stopped.addCallback(lambda _: self._ended())

    def pause(self) -> None:
        self.bridge.pause()

    def resume(self) -> None:
        self.bridge.resume()

    # --- events of the bridge

    async def connected(self, factory: SessionFactory) -> None:
        """Does nothing: a core bridge needs no agreement with its target."""

    def started(self, session: Session) -> None: ...

    def attempt_failed(self, error: MQError) -> None: ...

    def lost(self, reason: MQError, disconnect: DisconnectReceived | None) -> None: ...

    def gave_up(self) -> None:
        """Management can start the bridge again."""
        self._ended()

    # --- inside

    def _began(self) -> None:
        if not self._running:
            self._running = True
            self._show_metrics()
            self._server.notifications.part_changed("BRIDGE_STARTED", self.name)

    def _ended(self) -> None:
        if self._running:
            self._running = False
            self._hide_metrics()
            self._server.notifications.part_changed("BRIDGE_STOPPED", self.name)
        if self._restarts:
            self._restarts = False
            self._began()

    def _queue_deleted(self) -> None:
        log.warn("bridge {name} stops: its queue {queue} was deleted", name=self.name, queue=self.configuration.queue_name)
        self.stop()

    def _show_metrics(self) -> None:
        labels = {"bridge": self.name, "queue": self.configuration.queue_name}
        forwarder = self.forwarder
        self._hide_metrics = self._server.gauges.register_all(
            labels,
            (
                "bridge.messages.pending.acknowledgement",
                "Messages of the bridge that its target has not acknowledged",
                lambda: forwarder.pending,
            ),
            (
                "bridge.messages.acknowledged",
                "Messages that the target of the bridge has acknowledged",
                lambda: forwarder.messages_acknowledged,
            ),
            ("bridge.messages.refused", "How often the target of the bridge has refused a message", lambda: forwarder.messages_refused),
            ("bridge.connected", "1 while the bridge has a link to its target", lambda: self.linked),
        )


class CoreBridges:
    """All core bridges of a broker (a :class:`~mqbroker.server.bridge_port.BridgePort`).

    ``connectors`` are the connectors of broker.xml by name.  ``discovery`` takes the name of a discovery group and returns a function for
    the connectors that the group has found, None for an unknown group.
    """

    def __init__(
        self,
        server: Server,
        runtime: Runtime,
        connectors: Mapping[str, TransportConfiguration],
        discovery: Callable[[str], Connectors | None],
    ) -> None:
        self._server = server
        self._runtime = runtime
        self._connectors = connectors
        self._discovery = discovery
        self._bridges: dict[str, CoreBridge] = {}
        self._stopping: list[Deferred[None]] = []
        self._kept: set[str] = set()
        """Configured names of the bridges that the store keeps."""

    def deploy(self, configurations: Iterable[BridgeConfiguration]) -> None:
        """Make and start the bridges of broker.xml, except those that management has made.

        A bridge that cannot be made is left out, with a line in the log that says why.
        """
        for configuration in configurations:
            if configuration.name in self._kept:
                log.info(
                    "bridge {name} is used as management has created it; the bridge of the same name in broker.xml is ignored",
                    name=configuration.name,
                )
                continue
            try:
                self.create(configuration)
            except ValueError as error:
                log.error("{error}; the bridge is not deployed", error=str(error))

    def create_kept(self, configuration: BridgeConfiguration) -> None:
        """As :meth:`create`, and keep the bridge over restarts."""
        text = json.dumps(_encoded(configuration, self._key()), sort_keys=True)
        self.create(configuration)
        self._kept.add(configuration.name)
        batch = self._server.store.begin()
        batch.put_setting(KEPT_BRIDGE_KIND, configuration.name, text)
        self._server.store.commit(batch)

    def restore(self, kept: Mapping[str, str]) -> None:
        """Make and start the bridges kept by :meth:`create_kept`, by name.  A bridge that cannot be made is logged and left out."""
        for name, text in kept.items():
            self._kept.add(name)
            try:
                self.create(_decoded(json.loads(text), self._key()))
            except (ValueError, TypeError, KeyError) as error:
                log.error("bridge {name}, which was created by management, is not deployed: {error}", name=name, error=str(error))

    def _key(self) -> str:
        """For the passwords of kept bridges."""
        return codec_key(self._server.configuration.password_codec, lambda name: None)

    def create(self, configuration: BridgeConfiguration) -> None:
        """Make and start a bridge.  Raises ValueError with the reason when the bridge cannot be made."""
        name = configuration.name
        count = max(configuration.concurrency, 1)
        names = [name] if count == 1 else [f"{name}-{number}" for number in range(count)]
        if any(each in self._bridges for each in names):
            raise ValueError(f"bridge {name} exists already")
        queue = self._server.messaging.core.queues.get(configuration.queue_name)
        if queue is None:
            raise ValueError(f"bridge {name}: there is no queue {configuration.queue_name}")
        connectors = self._places(configuration)
        made = [CoreBridge(each, self._server, self._runtime, queue, configuration, connectors) for each in names]
        for bridge in made:
            self._bridges[bridge.name] = bridge
            bridge.start()

    def destroy(self, name: str) -> bool:
        """Stop a bridge for good, with its siblings when several work under one configured name; False when there is none."""
        found = [bridge for bridge in self._bridges.values() if name in (bridge.name, bridge.configuration.name)]
        for bridge in found:
            del self._bridges[bridge.name]
            self._stop(bridge)
        kept = self._kept.intersection({name}, {bridge.configuration.name for bridge in found})
        for each in kept:
            self._kept.discard(each)
            batch = self._server.store.begin()
            batch.delete_setting(KEPT_BRIDGE_KIND, each)
            self._server.store.commit(batch)
        return bool(found or kept)

    def _stop(self, bridge: CoreBridge) -> None:
        stopping = bridge.stop()
        if not stopping.called:
            self._stopping.append(stopping)
            stopping.addCallback(lambda _: self._stopping.remove(stopping))

    def names(self) -> list[str]:
        return list(self._bridges)

    def find(self, name: str) -> CoreBridge | None:
        return self._bridges.get(name)

    def stop(self) -> Deferred[Any]:
        """Stop all bridges; completes when outstanding acknowledgements have arrived or were waited for long enough."""
        return DeferredList([*self._stopping, *(bridge.stop() for bridge in self._bridges.values())], consumeErrors=True)

    def _places(self, configuration: BridgeConfiguration) -> Connectors:
        name = configuration.name
        if configuration.static_connectors:
            missing = [each for each in configuration.static_connectors if each not in self._connectors]
            if missing:
                known = ", ".join(sorted(self._connectors)) or "none"
                raise ValueError(f"bridge {name}: there is no connector {missing[0]}; known: {known}")
            static = [self._connectors[each] for each in configuration.static_connectors]
            return lambda: static
        group = configuration.discovery_group
        if group is None:
            raise ValueError(f"bridge {name} has neither static connectors nor a discovery group")
        found = self._discovery(group)
        if found is None:
            raise ValueError(f"bridge {name}: there is no discovery group {group}")
        return found


def _encoded(configuration: BridgeConfiguration, key: str) -> dict[str, Any]:
    """The configuration as it is kept, with the password masked."""
    values = asdict(configuration)
    password = values.pop("password")
    if password is not None:
        values["masked_password"] = encode_masked(password, key)
    return values


def _decoded(values: dict[str, Any], key: str) -> BridgeConfiguration:
    """Raises ValueError, TypeError or KeyError."""
    masked = values.pop("masked_password", None)
    if masked is not None:
        values["password"] = decode_masked(masked, key)
    transformer = values["transformer"]
    values["static_connectors"] = tuple(values["static_connectors"])
    values["transformer"] = None if transformer is None else TransformerConfiguration(**transformer)
    return BridgeConfiguration(**values)
