"""Brokers of one cluster on loopback: mqbrokers, real Artemis brokers, or both, from the same elements of broker.xml."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.interop.cluster.stores import Stores, make_stores
from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.instance import Additions
from tests.interop.peers import Peer, make_peer
from tests.interop.processes import free_port

CLUSTER_USER, CLUSTER_PASSWORD = "cluster-user", "cluster-secret"
GROUP_ADDRESS = "239.255.77.30"

CORE = """
      <cluster-user>{user}</cluster-user>
      <cluster-password>{password}</cluster-password>
      <connectors>
{connectors}
      </connectors>
      <cluster-connections>
{connections}
      </cluster-connections>
{more}
"""

CONNECTION = """\
         <cluster-connection name="{name}">
{address}
            <connector-ref>node-{own}</connector-ref>
            <retry-interval>200</retry-interval>
            <max-retry-interval>500</max-retry-interval>
{options}
            <message-load-balancing>{load_balancing}</message-load-balancing>
            <max-hops>{max_hops}</max-hops>
{members}
         </cluster-connection>
"""

DISCOVERY = """
      <broadcast-groups>
         <broadcast-group name="told">
            <local-bind-address>127.0.0.1</local-bind-address>
            <group-address>{address}</group-address>
            <group-port>{port}</group-port>
            <broadcast-period>500</broadcast-period>
            <connector-ref>node-{own}</connector-ref>
         </broadcast-group>
      </broadcast-groups>
      <discovery-groups>
         <discovery-group name="heard">
            <local-bind-address>127.0.0.1</local-bind-address>
            <group-address>{address}</group-address>
            <group-port>{port}</group-port>
            <refresh-timeout>5000</refresh-timeout>
         </discovery-group>
      </discovery-groups>
"""


@dataclass(frozen=True)
class Shape:
    """How the brokers are joined.

    ``links`` gives for each broker the numbers of those that it connects to (None: all others).  ``options`` are further elements of each
    cluster connection, ``core`` further elements of ``core`` by broker number, ``core_of_kind`` those of brokers of this kind that have
    none by their number, ``address_settings`` further address settings.
    """

    links: Sequence[Sequence[int]] | None = None
    load_balancing: str = "ON_DEMAND"
    max_hops: int = 1
    options: str = ""
    core: Mapping[int, str] = field(default_factory=dict)
    core_of_kind: Mapping[str, str] = field(default_factory=dict)
    redistribution_delay: int = -1
    address_settings: str = ""
    addresses: str = ""
    connections: Mapping[str, str] = field(default_factory=lambda: {"interop-cluster": ""})
    """The names of the cluster connections, with the addresses that each is for."""
    passwords: Mapping[int, str] = field(default_factory=dict)
    """Cluster passwords of brokers that have another one."""
    proxied: bool = False
    """Each broker announces a proxy that tests can close; clients of the tests go to the broker directly."""
    direct_only: bool = False
    """Brokers open links to their static connectors only."""
    discovered: bool = False
    """The brokers find each other by UDP, instead of by static connectors."""
    secured: bool = False
    """The links use TLS, and both ends show certificates; clients of the tests go to the acceptor without TLS."""


class Nodes:
    """The brokers of a cluster, by number; they are not started yet."""

    def __init__(
        self,
        kinds: Sequence[str],
        folder: Path,
        shape: Shape = Shape(),
        make: Callable[[str, Path, Additions, int], Peer] = make_peer,
    ) -> None:
        self.shape = shape
        self.group_port = free_port()
        self.ports = [free_port() for _ in kinds]
        self.proxies = [CuttingProxy(port) for port in self.ports] if shape.proxied else []
        self._stores = make_stores(folder) if shape.secured else None
        announced = [free_port() for _ in kinds] if shape.secured else [proxy.port for proxy in self.proxies] or self.ports
        self.brokers: list[Peer] = []
        for number, kind in enumerate(kinds):
            additions = Additions(
                self._core(number, kind, announced),
                self._address_settings(),
                addresses=shape.addresses,
                acceptors="" if self._stores is None else _acceptor(announced[number], self._stores),
                name=f"node-{number}",
            )
            self.brokers.append(make(kind, folder / f"node-{number}", additions, self.ports[number]))

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all at once."""
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

    @property
    def discovery_url(self) -> str:
        """For clients, where the brokers announce themselves."""
        return f"udp://{GROUP_ADDRESS}:{self.group_port}?localBindAddress=127.0.0.1"

    def start(self) -> None:
        """Start all, side by side."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for done in [pool.submit(broker.start) for broker in self.brokers]:
                done.result()

    def _core(self, number: int, kind: str, ports: Sequence[int]) -> str:
        shape = self.shape
        others = [other for other in range(len(ports)) if other != number]
        linked = others if shape.links is None else shape.links[number]
        query = "" if self._stores is None else f"?{self._stores.parameters}"
        members = _static_connectors(linked, shape.direct_only)
        connection = {
            "own": number,
            "options": shape.options,
            "load_balancing": shape.load_balancing,
            "max_hops": shape.max_hops,
            "members": '            <discovery-group-ref discovery-group-name="heard"/>' if shape.discovered else members,
        }
        more = shape.core.get(number) or shape.core_of_kind.get(kind, "")
        if shape.discovered:
            more += DISCOVERY.format(address=GROUP_ADDRESS, port=self.group_port, own=number)
        return CORE.format(
            user=CLUSTER_USER,
            password=shape.passwords.get(number, CLUSTER_PASSWORD),
            connectors="\n".join(
                f'         <connector name="node-{other}">tcp://127.0.0.1:{port}{query}</connector>' for other, port in enumerate(ports)
            ),
            connections="".join(
                CONNECTION.format(name=name, address=f"            <address>{address}</address>" if address else "", **connection)
                for name, address in shape.connections.items()
            ),
            more=more,
        )

    def _address_settings(self) -> str:
        return f"""
         <address-setting match="moving.#">
            <redistribution-delay>{self.shape.redistribution_delay}</redistribution-delay>
         </address-setting>
{self.shape.address_settings}"""


def brokers_of(kinds: Sequence[str], count: int) -> tuple[str, ...]:
    """The kinds of so many brokers, in turn."""
    return tuple(itertools.islice(itertools.cycle(kinds), count))


def _acceptor(port: int, stores: Stores) -> str:
    return f'         <acceptor name="links">tcp://127.0.0.1:{port}?protocols=CORE;needClientAuth=true;{stores.parameters}</acceptor>\n'


def _static_connectors(numbers: Sequence[int], direct_only: bool) -> str:
    """An empty list is no valid element."""
    if not numbers:
        return ""
    references = "".join(f"<connector-ref>node-{number}</connector-ref>" for number in numbers)
    only = ' allow-direct-connections-only="true"' if direct_only else ""
    return f"            <static-connectors{only}>{references}</static-connectors>"
