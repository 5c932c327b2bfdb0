"""The way of a message from its address to queues: bindings, diverts, distribution in a cluster, remote queues, message groups."""
