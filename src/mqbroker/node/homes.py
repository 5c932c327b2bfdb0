"""Assembly of a home cluster: its links, and the delivery over them.  Imported only by a broker that is a member of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.imq.delivery.delivery import Delivery
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeLoads
from mqbroker.imq.links.operations import RESOURCE
from mqbroker.imq.links.requests import LinkedPeers
from mqbroker.imq.master.shared import SharedDefinitions
from mqclient.core.runtime import new_uuid

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.server.management.registry import Registry
    from mqbroker.server.server import Server
    from mqclient.core.runtime import Runtime


class Homes:
    """The part of one broker in a home cluster; ``kept`` are the settings of its store.

    Raises ValueError for a change record in the store that cannot be used.
    """

    def __init__(self, server: Server, runtime: Runtime, settings: HomeCluster, kept: Mapping[tuple[str, str], str]) -> None:
        self.links = HomeLinks()
        peers = LinkedPeers(self.links, lambda: f"imq.{new_uuid(runtime)}", settings.wait_reply_s, server.turn)
        registrar = server.messaging.registrar
        assert isinstance(registrar, HomeRegistrar)  # of such a configuration
        self.shared = SharedDefinitions(server, settings, peers, registrar, kept, lambda: new_uuid(runtime), server.store.fence)
        self._turn = server.turn
        self.delivery = Delivery(server.messaging, self.links, server.node_id, runtime, settings)
        self.loads = HomeLoads(self.links, lambda node_id: sum(1 for _ in self.delivery.remote_consumers(node_id)))
        coordination = self.delivery.coordination
        self._hide = server.gauges.register(
            "imq.branches.undecided",
            "Branches at other members whose outcome is not decided here, or is not known there",
            {},
            lambda: coordination.undecided,
        )

    def register(self, registry: Registry) -> None:
        """Let other members ask."""
        registry.register(RESOURCE, self.shared.operations)

    def start(self) -> None:
        """Before there are links and clients: this broker looks for the change record, or has it."""
        self._turn.run(self.shared.start)

    def stop(self) -> None:
        """The links are closed, or are being closed."""
        self._turn.run(self.shared.stop)
        self.delivery.stop()
        self._hide()
