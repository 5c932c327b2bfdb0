"""The session: its transaction and branches, its queues, its incoming packets, and its restoration after a failure.

The session holds the sending and the receiving side.  Its parts know the session by protocols of their own; its factory is a
:class:`mqclient.core.session.session.SessionOwner`.  This room neither connects nor chooses a broker.
"""
