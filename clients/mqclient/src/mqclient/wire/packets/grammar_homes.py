"""The packets of home brokers, described: an extension of mqbroker."""

from __future__ import annotations

import construct as cs

from mqclient.wire.packets.grammar_packets import CLIENT_TO_SERVER, SERVER_TO_CLIENT, Description
from mqclient.wire.packets.grammar_types import BOOL, I32, I64, I64_ARRAY

HOMES = (
    Description(
        -121,
        "SESS_RETURN",
        CLIENT_TO_SERVER,
        "session",
        "Give messages in delivery back to their queue, in their places. Ids that are not in delivery to the consumer are passed over.",
        cs.Struct(
            "consumer_id" / I64,
            "counted" / BOOL * "true: they were consumed in vain, as after a rollback; false: this delivery does not count",
            "message_ids" / I64_ARRAY,
        ),
    ),
    Description(
        -122,
        "SESS_RECEIVE_HELD",
        SERVER_TO_CLIENT,
        "session",
        "A message for another consumer of the same session, without its content.",
        cs.Struct(
            "consumer_id" / I64,
            "message_id" / I64 * "in delivery to another consumer of the session, which has got it whole",
            "delivery_count" / I32,
        ),
    ),
)
