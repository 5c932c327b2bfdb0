"""The session: its transaction and branches, its queues, what arrives for it, and how it goes on after a failure.

It holds the sending and the receiving side.  Its parts know it by protocols of their own; its factory is
:class:`mqclient.core.session.session.SessionOwner`.  Connecting and choosing a broker do not come in.
"""
