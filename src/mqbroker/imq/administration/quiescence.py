"""The conditions for which a quiesced broker waits: its stop disturbs nobody, and loses nothing [B10.3]."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.server.server import Server


def has_clients(server: Server) -> bool:
    """Is a client connected?  Other brokers do not count, nor do administrators, who are taken also while the broker is quiesced."""
    administers = server.admission.is_administrator
    for connection in server.connections.values():
        if connection.logged_in and not connection.cluster_authorized:
            subjects = [session.subject for session in connection.sessions.values()]
            if not subjects or not all(each.is_cluster_user or administers(each) for each in subjects):
                return True
    return False


def has_transient_messages(server: Server) -> bool:
    """Are there messages that a stop would lose?"""
    queues = server.messaging.core.queues.values()
    return any(queue.message_count > queue.durable_message_count for queue in queues if not queue.definition.internal)
