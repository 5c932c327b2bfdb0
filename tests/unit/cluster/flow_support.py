"""Parts of a cluster without a broker around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mqbroker.cluster.remote_queues.flow import Flow, FlowSettings
from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.messaging.routing.awaited import AwaitedQueues
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.wire.properties import BOOLEAN, INT, LONG, NULL, STRING, TypedValue
from tests.support.clock import FakeClock

OWN = "00000000-0000-11ee-8000-00000000000a"
PEER = "00000000-0000-11ee-8000-00000000000b"
OTHER = "00000000-0000-11ee-8000-00000000000c"


class FakeQueue:
    def __init__(self, name: str) -> None:
        self.name = name


class FakeCore:
    """The bindings that are in use, and what was told of them."""

    def __init__(self) -> None:
        self.routing = self
        self.turn = self
        self.clock = FakeClock()
        self.awaited = AwaitedQueues(self.clock, self)  # type: ignore[arg-type]
        self.bound: dict[str, RemoteBinding] = {}
        self.told: list[str] = []

    def bind_remote(self, binding: RemoteBinding) -> None:
        assert binding.cluster_name not in self.bound
        self.bound[binding.cluster_name] = binding
        self.told.append(f"+{binding.queue_name} {binding.distance}")

    def unbind_remote(self, binding: RemoteBinding) -> None:
        assert self.bound.pop(binding.cluster_name) is binding
        self.told.append(f"-{binding.queue_name} {binding.distance}")

    def changed(self) -> None: ...

    def remote_changed(self, binding: RemoteBinding) -> None: ...

    remote_connected = remote_changed

    def run(self, function: Callable[..., object], *args: Any) -> None:
        """As the turn does."""
        function(*args)


class Network:
    """What a broker knows of others."""

    def __init__(self, max_hops: int = 1, address: str = "") -> None:
        self.core = FakeCore()
        self.sent: list[tuple[str, Mapping[str, TypedValue]]] = []
        self.refused: list[str] = []
        self.appeared: list[str] = []
        self.switched: list[RemoteBinding] = []
        core: Any = self.core
        self.ways = Ways(core, self.switched.append)
        interests = Interests(address, max_hops, "activemq.notifications", ("$.artemis.internal.sf.", "activemq.management"))
        self.settings = FlowSettings(OWN, interests, LoadBalancing.ON_DEMAND)

    def flow(self, node_id: str = PEER) -> Flow:
        queue: Any = FakeQueue(f"$.artemis.internal.sf.c.{node_id}")
        return Flow(
            self.settings,
            self.ways,
            queue,
            lambda kind, headers: self.sent.append((kind, headers)),
            lambda binding: self.appeared.append(binding.queue_name),
            self.refused.append,
        )

    @property
    def bound(self) -> dict[str, RemoteBinding]:
        return self.core.bound


def reset() -> dict[str, TypedValue]:
    return {"_AMQ_RESET_QUEUE_DATA": (BOOLEAN, True)}


def complete() -> dict[str, TypedValue]:
    return {"_AMQ_RESET_QUEUE_DATA_COMPLETE": (BOOLEAN, True)}


def binding(
    kind: str = "BINDING_ADDED",
    queue: str = "q",
    *,
    node_id: str = PEER,
    remote_id: int = 7,
    distance: int = 0,
    filter_string: str | None = None,
    address: str | None = None,
) -> dict[str, TypedValue]:
    return {
        "_AMQ_NotifType": (STRING, kind),
        "_AMQ_Address": (STRING, address or queue),
        "_AMQ_ClusterName": (STRING, queue + node_id),
        "_AMQ_RoutingName": (STRING, queue),
        "_AMQ_Binding_ID": (LONG, remote_id),
        "_AMQ_Distance": (INT, distance),
        "_AMQ_FilterString": (NULL, None) if filter_string is None else (STRING, filter_string),
    }


def consumer(kind: str, queue: str = "q", **more: Any) -> dict[str, TypedValue]:
    return binding(f"CONSUMER_{kind}", queue, **more)
