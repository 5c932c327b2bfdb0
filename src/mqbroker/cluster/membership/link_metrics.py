"""The metrics of the link to each member of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.cluster.membership.member import Member
    from mqbroker.server.observation.gauges import Gauges


def show(gauges: Gauges, cluster_connection: str, member: Member) -> Callable[[], None]:
    """Show the link from now on.  Returns the function that removes its series."""
    queue = member.store_and_forward
    return gauges.register_all(
        {"cluster": cluster_connection, "node": member.node_id},
        ("cluster.link.connected", "1 while there is a link to the member", lambda: member.state == "connected"),
        ("cluster.link.backlog", "Messages that wait for the member, those under way to it among them", lambda: queue.message_count),
        ("cluster.link.messages.acknowledged", "Messages that the member has acknowledged", lambda: queue.messages_acknowledged),
        ("cluster.link.bindings", "Queues that the member has made known", lambda: len(member.flow.bindings)),
        ("cluster.link.connections", "How often the link has come up", lambda: member.connections),
    )
