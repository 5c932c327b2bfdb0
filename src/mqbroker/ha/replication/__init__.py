"""Replication: an active broker sends its writes to a replica, which takes over (Artemis manual, chapter on high availability).

Writes come in as changes of :mod:`mqbroker.storage.mirror`, and the right to be active as a proof.  Sockets do not come in.
"""
