"""Every packet of the CORE protocol as a class.

A packet class has its fields in wire order, and the type of each says how it is written and read.  :func:`decode_packet` and
:func:`encode_packet` know all of them, for protocol versions 121 to 136.

A field of type ``GROUP[...]`` begins an optional group: its fields are read only when bytes are left, and ``groups`` keeps how many
such groups a packet had, so that it is written again as it was read.

Source: ``protocol-spec/``, chapter "Packets" and those it names.
"""

# These modules hold only packets and their constants: a list of all names would repeat them.
from mqclient.wire.packets.base import *  # noqa: F403
from mqclient.wire.packets.cluster import *  # noqa: F403
from mqclient.wire.packets.codec import decode_packet as decode_packet
from mqclient.wire.packets.codec import encode_packet as encode_packet
from mqclient.wire.packets.connection import *  # noqa: F403
from mqclient.wire.packets.homes import *  # noqa: F403
from mqclient.wire.packets.messaging import *  # noqa: F403
from mqclient.wire.packets.queues import *  # noqa: F403
from mqclient.wire.packets.readers import *  # noqa: F403
from mqclient.wire.packets.sessions import *  # noqa: F403
