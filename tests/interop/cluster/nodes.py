"""Brokers of one cluster on loopback: mqbrokers, real Artemis brokers, or both, from the same elements of broker.xml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.instance import Additions
from tests.interop.peers import Peer, make_peer
from tests.interop.processes import free_port

CLUSTER_USER, CLUSTER_PASSWORD = "cluster-user", "cluster-secret"

CORE = """
      <cluster-user>{user}</cluster-user>
      <cluster-password>{password}</cluster-password>
      <connectors>
{connectors}
      </connectors>
      <cluster-connections>
         <cluster-connection name="interop-cluster">
            <connector-ref>node-{own}</connector-ref>
            <retry-interval>200</retry-interval>
            <max-retry-interval>500</max-retry-interval>
{options}
            <message-load-balancing>{load_balancing}</message-load-balancing>
            <max-hops>{max_hops}</max-hops>
{static}
         </cluster-connection>
      </cluster-connections>
{more}
"""


@dataclass(frozen=True)
class Shape:
    """How the brokers are joined.

    ``links`` gives for each broker the numbers of those that it connects to (None: all others).  ``options`` are further elements of the
    cluster connection, ``core`` further elements of ``core`` by broker number, ``address_settings`` further address settings.
    """

    links: Sequence[Sequence[int]] | None = None
    load_balancing: str = "ON_DEMAND"
    max_hops: int = 1
    options: str = ""
    core: Mapping[int, str] = field(default_factory=dict)
    redistribution_delay: int = -1
    address_settings: str = ""
    proxied: bool = False
    """Each broker announces a proxy that tests can close; clients of the tests go to the broker directly."""


class Nodes:
    """The brokers of a cluster, by number; they are not started yet."""

    def __init__(self, kinds: Sequence[str], folder: Path, shape: Shape = Shape()) -> None:
        self.shape = shape
        ports = [free_port() for _ in kinds]
        self.proxies = [CuttingProxy(port) for port in ports] if shape.proxied else []
        announced = [proxy.port for proxy in self.proxies] or ports
        self.brokers: list[Peer] = []
        for number, kind in enumerate(kinds):
            additions = Additions(self._core(number, announced), self._address_settings(), name=f"node-{number}")
            self.brokers.append(make_peer(kind, folder / f"node-{number}", additions, ports[number]))

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for broker in self.brokers:
            broker.kill()
        for proxy in self.proxies:
            proxy.close()

    def told(self, lines: int = 15) -> str:
        """The last lines that each running broker wrote."""
        parts = []
        for broker in self.brokers:
            process = broker.running
            if process is not None:
                parts.append(f"--- {broker.folder.name} ({broker.name})\n" + "\n".join(process.output()[-lines:]))
        return "\n".join(parts)

    def __getitem__(self, number: int) -> Peer:
        return self.brokers[number]

    def start(self) -> None:
        """Start all, in order."""
        for broker in self.brokers:
            broker.start()

    def _core(self, number: int, ports: Sequence[int]) -> str:
        shape = self.shape
        others = [other for other in range(len(ports)) if other != number]
        linked = others if shape.links is None else shape.links[number]
        return CORE.format(
            user=CLUSTER_USER,
            password=CLUSTER_PASSWORD,
            connectors="\n".join(
                f'         <connector name="node-{other}">tcp://127.0.0.1:{port}</connector>' for other, port in enumerate(ports)
            ),
            own=number,
            options=shape.options,
            load_balancing=shape.load_balancing,
            max_hops=shape.max_hops,
            static=_static_connectors(linked),
            more=shape.core.get(number, ""),
        )

    def _address_settings(self) -> str:
        return f"""
         <address-setting match="moving.#">
            <redistribution-delay>{self.shape.redistribution_delay}</redistribution-delay>
         </address-setting>
{self.shape.address_settings}"""


def _static_connectors(numbers: Sequence[int]) -> str:
    """An empty list is no valid element."""
    if not numbers:
        return ""
    references = "".join(f"<connector-ref>node-{number}</connector-ref>" for number in numbers)
    return f"            <static-connectors>{references}</static-connectors>"
