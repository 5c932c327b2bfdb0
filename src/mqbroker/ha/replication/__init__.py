"""Replication: an active broker sends its writes to a replica, which takes over (Artemis manual, chapter on high availability)."""
