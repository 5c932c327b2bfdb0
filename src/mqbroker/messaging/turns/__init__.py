"""One turn of the event loop: what it has to deliver, write and answer at its end, and long work that is done in steps over many turns.

Of the store only the contract (:mod:`mqbroker.messaging.ports`) comes in; queues do not.
"""
