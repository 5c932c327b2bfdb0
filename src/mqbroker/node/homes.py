"""Assembly of a home cluster: its links, and the delivery over them.  Imported only by a broker that is a member of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.imq.delivery.delivery import Delivery
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeLoads

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.server.server import Server
    from mqclient.core.runtime import Runtime


class Homes:
    """The part of one broker in a home cluster."""

    def __init__(self, server: Server, runtime: Runtime, settings: HomeCluster) -> None:
        self.links = HomeLinks()
        self.delivery = Delivery(server.messaging, self.links, server.node_id, runtime, settings)
        self.loads = HomeLoads(self.links, lambda node_id: sum(1 for _ in self.delivery.remote_consumers(node_id)))
        coordination = self.delivery.coordination
        self._hide = server.gauges.register(
            "imq.branches.undecided",
            "Branches at other members whose outcome is not decided here, or is not known there",
            {},
            lambda: coordination.undecided,
        )

    def stop(self) -> None:
        """The links are closed, or are being closed."""
        self.delivery.stop()
        self._hide()
