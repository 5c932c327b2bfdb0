"""Packets of home brokers: an extension of mqbroker, by which a broker consumes for its clients what another one keeps.

Source: ``protocol-spec/``, chapter "Home brokers".
"""

from mqclient.wire.packets.base import BOOL, I64, I64_ARRAY, Packet, packet

HOME_LINK_KEY = "mqbroker-home-link"
"""The metadata of a session of the cluster user whose consumers belong to another broker; its value is that broker's node id."""


@packet(-121, "SESS_RETURN")
class ReturnMessages(Packet):
    """Messages in delivery to a consumer of a home link go back to their queue, in their places.

    With ``counted`` they were consumed in vain: as after a rollback.
    """

    consumer_id: I64
    counted: BOOL
    message_ids: I64_ARRAY
