"""Packets of home brokers: an extension of mqbroker, by which a broker consumes for its clients what another one keeps.

Source: ``protocol-spec/``, chapter "Home brokers".
"""

from mqclient.wire.packets.base import BOOL, I32, I64, I64_ARRAY, Packet, packet

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


@packet(-122, "SESS_RECEIVE_HELD")
class ReceiveHeld(Packet):
    """A message that the consuming broker has already, since it is in delivery to another consumer of the same session."""

    consumer_id: I64
    message_id: I64
    delivery_count: I32
