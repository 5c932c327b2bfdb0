"""The bytes of a connection: acceptors, TLS, HTTP, handshake, channels, liveness, limits; and the packets of no session.

A connection knows its sessions as :class:`~mqbroker.server.transport.connection_session.ConnectionSession`, and the server as its
``ConnectionOwner``: the meaning of a session's packets is not decided here.
"""
