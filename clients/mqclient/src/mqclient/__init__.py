"""A client of the Artemis CORE protocol, and the wire codec that it has in common with the broker.

The rooms, the lowest first; none imports a higher one:

- ``wire``: packets, messages and properties as bytes.
- ``protocol``: the state of a connection, a session and a topology, without I/O.
- ``storageformat``: the records of a broker's journal, for programs that read one.
- ``tls``: settings and key stores of a link.
- ``core``: the client itself, with coroutines.  This room touches no event loop, no socket and no clock: a shell brings them as its
  runtime.
- ``shells``: the parts of the shells.  The shells themselves are the modules ``asyncio``, ``sockets``, ``twisted`` and ``blocking``.
- ``jms``: a client in the shape of JMS, on ``blocking``; ``jndi`` makes its objects from a properties file.
"""
