"""The client without an event loop: what it needs of one is :class:`mqclient.core.runtime.Runtime`, which a shell brings.

Applications use what stands beside the rooms: ``api`` (the protocols of all objects, and the names of ``settings`` and ``listeners``),
``message``, ``batches``, ``readers``.

The rooms, the lowest first; none imports a higher one, not even for types:

- ``connection``: one connection, and the channels on it.
- ``discovery``: finding brokers.
- ``sending`` and ``consuming``: the two sides of a session, which do not know each other.
- ``session``: the session that holds both sides, and what belongs to it as a whole.
- ``factories``: the locator, its session factories, and how these make and restore sessions.

A part that needs something of a higher room says so in a protocol of its own, beside the class that needs it.
"""
