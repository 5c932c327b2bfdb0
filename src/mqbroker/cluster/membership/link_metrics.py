"""The metrics of the link to each member of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqbroker.cluster.membership.member_machine import connected

if TYPE_CHECKING:
    from mqbroker.cluster.membership.member import Member
    from mqbroker.server.observation.gauges import Gauges


def show(gauges: Gauges, cluster_connection: str, member: Member) -> Callable[[], None]:
    """Show the link from now on.  Returns the function that removes its series."""
    return gauges.register_all(
        {"cluster": cluster_connection, "node": member.node_id},
        ("cluster.link.connected", "1 while there is a link to the member", lambda: member.state == connected.name),
        ("cluster.link.connections", "How often the link has come up", lambda: member.connections),
        *member.load.series(),
    )
