"""One message inside the broker, and its memory: copies, expiry, duplicate ids, transformers.  Queues and stores do not come in."""
