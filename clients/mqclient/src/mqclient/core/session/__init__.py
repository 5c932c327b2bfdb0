"""A session: transactions, branches, queues, incoming packets, restoring after a failure."""
