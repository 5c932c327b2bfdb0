"""Writes to the plain socket of a Twisted transport, without waiting until the reactor calls it writable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def write_directly(transport: Any, data: Sequence[bytes]) -> None:
    """Let the socket of ``transport``, a TCP connection without TLS, take these bytes at once.

    Every write saves two changes of the reactor's watch list and one of its turns.  Bytes that the socket does not take go to the
    transport, whose producer then hears of a full buffer as usual.
    """
    # Bytes that wait in the transport go first, and a closing transport decides itself about further bytes.
    if transport.dataBuffer or transport._tempDataBuffer or transport.disconnecting or not transport.connected:
        transport.writeSequence(data)
        return
    whole = data[0] if len(data) == 1 else b"".join(data)
    try:
        sent = transport.socket.send(whole)
    except BlockingIOError:
        sent = 0
    except OSError:
        transport.write(whole)  # the socket is broken: the reactor finds that when it writes, and ends the connection
        return
    if sent < len(whole):
        transport.write(whole[sent:])
