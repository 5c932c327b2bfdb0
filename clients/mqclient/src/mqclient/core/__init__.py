"""The client without an event loop: a shell passes in its loop as a :class:`mqclient.core.runtime.Runtime`.

Applications use the modules beside the rooms: ``api`` (all objects under the names of the Java core API, and the names of ``settings`` and
``listeners``), ``message``, ``batches``, ``readers``.

The rooms, the lowest first; none imports a higher one, not even for types:

- ``connection``: one connection, and the channels on it.
- ``discovery``: finding brokers.
- ``sending`` and ``consuming``: the two sides of a session, which do not know each other.
- ``session``: the session that holds both sides, and its transactions, queues and restoration.
- ``factories``: the locator, its session factories, and how these make and restore sessions.

A part that needs an object of a higher room describes it by a protocol, beside the class that needs it.
"""
