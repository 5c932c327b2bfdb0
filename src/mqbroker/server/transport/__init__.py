"""The bytes of a connection: acceptors, TLS, HTTP, handshake, channels, liveness, limits.  What a packet means is not decided here."""
