"""One message inside the broker, and its memory: copies, expiry, transformers, large bodies.

This is the lowest room: it imports neither queues nor stores.
"""
