"""One turn of the event loop, with the deliveries, writes and answers at its end, and long work that is done in steps over many turns.

This room imports only the contract of the store (:mod:`mqbroker.messaging.ports`), and no queues.
"""
