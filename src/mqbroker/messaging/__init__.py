"""The messaging core: addresses, queues, and the way of a message from its arrival to its acknowledgement.

The needs of the core (time, a store, bodies of large messages) stand in :mod:`mqbroker.messaging.ports`, and the layers above fill them.
The protocol, Twisted, sockets and files do not come in.
"""
