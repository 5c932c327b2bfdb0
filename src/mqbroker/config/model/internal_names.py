"""Names of queues that brokers of a cluster have for each other; Artemis names them in the same way."""

NOTIFICATION_QUEUE = "notif."
"""Begins the name of a queue by which a member hears of another one."""


def store_and_forward_prefix(internal_naming_prefix: str) -> str:
    """Begins the names of store-and-forward queues."""
    return f"{internal_naming_prefix}sf."


def store_and_forward_end(connection: str, node_id: str) -> str:
    """Follows the prefix for the messages to the member ``node_id`` of the cluster connection ``connection``."""
    return f"{connection}.{node_id}"
