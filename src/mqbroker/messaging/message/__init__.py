"""One message inside the broker, and its memory: copies, expiry, transformers, large bodies.

The lowest room: queues and stores do not come in.
"""
